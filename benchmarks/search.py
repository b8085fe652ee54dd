"""Benchmark of search: AlphaZero on connect four, and what search adds to a policy that PPO has trained.

python benchmarks/search.py [--minutes 5] [--seeds 5] [--first-seed 0] [--threads 1] [--positions 2000] [--games 100]
                            [--set OPTION=VALUE …] [--quick]
python benchmarks/search.py --weights policy_0.safetensors      # only measure the policy of a checkpoint, with search

Positions come from a fixed generator, half of them from random games, half from games between players that look four
plies ahead; a move is optimal if it keeps the value that the exact solver gives the position. They are made once and
kept in --file. A run trains for a time: processor time of this process, so that a busy machine does not change the
result. Search has 100 ms for a move on one core; positions are searched in batches with the number of simulations that
one position gets in that time.

The gates, without which it fails: with search at least 95 % optimal moves (98 % from 25 minutes on), the raw network
90 %, and with --weights a gain of 4 points by search. With --quick: 85 % and 80 % after one minute.
Games against exact minimax are reported: the first player wins with perfect play.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time

import numpy as np
from figures import Goal, note_figure
from numpy.typing import NDArray

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.board_games.connect_four_bits import has_four
from mosaic.envs.compiled.registry import find_kernel
from mosaic.learners.alphazero.build import assemble_alphazero
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.base import Assembled
from mosaic.models.weights_file import load_weights, save_weights
from mosaic.policies.minimax import connect_four as solver
from mosaic.policies.minimax.connect_four_lines import judge_lines
from mosaic.policies.network import ValuedNetwork
from mosaic.policies.search.controller import Searcher
from mosaic.policies.search.tree import make_evaluator, make_leaves, make_rules, make_tree, plant

GAME, COLUMNS, ROWS, PITCH = "classic/connect_four_v3", 7, 6, 7
OPTIONS = {  # those of the preset
    "opening_plies": 24,
    "random_moves": 0.12,
    "vf_coef": 1.0,
    "batch_size": 256,
    "reuse": 6.0,
    "play_out": 0.0,
}
MOVE_MS, BATCH = 100, 100
CALIBRATION_S = 10
RAW, SEARCHED, SEARCHED_LONG, GAIN = 0.90, 0.95, 0.98, 0.04
QUICK = 0.80, 0.85  # raw, and with search
SIMULATIONS = (200, 2000)

Board = solver.ConnectFourBoard
Mover = Callable[[Sequence[Board]], list[int]]


def random_position(random: np.random.Generator) -> Board | None:
    """Play a random number of random moves; None if the game ended."""
    board = solver.EMPTY
    for _ in range(int(random.integers(2, 35))):
        board = solver.drop(board, int(random.choice(list(solver.landings(board)))))
        if is_over(board):
            return None
    return board


def played_positions(random: np.random.Generator) -> list[Board]:
    """Return three positions of a game between players that look four plies ahead and err now and then."""
    board, seen = solver.EMPTY, []
    while not is_over(board):
        seen.append(board)
        columns = list(solver.landings(board))
        erring = random.random() < 0.15 or len(seen) <= 2
        board = solver.drop(board, int(random.choice(columns if erring else judge_lines(board, columns, 4).moves)))
    return [seen[index] for index in random.choice(len(seen), min(3, len(seen)), replace=False)]


def is_won(board: Board) -> bool:
    """Return whether the player who has just moved has four."""
    return bool(has_four(np.uint64(board.theirs)))


def is_over(board: Board) -> bool:
    return is_won(board) or not solver.landings(board)


def make_positions(count: int) -> Iterator[Board]:
    """Yield different positions, first the random half."""
    random, seen = np.random.default_rng(12345), set[Board]()
    while len(seen) < count:
        drawn = [random_position(random)] if len(seen) < count // 2 else played_positions(random)
        for board in drawn:
            if board is not None and board not in seen and len(seen) < count:
                seen.add(board)
                yield board


def optimal_moves(board: Board) -> NDArray[np.bool_]:
    """Return which columns keep the value of the position."""
    columns, verdict = list(solver.landings(board)), solver.judge(board)
    best = list(verdict.moves)
    if verdict.value < 0:  # of these, the solver names those that do not lose at once
        best = columns
    elif is_won(solver.drop(board, best[0])):  # of these, those that win at once
        best = [column for column in columns if solver.value(solver.drop(board, column)) < 0]
    return np.array([column in best for column in range(COLUMNS)])


def load_positions(file: Path, count: int) -> tuple[list[Board], NDArray[np.bool_]]:
    if file.exists():
        kept = np.load(file)
        if len(kept["boards"]) == count:
            return [Board(int(mine), int(theirs)) for mine, theirs in kept["boards"]], kept["optimal"]
    began, boards = process_time(), list(make_positions(count))
    optimal = np.array([optimal_moves(board) for board in boards])
    np.savez(file, boards=np.array(boards, np.uint64), optimal=optimal)
    print(f"{count} positions made and solved in {process_time() - began:.0f} s of processor time", flush=True)
    return boards, optimal


def show(boards: Sequence[Board], searcher: Searcher) -> None:
    """Put positions at the roots of a searcher."""
    for number, board in enumerate(boards):
        row, taken = np.zeros((ROWS, COLUMNS, 2), np.float32), board.mine | board.theirs
        for column in range(COLUMNS):
            for height in range(ROWS):
                for plane, stones in enumerate(board):
                    row[ROWS - 1 - height, column, plane] = stones >> (PITCH * column + height) & 1
        searcher.shown.obs[number] = row.ravel()
        searcher.shown.mask[number] = [column in solver.landings(board) for column in range(COLUMNS)]
        searcher.shown.who[number] = taken.bit_count() % 2
        searcher.roots.ints[number] = board.mine, taken, taken.bit_count() % 2


def kernel_of_game():  # type: ignore[no-untyped-def]
    kernel = find_kernel(EnvironmentConfig(env_id=GAME))
    assert kernel is not None
    return kernel


def searching(network: ValuedNetwork, simulations: int) -> Mover:
    """Return a function that finds moves by search; 0 simulations: the network's most probable legal move."""
    kernel = kernel_of_game()
    searcher = Searcher(kernel, network, BATCH, simulations + 2, 1.5)

    def raw(boards: Sequence[Board]) -> list[int]:
        tree, leaves = make_tree(kernel, BATCH, 2), make_leaves(kernel, BATCH, 2)
        rules = make_rules(kernel)._replace(outlook=0)
        net = make_evaluator(network.architecture, network.weights, BATCH, network.scaling)
        plant(rules, tree, leaves, net, searcher.roots, searcher.shown)
        return [int(tree.prior[number, 0].argmax()) for number in range(len(boards))]

    def move(boards: Sequence[Board]) -> list[int]:
        found: list[int] = []
        for start in range(0, len(boards), BATCH):
            some = boards[start : start + BATCH]
            show([*some, *[some[0]] * (BATCH - len(some))], searcher)
            if simulations == 0:
                found += raw(some)
            else:
                found += [each.action for each in searcher.search(simulations)[: len(some)]]
        return found

    return move


def simulations_in(network: ValuedNetwork, boards: Sequence[Board], milliseconds: int) -> int:
    """Return the median number of simulations of one position in this time."""
    searcher, counts = Searcher(kernel_of_game(), network, 1, 1 << 18, 1.5), []
    for board in boards[:20]:
        show([board], searcher)
        (found,) = searcher.search(None, milliseconds)
        counts += [] if found.proven else [int(found.visits.sum())]
    return int(np.median(counts))


def play_minimax(move: Mover, games: int, first: bool) -> list[int]:
    """Play games against exact minimax, which draws among equally good moves; return 1, 0 or -1 for each."""
    random, boards = np.random.default_rng(int(first)), [solver.EMPTY] * games
    results: dict[int, int] = {}
    ply = 0
    while len(results) < games:
        running = [game for game in range(games) if game not in results]
        mine = (ply % 2 == 0) == first
        moves = move([boards[game] for game in running]) if mine else []
        for number, game in enumerate(running):
            column = moves[number] if mine else int(random.choice(solver.best_moves(boards[game])))
            boards[game] = solver.drop(boards[game], column)
            if is_over(boards[game]):
                results[game] = (1 if mine else -1) if is_won(boards[game]) else 0
        ply += 1
    return [results[game] for game in range(games)]


def moves_per_minute(options: AlphaZeroOptions) -> int:
    """Train for a while and return the moves in a minute of one thread: the learning rate falls until the last move."""
    learner = assembled(0, options, None).learner
    learner.iterate()  # compiles
    began, before = process_time(), learner.env_steps
    while process_time() - began < CALIBRATION_S:
        learner.iterate()
    rate = (learner.env_steps - before) / (process_time() - began)
    learner.close()
    return int(60 * rate)


def assembled(seed: int, options: AlphaZeroOptions, moves: int | None) -> Assembled:
    config = RunConfig.model_validate(
        {
            "environment": {"env_id": GAME},
            "training": {
                "worker": "native",
                "algorithm": "alphazero",
                "total_timesteps": moves,
            },
            "policy_configuration": "self_play",
            "seed": seed,
        }
    )
    return assemble_alphazero(config, options)


def train(minutes: float, seed: int, options: AlphaZeroOptions, rate: int) -> tuple[ValuedNetwork, str]:
    """Train for a time and return the network, and a line about the training."""
    made = assembled(seed, options, int(minutes * options.threads * rate))
    learner = made.learner
    learner.iterate()  # compiles
    began, clock, budget = process_time(), perf_counter(), 60 * minutes * options.threads
    while process_time() - began < budget:
        learner.iterate()
    progress, spent = learner.progress(), process_time() - began
    said = (
        f"{progress.episodes:,} games, {progress.env_steps:,} moves, {progress.env_steps / spent:,.0f} moves/s of "
        f"processor time, {perf_counter() - clock:.0f} s; "
        + ", ".join(f"{name} {value:.4g}" for name, value in progress.losses[0].items())
    )
    network = ValuedNetwork(made.architectures[0], learner.weights(0), None)
    learner.close()
    return network, said


def measure(network: ValuedNetwork, boards: list[Board], optimal: NDArray[np.bool_], games: int) -> tuple[float, float]:
    """Print and return the shares of optimal moves: of the raw network, and of search in 100 ms."""
    fitting = simulations_in(network, boards, MOVE_MS)
    half, shares = len(boards) // 2, {}
    for simulations in (0, *SIMULATIONS, fitting):
        began = process_time()
        right = optimal[np.arange(len(boards)), searching(network, simulations)(boards)]
        shares[simulations] = float(right.mean())
        print(
            f"  {simulations:6,} simulations: {right.mean():6.1%} optimal (random games {right[:half].mean():.1%}, "
            f"players' {right[half:].mean():.1%}), {1e3 * (process_time() - began) / len(boards):.1f} ms a position",
            flush=True,
        )
    for simulations in (0, *SIMULATIONS, fitting) if games else ():
        move = searching(network, simulations)
        for first in (True, False):
            found = play_minimax(move, games, first)
            wins, draws, losses = (found.count(result) for result in (1, 0, -1))
            role = "first" if first else "second"
            print(f"  {simulations:6,} simulations, {role} against minimax: {wins} / {draws} / {losses}", flush=True)
    return shares[0], shares[fitting]


def chosen(settings: list[str]) -> dict[str, object]:
    """Return options that were given as NAME=VALUE, the value in JSON."""
    return {name: json.loads(value) for name, _, value in (each.partition("=") for each in settings)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, for each thread")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--games", type=int, default=100, help="against minimax in each role; 0: none")
    parser.add_argument("--file", type=Path, default=Path("connect_four_positions.npz"), help="keeps the positions")
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="options of the algorithm to try")
    parser.add_argument("--weights", type=Path, help="a policy of a checkpoint, instead of training")
    parser.add_argument("--save", type=Path, help="folder for the trained networks")
    parser.add_argument(
        "--quick", action="store_true", help="one seed, one minute, 400 positions, 20 games, lower gates"
    )
    given = parser.parse_args()
    if given.quick:
        given.minutes, given.seeds, given.positions, given.games = 1.0, 1, 400, 20
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}", flush=True)
    boards, optimal = load_positions(given.file, given.positions)
    print(f"a random move is optimal in {mean(each.sum() for each in optimal) / COLUMNS:.1%} of all columns")
    options = AlphaZeroOptions.model_validate({**OPTIONS, "threads": given.threads, **chosen(given.set)})
    failed = []
    if given.weights is not None:
        saved = load_weights(given.weights)
        raw, searched = measure(ValuedNetwork(saved.architecture, saved.flat, None), boards, optimal, given.games)
        gain = 100 * (searched - raw)
        note_figure("points that search gains in 100 ms", "%", [gain], Goal("at least", 100 * GAIN, fixed=True))
        failed += [f"search gained {searched - raw:.1%}"] if searched - raw < GAIN else []
    else:
        raw_least, least = QUICK if given.quick else (RAW, SEARCHED)
        if given.minutes * given.threads >= 25:
            least = SEARCHED_LONG
        rate = moves_per_minute(options)
        raws, with_search = list[float](), list[float]()
        try:
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                network, said = train(given.minutes, seed, options, rate)
                print(f"seed {seed}: {said}", flush=True)
                if given.save is not None:
                    given.save.mkdir(parents=True, exist_ok=True)
                    save_weights(given.save / f"seed_{seed}.safetensors", network.architecture, network.weights, {})
                raw, searched = measure(network, boards, optimal, given.games)
                raws.append(100 * raw)
                with_search.append(100 * searched)
                failed += [f"seed {seed}: raw network {raw:.1%}"] if raw < raw_least else []
                failed += [f"seed {seed}: with search {searched:.1%}"] if searched < least else []
        finally:  # the seeds before Ctrl-C
            figures = {"of the raw network": (raws, raw_least), "with search in 100 ms": (with_search, least)}
            for what, (shares, goal) in figures.items():
                if shares:
                    note_figure(f"optimal moves {what}", "%", shares, Goal("at least", 100 * goal, fixed=True))
    if failed:
        sys.exit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
