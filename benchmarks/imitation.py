"""Benchmark of imitation: a clone of perfect tic-tac-toe, and interventions against learning from scratch.

python benchmarks/imitation.py [--games 2000] [--seeds 5]

The gates, without which it fails:
- A clone of games between `minimax` and itself after random openings chooses an optimal move in at least 97 % of the
  states of held-out games, and loses at most 1 % of 1,000 games against `random`.
- In four rooms that pay only at the goal, DQN that learns from 20 episodes in which a scripted expert took over from an
  untrained policy needs at most a third of the env steps to a mean return of 0.9 (over 100 episodes) that DQN from
  scratch needs, in the median over the seeds. The steps of the 20 episodes count.
"""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from figures import Goal, note_figure

import mosaic
from mosaic.config.run import RunConfig
from mosaic.core.episode import Episode
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.learners.dqn.build import assemble_dqn
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.recorded import Recorded, split_episodes
from mosaic.policies.minimax import tictactoe
from mosaic.policies.registry import load_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.trajectories import Trajectory, TrajectoryRecorder
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.recording import recording
from mosaic.store.demos.reference import datasets_of

GAME, OPENING = "classic/tictactoe_v3", 5  # random openings have 0 to 4 plies
LEAST_OPTIMAL, MOST_LOSSES, MATCHES = 0.97, 0.01, 1000
CLONING = {
    "dataset": "demo:openings",
    "controller_weights": {"minimax": 1, "*": 0},
    "hidden": (256, 256),
    "learning_rate": 2e-3,
    "learning_rate_schedule": "linear",
    "n_epochs": 60,
}

ROOMS = (
    "S...#.....",
    "....#.....",
    "..........",
    "....#.....",
    "##.###.###",
    "....#.....",
    "....#.....",
    "..........",
    "....#.....",
    "....#....G",
)
LIMIT, EPISODES = 80, 20
WORLD = {"env_id": "mosaic/gridworld", "options": {"map": "/".join(ROOMS), "max_steps": LIMIT}}
GOAL, LEAST_FACTOR, MOST_STEPS = 0.9, 3.0, 300_000
ALONE_STEPS = 8  # of the untrained policy, before the expert takes over
LEARNING: dict[str, Any] = {
    "hidden": (32,),
    "learning_rate": 1e-3,
    "buffer_size": 20_000,
    "learning_starts": 200,
    "train_freq": 1,
    "target_update_interval": 200,
    "gamma": 0.97,
    "exploration_final_eps": 0.1,
}
SCRATCH = {"exploration_fraction": 20_000 / MOST_STEPS}
EXAMPLES = {
    "dataset": "interventions",
    "controller_weights": {"human": 1, "*": 0},
    "demo_pretrain": 500,
    "exploration_initial_eps": 0.1,  # examples lead to the goal: nothing has to be found by chance
}


class Expert:
    """Scripted expert of the rooms, in the place of a person: the shortest way to the goal."""

    def __init__(self) -> None:
        self._moves = shortest_moves(ROOMS)

    def begin(self, agents: tuple[str, ...], seed: int) -> None: ...

    def act(self, turn: Turn) -> Mapping[str, int]:
        return {agent: self._moves[int(seen)] for agent, seen in turn.observations.items()}

    def close(self) -> None: ...


def shortest_moves(rooms: Sequence[str]) -> dict[int, int]:
    """Return, for each cell from which there is a way, the first move of a shortest way to the goal."""
    width, moves = len(rooms[0]), ((0, -1), (1, 0), (0, 1), (-1, 0))
    (goal,) = ((r, c) for r, row in enumerate(rooms) for c, letter in enumerate(row) if letter == "G")
    found: dict[int, int] = {goal[0] * width + goal[1]: 0}
    cells = deque([goal])
    while cells:
        row, column = cells.popleft()
        for action, (down, right) in enumerate(moves):
            r, c = row - down, column - right  # from where this action leads here
            if 0 <= r < len(rooms) and 0 <= c < width and rooms[r][c] != "#" and r * width + c not in found:
                found[r * width + c] = action
                cells.append((r, c))
    return found


def play(env: Env, seed: int, first: str, then: str, steps: int) -> tuple[Episode, list[Trajectory]]:
    """Play an episode in which another policy takes every agent's place after some env steps."""
    runner = LocalEnvRunner(env, {"*": first if steps else then}, controllers={"human": Expert()})
    recorder = TrajectoryRecorder(env)
    for turn in runner.turns(seed, digests=True):
        recorder.note(turn, runner.record)
        if 0 < runner.record.env_steps == steps:
            for agent in env.possible_agents:
                runner.set_policy_for_agent(agent, then)
    return runner.record, recorder.trajectories()


def record_games(home: Path, games: int) -> None:
    env = make_env(GAME)
    with recording(Demonstrations(home), "openings", env.spec.facts.config.model_dump(mode="json")) as sink:
        for number in range(games):
            sink.add(number, *play(env, number, "random", "minimax", number % OPENING))
    env.close()


def held_out_states(home: Path, run: mosaic.Run) -> list[Any]:
    """Return the observations, with masks, of the expert's moves in games that the run did not learn from."""
    recorded = [each for dataset in datasets_of("demo:openings", home) for each in dataset.trajectories()]
    numbers = np.array([number for number, _ in recorded])
    _, held_out = split_episodes(numbers, 0.1, child_seed(run.config.seed, "held_out"))
    return [
        (each.observations[step], each.masks[step], each.agent)
        for _, each in (recorded[index] for index in held_out)
        for step in range(len(each))
        if each.controllers[step] == "minimax" and each.masks is not None
    ]


def optimal_share(states: Iterable[Any], policy: Any) -> float:
    good = []
    for observation, mask, agent in states:
        turn = Turn({agent: observation}, {agent: mask}, {}, {}, {}, {}, {})
        best = tictactoe.judge(tictactoe.read_board(observation), mask.nonzero()[0].tolist()).moves
        good.append(policy.act(turn)[agent] in best)
    return sum(good) / len(good)


def clone_games(games: int, seed: int, matches: int = MATCHES) -> tuple[float, float, float]:
    """Return the share of optimal moves, the share of lost games against random, and the seconds of training."""
    with TemporaryDirectory(prefix="mosaic-imitation-") as folder:
        home = Path(folder)
        record_games(home, games)
        began = perf_counter()
        run = mosaic.train(
            GAME, worker="native", algorithm="bc", params=CLONING, total_timesteps=10**9, seed=seed, home=home
        )
        seconds = perf_counter() - began
        env = make_env(GAME)
        os.environ["MOSAIC_HOME"] = folder  # where `run:` policies are looked up
        policy = load_policy(f"run:{run.id}", env.spec)
        policy.begin(env.possible_agents, 0)
        share = optimal_share(held_out_states(home, run), policy)
        lost = 0
        for agent, other in (env.possible_agents, env.possible_agents[::-1]):
            mapping = {agent: f"run:{run.id}", other: "random"}
            result = mosaic.evaluate(GAME, mapping, episodes=matches // 2, seed=seed)
            lost += result.agents[agent].losses or 0
        return share, lost / matches, seconds


def record_interventions(seed: int) -> Recorded:
    """Return 20 episodes that a random policy begins and the expert ends."""
    env = make_env(WORLD["env_id"], **WORLD["options"])
    found = [
        (number, each)
        for number in range(EPISODES)
        for each in play(env, seed + number, "random", "human", ALONE_STEPS)[1]
    ]
    env.close()
    return found


def steps_to_goal(seed: int, recorded: Recorded, options: Mapping[str, Any]) -> int:
    """Return the env steps until the mean return over 100 episodes reaches the goal, with those of the dataset."""
    training = {"total_timesteps": MOST_STEPS, "algorithm": "dqn"}
    config = RunConfig.model_validate({"seed": seed, "environment": WORLD, "training": training})
    learner = assemble_dqn(config, DqnOptions.model_validate({**LEARNING, **options}), 0, recorded).learner
    while learner.env_steps < MOST_STEPS:
        learner.iterate()
        progress = learner.progress()
        if progress.episodes >= 100 and (progress.return_mean or 0) >= GOAL:
            break
    learner.close()
    return learner.env_steps + sum(len(each) for _, each in recorded)


def intervene(seeds: int) -> tuple[list[int], list[int]]:
    """Return the env steps with interventions and from scratch, for each seed."""
    helped = [steps_to_goal(seed, record_interventions(100 * seed), EXAMPLES) for seed in range(seeds)]
    return helped, [steps_to_goal(seed, (), SCRATCH) for seed in range(seeds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    helped, alone = intervene(given.seeds)
    factors = [scratch / mine for mine, scratch in zip(helped, alone, strict=True)]
    factor = median(factors)  # as in the report
    print(f"interventions: {sorted(helped)} env steps to {GOAL}, from scratch {sorted(alone)}: {factor:.1f}× fewer")
    note_figure("interventions: times fewer env steps", "×", factors, Goal("at least", LEAST_FACTOR, fixed=True))
    share, lost, seconds = clone_games(given.games, 0)
    note_figure(
        "clone: optimal moves in held-out states", "%", [100 * share], Goal("at least", 100 * LEAST_OPTIMAL, fixed=True)
    )
    note_figure("clone: games lost against random", "%", [100 * lost], Goal("at most", 100 * MOST_LOSSES, fixed=True))
    print(
        f"clone of {given.games} games: an optimal move in {share:.1%} of held-out states, {lost:.1%} of {MATCHES} "
        f"games against random lost; trained in {seconds:.1f} s"
    )
    if share < LEAST_OPTIMAL or lost > MOST_LOSSES or factor < LEAST_FACTOR:
        raise SystemExit("A gate was missed.")


if __name__ == "__main__":
    main()
