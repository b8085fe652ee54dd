"""Benchmarks of tabular learning: ours and the peer back to back, medians, ratios, a gate on every row.

python benchmarks/tabular.py [ROW ...] [--repeats 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete

from mosaic import evaluate, make_env
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.user import adapt
from mosaic.envs.compiled.mdp.mdp import Mdp
from mosaic.envs.compiled.registry import find_twin
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.optimal import prove
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.resumable import PlayedTraining
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.parallel import ParallelTraining

GAME = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
UNBEATABLE = TabularOptions(epsilon=1.0, epsilon_schedule="constant", learning_rate=1.0, discount_factor=1.0)
AGAINST_RANDOM = TabularOptions(epsilon=0.1, epsilon_schedule="constant")
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def row(what: str, ours: float, unit: str, peer: float | None = None, at_least: float | None = None) -> None:
    text = f"{what:58}{ours:16,.0f} {unit}"
    if peer is not None:
        text += f"   peer {peer:12,.0f}   ratio {ours / peer:9.2f}"
    if at_least is not None:
        text += f"   (at least {at_least:g})"
    print(text, flush=True)


def gate(true: bool, what: str) -> None:
    if not true:
        raise SystemExit(f"The gate failed, so the speed means nothing: {what}")


class NumpyPeer:
    """The classic task as a careful NumPy program: board, mask, winning lines and greedy ties are array operations."""

    lines = np.array(LINES)
    powers = 3 ** np.arange(9)

    def __init__(self, seed: int) -> None:
        self.table = np.zeros((3**9, 9))
        self.random = np.random.default_rng(seed)
        self.results: list[int] = []

    def won(self, board: Any, player: int) -> bool:
        return bool((board[self.lines] == player).all(axis=1).any())

    def pick(self, actions: Any) -> int:
        return int(actions[self.random.integers(len(actions))])

    def choose(self, state: int, free: Any) -> int:
        if self.random.random() < 0.1:
            return self.pick(free)
        values = self.table[state, free]
        return self.pick(free[values == values.max()])

    def train(self, steps: int) -> None:
        done = 0
        while done < steps:
            board, over = np.zeros(9, np.int8), False
            if self.random.random() < 0.5:
                board[self.random.integers(9)] = 2
            state, free = int(board @ self.powers), np.flatnonzero(board == 0)
            while not over:
                action = self.choose(state, free)
                reward = self.reply(board, action)
                free = np.flatnonzero(board == 0)
                over = reward != 0 or len(free) == 0
                after = int(board @ self.powers)
                target = reward if over else 0.99 * self.table[after, free].max()
                self.table[state, action] += 0.1 * (target - self.table[state, action])
                done += 1
                state = after
            self.results.append(reward)

    def reply(self, board: Any, action: int) -> int:
        """Play the action and the opponent's random reply; return the reward."""
        board[action] = 1
        if self.won(board, 1):
            return 1
        free = np.flatnonzero(board == 0)
        if len(free) == 0:
            return 0
        board[self.pick(free)] = 2
        return -1 if self.won(board, 2) else 0


class ListPeer:
    """The same, tuned by hand: only the table is NumPy; the board is a list, states incremental, Python's random."""

    def __init__(self, seed: int) -> None:
        self.table = np.zeros((3**9, 9))
        self.random = Random(seed)
        self.results: list[int] = []

    def won(self, board: list[int], player: int) -> bool:
        return any(board[a] == board[b] == board[c] == player for a, b, c in LINES)

    def choose(self, state: int, free: list[int]) -> int:
        if self.random.random() < 0.1:
            return self.random.choice(free)
        values = self.table[state, free]
        best = np.flatnonzero(values == values.max())
        return free[int(best[self.random.randrange(len(best))])] if len(best) > 1 else free[int(best[0])]

    def train(self, steps: int) -> None:
        powers, done = [3**i for i in range(9)], 0
        while done < steps:
            board, state = [0] * 9, 0
            if self.random.random() < 0.5:
                move = self.random.randrange(9)
                board[move], state = 2, 2 * powers[move]
            while True:
                free = [i for i in range(9) if not board[i]]
                action = self.choose(state, free)
                board[action], after = 1, state + powers[action]
                reward, over = 0.0, False
                if self.won(board, 1):
                    reward, over = 1.0, True
                else:
                    free = [i for i in range(9) if not board[i]]
                    if not free:
                        over = True
                    else:
                        move = self.random.choice(free)
                        board[move] = 2
                        after += 2 * powers[move]
                        free = [i for i in range(9) if not board[i]]
                        if self.won(board, 2):
                            reward, over = -1.0, True
                        elif not free:
                            over = True
                target = reward if over else reward + 0.99 * self.table[after, free].max()
                self.table[state, action] += 0.1 * (target - self.table[state, action])
                done += 1
                state = after
                if over:
                    self.results.append(int(reward))
                    break


def against_random(repeats: int) -> None:
    """Measure ours against two peers: the program the figure is stated against, and a faster one tuned by hand."""
    ours: list[float] = []
    peers: dict[type[NumpyPeer | ListPeer], list[float]] = {NumpyPeer: [], ListPeer: []}
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
        training.advance(10_000)
        ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
        for kind, speeds in peers.items():
            peer = kind(seed)
            speeds.append(40_000 / seconds(lambda p=peer: p.train(40_000)))
            gate(sum(peer.results[-2000:]) / 2000 > 0.4, f"{kind.__name__} learns too")
        training.read_statistics()
        training.advance(200_000)
        gate((training.read_statistics().return_mean or 0) > 0.8, "ours wins against random")
    row("tic-tac-toe against random (peer: Python and NumPy)", median(ours), "steps/s", median(peers[NumpyPeer]), 500)
    row("the same (peer: tuned by hand, lists and a NumPy table)", median(ours), "steps/s", median(peers[ListPeer]))


def self_play(repeats: int) -> None:
    from open_spiel.python import rl_environment
    from open_spiel.python.algorithms import tabular_qlearner

    ours, times, peers = [], [], []
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", UNBEATABLE, seed)
        spent = 0.0
        while not prove(GAME, training.values).unbeatable:
            spent += seconds(lambda t=training: t.advance(20_000))
            gate(training.env_steps < 5_000_000, "self-play becomes unbeatable")
        times.append(spent)
        ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
        env = rl_environment.Environment("tic_tac_toe")
        agents = [tabular_qlearner.QLearner(player_id=i, num_actions=9) for i in range(2)]
        peers.append(_open_spiel_speed(env, agents, 4_000))
    row("tic-tac-toe self-play, moves/s (peer: OpenSpiel)", median(ours), "moves/s", median(peers), 1000)
    row("time to a policy proven unbeatable", median(times) * 1e3, "ms (at most 50)")


def _open_spiel_speed(env: Any, agents: list[Any], moves: int) -> float:
    done, start = 0, perf_counter()
    while done < moves:
        step = env.reset()
        while not step.last():
            output = agents[step.observations["current_player"]].step(step)
            step = env.step([output.action])
            done += 1
        for agent in agents:
            agent.step(step)
    return done / (perf_counter() - start)


def cores(repeats: int) -> None:
    single, double = [], []
    for seed in range(repeats):
        one = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
        two = ParallelTraining(
            lambda n, seed=seed: TwinTraining(GAME, "q_learning", AGAINST_RANDOM, 100 * seed + n, "random"),
            2,
            1_000_000,
        )
        one.advance(10_000)
        two.advance(10_000)
        single.append(10_000_000 / seconds(lambda t=one: t.advance(10_000_000)))
        double.append(20_000_000 / seconds(lambda t=two: t.advance(20_000_000)))
        two.read_statistics()
        two.advance(200_000)
        gate((two.read_statistics().return_mean or 0) > 0.8, "the merged table wins against random")
    row("the same on two threads with merged tables", median(double), "steps/s", median(single), 1.6)


def cluster(repeats: int) -> None:
    """Measure two MPI ranks and two Ray actors on this machine, each next to a single learner in the same minute."""
    from mosaic.runtimes.mpi.tabular import MpiTraining
    from mosaic.runtimes.ray.tabular import RayTraining

    def spread(name: str) -> Any:
        where = (GAME, "q_learning", AGAINST_RANDOM, 7, "random")
        if name == "mpi":
            return MpiTraining(*where, ranks=2, merge_every=2_000_000)
        if name == "mpi server":
            return MpiTraining(*where, ranks=2, merge_every=2_000_000, mode="server")
        return RayTraining(*where, actors=2, merge_every=2_000_000)

    for name, at_least in (("mpi", 1.4), ("mpi server", 1.4), ("ray", 1.3)):
        training = spread(name)
        try:
            training.advance(100_000)
            single, double = [], []
            for seed in range(repeats):
                one = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
                one.advance(10_000)
                double.append(40_000_000 / seconds(lambda t=training: t.advance(40_000_000)))
                single.append(10_000_000 / seconds(lambda t=one: t.advance(10_000_000)))
            training.read_statistics()
            training.advance(400_000)
            gate((training.read_statistics().return_mean or 0) > 0.8, f"the table of {name} wins against random")
            row(f"the same with {name}, two learners", median(double), "steps/s", median(single), at_least)
        finally:
            training.close()


def toy_text(repeats: int) -> None:
    for env_id, best in (("gym/FrozenLake-v1", 0.70), ("gym/Taxi-v3", 7.0), ("gym/CliffWalking-v1", -13.5)):
        mdp = find_twin(EnvironmentConfig(env_id=env_id))
        options = TabularOptions(epsilon=0.5, epsilon_decay=0.9999, epsilon_min=0.0, learning_rate=0.05)
        ours, peers = [], []
        for seed in range(repeats):
            training = TwinTraining(mdp, "q_learning", options, seed)
            training.advance(1000)
            ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
            training.read_statistics()
            training.advance(1_000_000)
            reached = training.read_statistics().return_mean or 0.0
            gate(reached >= best, f"{env_id} reaches {best}, not {reached:.2f}")
            peers.append(_numpy_loop(env_id.removeprefix("gym/"), seed))
        row(f"{env_id} (peer: NumPy loop)", median(ours), "steps/s", median(peers), 200)


def _numpy_loop(name: str, seed: int, steps: int = 20_000) -> float:
    import gymnasium

    env = gymnasium.make(name)
    table = np.zeros((env.observation_space.n, env.action_space.n))  # type: ignore[attr-defined]
    random = np.random.default_rng(seed)
    state, _ = env.reset(seed=seed)
    start = perf_counter()
    for _ in range(steps):
        action = int(random.integers(table.shape[1])) if random.random() < 0.1 else int(table[state].argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        table[state, action] += 0.1 * (reward + 0.99 * (0 if terminated else table[after].max()) - table[state, action])
        state = after
        if terminated or truncated:
            state, _ = env.reset()
    return steps / (perf_counter() - start)


def python_env(repeats: int) -> None:
    """Measure what the learner adds to an env in Python: the same env with the same actions, with and without it."""
    alone, with_learner = [], []
    for seed in range(repeats):
        env = make_env("gym/FrozenLake-v1")
        learner = TabularLearner(16, 4, seed=seed)
        learner.train(env, steps=500)
        with_learner.append(seconds(lambda e=env, x=learner: x.train(e, steps=20_000)) / 20_000)
        random = Random(seed)

        def bare(env: Any = env, random: Random = random) -> None:
            turn = env.reset(0)
            for _ in range(20_000):
                turn = env.step({"agent_0": random.randrange(4)})
                if turn.over:
                    turn = env.reset()

        alone.append(seconds(bare) / 20_000)
    added = (median(with_learner) - median(alone)) * 1e6
    print(f"{'learning in a Python env, added to each step':58}{added:16.2f} µs (at most 3)")


class Walk(gymnasium.Env[Any, int]):
    """Twenty places on a ring, noisy moves; the goal is behind the start."""

    observation_space: Any = Discrete(20)
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.count = 0
        return self.seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.place = (self.place + (action if self.np_random.random() < 0.9 else 1)) % 20
        return self.seen(), float(self.place == 19), self.place == 19, self.count >= 200, {}

    def seen(self) -> Any:
        return self.place


class DictWalk(Walk):
    observation_space = Dict({"row": Discrete(5), "column": Discrete(4)})

    def seen(self) -> Any:
        return {"row": self.place // 4, "column": self.place % 4}


class OneStep(Walk):
    """An env whose episodes are one step: return the observation as the action."""

    observation_space, action_space = Discrete(2), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self.place = int(self.np_random.integers(2))
        return self.place, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.place, float(action == self.place), True, False, {}


def direct(repeats: int, steps: int = 100_000) -> None:
    """Measure stepped Python envs, as the worker steps them, against a careful NumPy loop in the same minute."""
    cases: tuple[tuple[str, type[Walk], Callable[[Any], int], float], ...] = (
        ("Discrete observations", Walk, int, 1.5),
        ("Dict observations", DictWalk, lambda seen: seen["row"] * 4 + seen["column"], 1.0),
        ("episodes of one step", OneStep, int, 1.5),
    )
    for what, env, code, at_least in cases:
        ours, peers = [], []
        for seed in range(repeats):
            facts = EnvFacts(EnvironmentConfig(env_id=f"python:benchmarks:{env.__name__}"))
            training = PlayedTraining(adapt(env(), facts), "q_learning", TabularOptions(), seed)
            training.advance(1000)
            ours.append(steps / seconds(lambda t=training: t.advance(steps)))
            training.read_statistics()
            training.advance(5000)
            gate((training.read_statistics().return_mean or 0.0) > 0.9, f"{what}: ours learns")
            peers.append(_plain_loop(env(), training.learner.values.shape, code, seed, steps // 4))
        row(f"stepped in Python, {what} (peer: NumPy loop)", median(ours), "steps/s", median(peers), at_least)


def _plain_loop(env: Walk, shape: tuple[int, ...], code: Callable[[Any], int], seed: int, steps: int) -> float:
    table, random = np.zeros(shape), np.random.default_rng(seed)
    state = code(env.reset(seed=seed)[0])
    start = perf_counter()
    for _ in range(steps):
        action = int(random.integers(shape[1])) if random.random() < 0.1 else int(table[state].argmax())
        seen, reward, terminated, truncated, _ = env.step(action)
        after = code(seen)
        table[state, action] += 0.1 * (reward + 0.99 * (0 if terminated else table[after].max()) - table[state, action])
        state = code(env.reset()[0]) if terminated or truncated else after
    return steps / (perf_counter() - start)


def python_engines(repeats: int, steps: int = 50_000) -> None:
    """Measure the engines numpy and list in a Python env against plain loops of their kind, which count no visits."""
    loops = {"numpy": _plain_loop, "list": _list_loop}
    for engine, loop in loops.items():
        ours, peers = [], []
        for seed in range(repeats):
            facts = EnvFacts(EnvironmentConfig(env_id="python:benchmarks:Walk"))
            options = TabularOptions.model_validate({"table_engine": engine})
            training = PlayedTraining(adapt(Walk(), facts), "q_learning", options, seed)
            training.advance(1000)
            ours.append(steps / seconds(lambda t=training: t.advance(steps)))
            training.read_statistics()
            training.advance(5000)
            gate((training.read_statistics().return_mean or 0.0) > 0.9, f"the engine {engine} learns")
            peers.append(loop(Walk(), (20, 4), int, seed, steps))
        row(f"the engine {engine} in Python (peer: a plain loop)", median(ours), "steps/s", median(peers), 1.0)


def _list_loop(env: Walk, shape: tuple[int, ...], code: Callable[[Any], int], seed: int, steps: int) -> float:
    table, random = [[0.0] * shape[1] for _ in range(shape[0])], Random(seed)
    state = code(env.reset(seed=seed)[0])
    start = perf_counter()
    for _ in range(steps):
        values = table[state]
        action = random.randrange(shape[1]) if random.random() < 0.1 else values.index(max(values))
        seen, reward, terminated, truncated, _ = env.step(action)
        after = code(seen)
        ahead = 0.0 if terminated else max(table[after])
        values[action] += 0.1 * (reward + 0.99 * ahead - values[action])
        state = code(env.reset()[0]) if terminated or truncated else after
    return steps / (perf_counter() - start)


def table_sizes() -> None:
    """Measure tables from the size of the first-level cache to 10**8 entries.

    An update touches two rows of the table, a count of visits and the env's own arrays (next state, reward, end,
    threshold, legal actions), which are larger than the table.
    """
    for states in (1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22, 25_000_000):
        training = TwinTraining(_random_mdp(states), "q_learning", TabularOptions(), 0)
        training.advance(100_000)
        nanoseconds = median(seconds(lambda t=training: t.advance(1_000_000)) for _ in range(3)) * 1e3
        entries, size = training.values.size, training.values.nbytes / 2**20
        del training
        print(
            f"table of {entries:11,} entries, {size:10,.3f} MiB: {nanoseconds:8.1f} ns per update, "
            f"a read that waits for the one before {_read_ns(entries):8.1f} ns",
            flush=True,
        )


def _random_mdp(states: int) -> Mdp:
    random = np.random.default_rng(1)
    shape = (states, 4, 1)
    return Mdp(
        random.integers(states, size=shape, dtype=np.int32), np.full(shape, 2.0), random.random(shape),
        np.zeros(shape, np.uint8), np.zeros(1, np.int32), np.full(1, 2.0), np.ones((states, 4), np.uint8), 0,
    )  # fmt: skip


def _read_ns(entries: int, steps: int = 1_000_000) -> float:
    """Measure the latency of memory of the table's size: a cycle through all entries, each naming the next.

    The step of a linear congruential generator is a single cycle where the multiplier minus one is divisible by 4 and
    by each prime factor of the number of entries (here 2 and 5), and the increment shares none with it.
    """
    from numba import njit

    @njit
    def chase(ring: Any, steps: int) -> int:
        place = np.int64(0)
        for _ in range(steps):
            place = np.int64(ring[place])
        return place

    ring = ((np.arange(entries) * 1_664_525_021 + 1_013_904_223) % entries).astype(np.int32)
    chase(ring, 1000)
    return median(seconds(lambda: chase(ring, steps)) for _ in range(3)) / steps * 1e9


class SelfPlayPeer(ListPeer):
    """Self-play in plain Python, tuned by hand: both agents share one table, from the mover's point of view."""

    def train(self, steps: int) -> None:
        powers = [3**i for i in range(9)]
        board, state, mover = [0] * 9, 0, 1
        for _ in range(steps):
            free = [i for i in range(9) if not board[i]]
            action = self.choose(state, free)
            board[action] = mover
            if self.won(board, mover) or len(free) == 1:
                reward = 1.0 if self.won(board, mover) else 0.0
                self.table[state, action] += 0.1 * (reward - self.table[state, action])
                self.results.append(int(reward) if mover == 1 else -int(reward))
                board, state, mover = [0] * 9, 0, 1
                continue
            mover = 3 - mover
            after = sum(powers[i] * (1 if mark == mover else 2) for i, mark in enumerate(board) if mark)
            free.remove(action)
            target = -0.99 * self.table[after, free].max()
            self.table[state, action] += 0.1 * (target - self.table[state, action])
            state = after


def train_command(repeats: int, steps: int = 30_000_000) -> None:
    """Measure the command `mosaic train`, the library and a Python loop in turn.

    The command: `mosaic train classic/tictactoe_v3 --worker tabular --steps 30000000`.
    """
    from mosaic.runs.trainer import Trainer

    command, library, peers = [], [], []
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", TabularOptions(), seed)
        training.advance(0)
        library.append(steps / seconds(lambda t=training: t.advance(steps)))
        peer = SelfPlayPeer(seed)
        peers.append(20_000 / seconds(lambda p=peer: p.train(20_000)))
        with TemporaryDirectory() as home:
            config = {
                "seed": seed,
                "environment": {"env_id": "classic/tictactoe_v3"},
                "training": {"worker": "tabular", "total_timesteps": steps},
            }
            run = Trainer(Path(home)).submit(config)
            run.wait()
            gate(run.state == "finished", f"the run {run.state}: {run.reason}")
            events = list(run.events())
            ended = next(event for event in events if event["kind"] == "ended")
            last = [event for event in events if event["kind"] == "iteration"][-1]
            gate(last["env_steps"] == steps, "all steps were taken")
            gate(abs(last["episode_reward_mean"]) < 0.2, "self-play comes close to draws")
        command.append(steps / ended["train_s"])
    row("mosaic train tic-tac-toe (peer: the library)", median(command), "moves/s", median(library), 0.8)
    row("the same (peer: self-play in Python, tuned by hand)", median(command), "moves/s", median(peers), 500)


def public_command(steps: int = 100_000_000) -> None:
    """Measure `Trainer` with the worker: process, metrics and checkpoint included."""
    from mosaic.runs.trainer import Trainer

    with TemporaryDirectory() as home:
        config = {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "training": {"worker": "tabular", "total_timesteps": steps, "params": {"opponent": "random"}},
        }
        run = Trainer(Path(home)).submit(config)
        run.wait()
        ended = next(event for event in run.events() if event["kind"] == "ended")
        agent_steps = max(event.get("agent_steps", 0) for event in run.events())
        gate(run.state == "finished", f"the run {run.state}: {run.reason}")
        result = evaluate("classic/tictactoe_v3", {"player_1": "random", "player_2": "random"}, episodes=1)
        gate(result.to_json()["episodes"] == 1, "games can be played")
        row("the same through a run (start of the worker apart)", agent_steps / ended["train_s"], "steps/s")


ROWS: dict[str, Callable[[int], None]] = {
    "against_random": against_random,
    "cores": cores,
    "cluster": cluster,
    "self_play": self_play,
    "train_command": train_command,
    "toy_text": toy_text,
    "python_env": python_env,
    "direct": direct,
    "python_engines": python_engines,
    "public_command": lambda repeats: public_command(),
    "table_sizes": lambda repeats: table_sizes(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="Only these rows; default: all.")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.rows or ROWS:
        ROWS[name](arguments.repeats)


if __name__ == "__main__":
    main()
