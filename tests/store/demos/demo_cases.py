"""Demonstrations that tests record: real games, and trajectories made up for a space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.core.episode import Episode
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.trajectories import Trajectory, TrajectoryRecorder, stack
from mosaic.store.demos.demonstration import Demonstration, Demonstrations
from mosaic.store.demos.recording import recording

TICTACTOE = "classic/tictactoe_v3"
PLAYERS = {"player_1": "minimax", "player_2": "random"}


class _Person:
    """Controller that always plays 0."""

    def begin(self, agents: tuple[str, ...], seed: int) -> None: ...

    def act(self, turn: Turn) -> dict[str, int]:
        return dict.fromkeys(turn.observations, 0)

    def close(self) -> None: ...


def played(
    env: Env,
    mapping: dict[str, str],
    seed: int = 0,
    max_steps: int | None = None,
    between: Callable[[LocalEnvRunner, Turn], None] = lambda runner, turn: None,
) -> tuple[Episode, list[Trajectory]]:
    """Play an episode; `between` is called after every Turn."""
    runner, recorder = LocalEnvRunner(env, mapping, controllers={"human": _Person()}), TrajectoryRecorder(env)
    for turn in runner.turns(seed, max_steps=max_steps, digests=True):
        recorder.note(turn, runner.record)
        between(runner, turn)
    return runner.record, recorder.trajectories()


def record_games(
    home: Path, name: str = "games", env_id: str = TICTACTOE, mapping: dict[str, str] = PLAYERS, episodes: int = 3
) -> Demonstration:
    store, env = Demonstrations(home), make_env(env_id)
    with recording(store, name, env.spec.facts.config.model_dump(mode="json")) as sink:
        for seed in range(episodes):
            sink.add(seed, *played(env, mapping, seed))
    env.close()
    return store.open(name)


def made_up(observations: Any, actions: Any, steps: int, *, masks: Any = None, agent: str = "agent_0") -> Trajectory:
    """Return a trajectory of members that the two spaces sample."""
    return Trajectory(
        agent=agent,
        observation_space=observations,
        action_space=actions,
        observations=stack(observations, [observations.sample() for _ in range(steps + 1)], "observation"),
        actions=stack(actions, [actions.sample() for _ in range(steps)], "action"),
        rewards=np.linspace(-1, 1, steps),
        masks=masks,
        terminated=steps % 2 == 0,
        truncated=steps % 2 == 1,
        controllers=tuple("human" if step % 3 else "run:best" for step in range(steps)),
        env_steps=np.arange(steps) * 2,
    )


def same_rows(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_rows(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_rows, one, other))
    return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
