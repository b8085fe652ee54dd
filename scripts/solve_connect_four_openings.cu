// Solver of connect four positions, thousands at a time: mosaic/policies/minimax/connect_four_search.py for a GPU.
//
//   nvcc -O3 -arch=native -o solve solve_connect_four_openings.cu && ./solve POSITIONS VALUES SECONDS TABLE_GB
//
// POSITIONS holds pairs of uint64 (stones of the mover, stones of both), none with a win in one; VALUES gets one int8
// each: 1, 0, -1, or 2 where there was not enough time. Without nvcc, `g++ -O3 -x c++` builds it for one core.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define CONSTANT __device__ const
#else
#include <chrono>
#define DEVICE inline
#define CONSTANT static const
#endif

typedef uint64_t u64;

#define PITCH 7
#define CELLS 42
#define BOTTOM 0x40810204081ULL  // the lowest cell of every column
#define BOARD (BOTTOM * 63)
#define COLUMN 127ULL
#define ROWS_OF_FIRST (BOTTOM * 21)
#define ODD_HEIGHTS (BOTTOM * 42)
#define TABLED_PLIES 9
#define PEEKED_PLIES 13
#define MIRRORED_UNTIL 14
#define FRAMES (CELLS + 1)
enum { WINS = 1, DOES_NOT_WIN = 2, DOES_NOT_LOSE = 4, LOSES = 8, KNOWLEDGE = 15 };
enum { UNSOLVED = 2 };

CONSTANT unsigned char LINES[49] = {3, 4, 5, 5, 4, 3, 0, 4, 6, 8, 8, 6, 4, 0, 5, 8, 11, 11, 8, 5, 0, 7, 10, 13, 13,
                                    10, 7, 0, 5, 8, 11, 11, 8, 5, 0, 4, 6, 8, 8, 6, 4, 0, 3, 4, 5, 5, 4, 3, 0};

DEVICE int count(u64 bits) {
#ifdef __CUDA_ARCH__
    return __popcll(bits);
#else
    return __builtin_popcountll(bits);
#endif
}

DEVICE u64 load(const u64* entry) {
#ifdef __CUDA_ARCH__
    return __ldcg(entry);  // other threads write the table while we read it
#else
    return *entry;
#endif
}

DEVICE bool has_four(u64 stones) {
    u64 up = stones & (stones >> 1), across = stones & (stones >> 7);
    u64 rising = stones & (stones >> 8), falling = stones & (stones >> 6);
    return ((up & (up >> 2)) | (across & (across >> 14)) | (rising & (rising >> 16)) | (falling & (falling >> 12))) != 0;
}

template <int STEP>
DEVICE u64 completions(u64 stones) {
    u64 above = (stones << STEP) & (stones << (2 * STEP)), below = (stones >> STEP) & (stones >> (2 * STEP));
    return (above & ((stones << (3 * STEP)) | (stones >> STEP))) | (below & ((stones >> (3 * STEP)) | (stones << STEP)));
}

DEVICE u64 winning_cells(u64 stones, u64 mask) {
    u64 cells = (stones << 1) & (stones << 2) & (stones << 3);
    return (cells | completions<7>(stones) | completions<8>(stones) | completions<6>(stones)) & (BOARD ^ mask);
}

DEVICE u64 mirrored(u64 bits) {
    u64 result = 0;
    for (int column = 0; column < 7; column++) {
        result = (result << PITCH) | (bits & COLUMN);
        bits >>= PITCH;
    }
    return result;
}

DEVICE bool holds_on_top(u64 first, u64 mask) {
    u64 odd = (mask + BOTTOM) & ODD_HEIGHTS;
    u64 stones = first | (ROWS_OF_FIRST & ~mask);
    if (!odd) return !has_four(stones);
    u64 one = odd & (~odd + 1), other = odd ^ one;
    if (!other || (other & (other - 1))) return false;
    return !has_four(stones | one) && !has_four(stones | other);
}

DEVICE u64 key_of(u64 mine, u64 mask, int ply) {
    u64 position = mine + mask;
    if (ply <= MIRRORED_UNTIL) {
        u64 image = mirrored(mine) + mirrored(mask);
        if (image < position) position = image;
    }
    return position;
}

struct Table {
    u64* entries;
    u64 size;
};

DEVICE u64 slot(Table table, u64 key) {
    u64 mixed = key * 0x9E3779B97F4A7C15ULL;
#ifdef __CUDA_ARCH__
    return __umul64hi(mixed, table.size);
#else
    return (u64)(((unsigned __int128)mixed * table.size) >> 64);
#endif
}

DEVICE int known(Table table, u64 key) {
    u64 entry = load(table.entries + slot(table, key));
    return entry >> 4 == key ? (int)(entry & KNOWLEDGE) : 0;
}

DEVICE void learn(Table table, u64 key, int fact) {
    table.entries[slot(table, key)] = (key << 4) | known(table, key) | fact;
}

struct Frame {
    u64 mine, mask;
    unsigned order;  // columns still to try, three bits each, the next one lowest; 7 ends the list
};

// A search as a loop, because threads of a warp wait for each other when their recursions diverge.
struct Search {
    Frame frames[FRAMES];
    int depth, first_ply;
    bool first_to_win;
    unsigned noise;  // breaks ties between moves differently: helpers of one search should not run in lockstep

    DEVICE void begin(u64 mine, u64 mask, bool to_win, unsigned salt) {
        frames[0].mine = mine;
        frames[0].mask = mask;
        depth = 0;
        first_ply = count(mask);
        first_to_win = to_win;
        noise = salt;
    }

    // 1 or 0: the node is decided; -1: frames[depth].order holds its moves
    DEVICE int enter(Table table) {
        Frame& frame = frames[depth];
        const u64 mine = frame.mine, mask = frame.mask, theirs = mask ^ mine;
        const int ply = first_ply + depth, left = CELLS - ply;
        const bool to_win = first_to_win ^ (depth & 1);
        if (left <= 1) return !to_win;
        u64 threats = winning_cells(theirs, mask), possible = (mask + BOTTOM) & BOARD, forced = threats & possible;
        if (forced & (forced - 1)) return 0;
        if (forced) possible = forced;
        possible &= ~(threats >> 1);
        if (!possible) return 0;
        if (left == 2) return !to_win;
        if (to_win && !has_four(BOARD ^ theirs)) return 0;
        if (!to_win && !has_four(BOARD ^ mine)) return 1;
        if (to_win && ply % 2 == 0 && holds_on_top(mine, mask)) return 0;
        if (left >= TABLED_PLIES) {
            int facts = known(table, key_of(mine, mask, ply));
            if (facts & (to_win ? WINS : DOES_NOT_LOSE)) return 1;
            if (facts & (to_win ? DOES_NOT_WIN : LOSES)) return 0;
        }
        // score and column in one number, the best first
        unsigned ranked[7];
        int moves = 0;
        for (int column = 0; column < 7; column++) {
            u64 move = possible & (COLUMN << (PITCH * column));
            if (!move) continue;
            if (!to_win && ply % 2 == 1 && holds_on_top(theirs, mask | move)) return 1;
            if (left >= PEEKED_PLIES) {
                int facts = known(table, key_of(theirs, mask | move, ply + 1));
                if (facts & (to_win ? LOSES : DOES_NOT_WIN)) return 1;
            }
            unsigned score = 64 * count(winning_cells(mine | move, mask | move)) + LINES[count(move - 1)];
            unsigned tie = noise ? ((noise * 2654435761u) >> (3 * column)) & 7 : 0;
            score = (noise ? score + 2 * tie : score) << 3 | column;
            int place = moves++;
            while (place > 0 && ranked[place - 1] < score) {
                ranked[place] = ranked[place - 1];
                place--;
            }
            ranked[place] = score;
        }
        unsigned order = 7;
        for (int index = moves - 1; index >= 0; index--) order = order << 3 | (ranked[index] & 7);
        frame.order = order;
        return -1;
    }

    // Visit one more node: 1 or 0 when the search is done, -1 while it continues.
    DEVICE int step(Table table) {
        int result = enter(table);
        while (result >= 0) {  // pass the result up until a node has a move left to try
            if (depth == 0) return result;
            depth--;
            Frame& parent = frames[depth];
            const bool to_win = first_to_win ^ (depth & 1);
            if (result && (parent.order & 7) != 7) break;
            result = !result;
            const int ply = first_ply + depth;
            if (CELLS - ply >= TABLED_PLIES) {
                int fact = to_win ? (result ? WINS | DOES_NOT_LOSE : DOES_NOT_WIN)
                                  : (result ? DOES_NOT_LOSE : LOSES | DOES_NOT_WIN);
                learn(table, key_of(parent.mine, parent.mask, ply), fact);
            }
        }
        Frame& frame = frames[depth];
        u64 move = (frame.mask + BOTTOM) & BOARD & (COLUMN << (PITCH * (frame.order & 7)));
        frame.order >>= 3;
        frames[depth + 1].mine = frame.mask ^ frame.mine;
        frames[depth + 1].mask = frame.mask | move;
        depth++;
        return -1;
    }
};

#ifdef __CUDACC__
DEVICE u64 now_ns() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

struct Jobs {
    const u64* positions;
    signed char* values;
    unsigned count;
    unsigned* next;
    u64* nodes;
};

__global__ void start_clock(u64* deadline, double seconds) { *deadline = now_ns() + (u64)(seconds * 1e9); }

// Threads take positions until none are left, then help with those that others are still working on.
__global__ void __launch_bounds__(128) solve(Jobs jobs, Table table, const u64* deadline) {
    Search search;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned job = 0, rounds = 0;
    bool idle = true, helping = false;
    u64 visited = 0;
    while (true) {
        if (idle) {
            unsigned taken = helping ? jobs.count : atomicAdd(jobs.next, 1u);
            if (taken < jobs.count) {
                job = taken;
            } else {
                helping = true;
                unsigned start = (thread * 2654435761u + ++rounds * 40503u) % jobs.count, tried = 0;
                while (tried < jobs.count && ((volatile signed char*)jobs.values)[(start + tried) % jobs.count] != UNSOLVED)
                    tried++;
                if (tried == jobs.count) break;
                job = (start + tried) % jobs.count;
            }
            u64 mask = jobs.positions[2 * job + 1];
            search.begin(jobs.positions[2 * job], mask, count(mask) % 2 == 0, helping ? thread * 31 + rounds : 0);
            idle = false;
        }
        int result = search.step(table);
        if (result >= 0) {
            u64 mine = search.frames[0].mine, mask = search.frames[0].mask;
            if (search.first_to_win && result) {
                jobs.values[job] = 1;
                idle = true;
            } else if (!search.first_to_win && !result) {
                jobs.values[job] = -1;
                idle = true;
            } else if (search.first_to_win == (count(mask) % 2 == 0)) {
                search.begin(mine, mask, !search.first_to_win, search.noise);  // the other goal: a win, or at least a draw
            } else {
                jobs.values[job] = 0;
                idle = true;
            }
        }
        if ((++visited & 1023) == 0) {
            if (now_ns() > *deadline) break;
            if (((volatile signed char*)jobs.values)[job] != UNSOLVED) idle = true;
        }
    }
    atomicAdd((unsigned long long*)jobs.nodes, (unsigned long long)visited);
}

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

static void run(const std::vector<u64>& positions, std::vector<signed char>& values, double seconds, double table_gb) {
    Table table;
    table.size = (u64)(table_gb * (1 << 27));
    check(cudaMalloc(&table.entries, table.size * 8));
    check(cudaMemset(table.entries, 0, table.size * 8));
    Jobs jobs;
    jobs.count = values.size();
    u64 *device_positions, *deadline;
    check(cudaMalloc(&device_positions, positions.size() * 8));
    check(cudaMemcpy(device_positions, positions.data(), positions.size() * 8, cudaMemcpyHostToDevice));
    jobs.positions = device_positions;
    check(cudaMalloc(&jobs.values, jobs.count));
    check(cudaMemset(jobs.values, UNSOLVED, jobs.count));
    check(cudaMalloc(&jobs.next, 4));
    check(cudaMemset(jobs.next, 0, 4));
    check(cudaMalloc(&jobs.nodes, 8));
    check(cudaMemset(jobs.nodes, 0, 8));
    check(cudaMalloc(&deadline, 8));
    int processors, blocks;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, solve, 128, 0));
    start_clock<<<1, 1>>>(deadline, seconds);
    solve<<<processors * blocks, 128>>>(jobs, table, deadline);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(values.data(), jobs.values, jobs.count, cudaMemcpyDeviceToHost));
    u64 nodes;
    check(cudaMemcpy(&nodes, jobs.nodes, 8, cudaMemcpyDeviceToHost));
    printf("%d threads, %.1f G nodes\n", processors * blocks * 128, nodes / 1e9);
}
#else
static void run(const std::vector<u64>& positions, std::vector<signed char>& values, double, double table_gb) {
    Table table;
    table.size = (u64)(table_gb * (1 << 27));
    std::vector<u64> entries(table.size);
    table.entries = entries.data();
    static Search search;
    for (size_t job = 0; job < values.size(); job++) {
        int answers[2];
        for (int to_win = 0; to_win < 2; to_win++) {
            search.begin(positions[2 * job], positions[2 * job + 1], to_win, 0);
            while ((answers[to_win] = search.step(table)) < 0) {
            }
        }
        values[job] = answers[1] ? 1 : answers[0] ? 0 : -1;
    }
}
#endif

int main(int argc, char** argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s POSITIONS VALUES SECONDS TABLE_GB\n", argv[0]);
        return 2;
    }
    FILE* file = fopen(argv[1], "rb");
    if (!file) {
        perror(argv[1]);
        return 2;
    }
    std::vector<u64> positions;
    u64 pair[2];
    while (fread(pair, 8, 2, file) == 2) positions.insert(positions.end(), pair, pair + 2);
    fclose(file);
    std::vector<signed char> values(positions.size() / 2, UNSOLVED);
    run(positions, values, atof(argv[3]), atof(argv[4]));
    int counts[4] = {0, 0, 0, 0};
    for (signed char value : values) counts[value + 1]++;
    printf("%d lost, %d drawn, %d won, %d unsolved\n", counts[0], counts[1], counts[2], counts[3]);
    file = fopen(argv[2], "wb");
    if (!file || fwrite(values.data(), 1, values.size(), file) != values.size()) {
        perror(argv[2]);
        return 1;
    }
    return fclose(file) ? 1 : 0;
}
