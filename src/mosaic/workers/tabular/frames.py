"""Frames of a tabular run: camera scenes, and pauses of the training to draw them.

A compiled loop cannot be inspected while it runs. It can be interrupted after any step with a bit-identical result, so
it runs in pieces of some milliseconds while there are viewers, and in one piece otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.compiled.board_games.connect_four import position_of_key
from mosaic.envs.compiled.board_games.tictactoe import MINE, THEIRS, cells_of
from mosaic.envs.compiled.board_games.tictactoe_env import AGENTS as TICTACTOE_AGENTS
from mosaic.envs.compiled.mdp.mdp import Mdp
from mosaic.envs.compiled.registry import has_twin
from mosaic.envs.compiled.vector import CompiledVector, make_compiled_vector
from mosaic.learners.tabular.hashed.training import HashedTraining
from mosaic.learners.tabular.kernels.loops import (
    ENDED,
    EPISODES,
    NOWHERE,
    RETURN,
    RETURNS,
    STATE,
    STEP_IN_EPISODE,
    LoopProgress,
)
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.learners.tabular.training.resumable import PlayedTraining
from mosaic.learners.tabular.training.twin import SteppedEnv, Twin, TwinTraining
from mosaic.runners.screen import Draw, Shot
from mosaic.runtimes.bookkeeping import SpreadTraining
from mosaic.runtimes.parallel import ParallelTraining
from mosaic.workers.camera import Camera

if TYPE_CHECKING:
    from mosaic.workers.context import WorkerContext
    from mosaic.workers.tabular.training import TableTraining

PIECE_S = 0.01
ASK_EVERY_S = 0.002  # a step of a small env takes microseconds; asking at each would be a tenth of that
WATCHED_S = 2.0  # after a frame; the camera handles the rate that viewers request
_MOST_SETTLING = 50
_NO_ACTION = -1
_CONNECT_FOUR_AGENTS: tuple[AgentID, ...] = ("player_0", "player_1")

Advance: TypeAlias = Callable[[int, int], None]
Ints: TypeAlias = tuple[int, int, int]  # in the layout of the env's kernel
OnTwin: TypeAlias = TwinTraining | HashedTraining
Together: TypeAlias = ParallelTraining | SpreadTraining


class WatchedTraining(NamedTuple):
    advance: Advance  # same result as the training's own, with frames for viewers
    camera: Camera | None  # for frames of evaluations; None if the run has none


@contextmanager
def watched(context: WorkerContext, training: TableTraining) -> Iterator[WatchedTraining]:
    """Yield how to advance a training that may have viewers."""
    if not context.config.telemetry.frames:
        yield WatchedTraining(training.advance, None)
    elif isinstance(training, PlayedTraining | MultiAgentTraining):
        env = PlayedScene(training)
        with Camera(context, env) as camera:
            training.watch(env.look_through(camera))
            yield WatchedTraining(training.advance, camera)
    elif not isinstance(training, HashedTraining) and not has_twin(context.config.environment.id):
        with Camera(context, UnseenScene()) as camera:  # a user's own env cannot be set to a state
            yield WatchedTraining(training.advance, camera)
    else:
        assert isinstance(training, OnTwin | Together)
        with closing(TwinScene(training, context.config.environment)) as twin, Camera(context, twin) as camera:
            yield WatchedTraining(Pieces(training, twin, camera).advance, camera)


class UnseenScene:
    """Scene of a training that cannot be drawn; its evaluations, which step the env itself, can."""

    envs, freezes = 0, False

    def shoot(self, index: int) -> Shot:
        raise MosaicError("the states of this training cannot be drawn")


class PlayedScene:
    """Scene of the env itself, drawn between two of its steps: its state cannot be kept for later."""

    envs, freezes = 1, False

    def __init__(self, training: PlayedTraining | MultiAgentTraining) -> None:
        self._training = training
        self._length, self._reward = 0, 0.0
        self._returns: Mapping[AgentID, float] = {}

    def look_through(self, camera: Camera) -> Callable[[int, float, Mapping[AgentID, float]], None]:
        due_s = 0.0

        def glance(length: int, reward: float, returns: Mapping[AgentID, float]) -> None:
            nonlocal due_s
            now_s = perf_counter()
            if now_s < due_s:
                return
            due_s = now_s + ASK_EVERY_S
            self._length, self._reward, self._returns = length, reward, returns
            camera.glance()

        return glance

    def shoot(self, index: int) -> Shot:
        training = self._training
        steps = training.episode_began + self._length
        return Shot(training.env.render, index, steps, training.episodes, self._reward, self._returns)


class LastStep(NamedTuple):
    """Last step of one learner in its running episode, as far as it is known."""

    agent_steps: int
    action: int = _NO_ACTION
    reward: float = 0.0


class TwinScene:
    """Scene of each learner's state in the twin, drawn by the reference env, which is created for the first frame."""

    freezes = True

    def __init__(
        self, training: OnTwin | Together, environment: EnvironmentConfig, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._training, self._environment, self._clock = training, environment, clock
        self.envs = len(_progress(training))
        self._last = LastStep(0)
        self._shot_at = -WATCHED_S
        self._vector: CompiledVector | None = None

    def is_watched(self) -> bool:
        return self._clock() - self._shot_at < WATCHED_S

    def shoot(self, index: int) -> Shot:
        self._shot_at = self._clock()
        training, progress = self._training, _progress(self._training)[index]
        last = self._last if self._last.agent_steps == training.agent_steps else LastStep(0)
        agents, ints = _place(training, progress, last.action)
        first, *others = agents
        return Shot(
            draw=self._draw(ints),
            env=index,
            env_steps=training.env_steps,
            episode=int(progress.counts[EPISODES]),
            reward=last.reward,
            returns={first: float(progress.sums[RETURN]), **dict.fromkeys(others, 0.0)},
        )

    def settle(self, most_steps: int, episodes: int) -> None:
        """Continue step by step into the middle of an episode: between two there is nothing to draw."""
        training = self._training
        if not isinstance(training, OnTwin):  # several learners advance together or not at all
            return
        for _ in range(min(most_steps, _MOST_SETTLING)):
            self._last = _take_step(training, episodes)
            if training.progress.counts[STATE] != NOWHERE:
                return

    def _draw(self, ints: Ints | None) -> Draw:
        def draw() -> NDArray[np.uint8] | None:
            if ints is None:
                return None
            if self._vector is None:
                self._vector = _drawing_board(self._environment)
            self._vector.ints[0] = ints
            return self._vector.render(0)

        return draw

    def close(self) -> None:
        if self._vector is not None:
            self._vector.close()


class Cut(Protocol):
    """Part of a scene that `Pieces` needs."""

    def is_watched(self) -> bool: ...

    def settle(self, most_steps: int, episodes: int) -> None: ...


class Glances(Protocol):
    def glance(self) -> None: ...


class Pieces:
    """Compiled training that is interrupted for frames while there are viewers."""

    def __init__(
        self, training: OnTwin | Together, scene: Cut, camera: Glances, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._training, self._scene, self._camera, self._clock = training, scene, camera, clock
        self._grain = grain_of(training)
        self._per_second = 0.0

    def advance(self, steps: int, episodes: int = 0) -> None:
        training = self._training
        goal = training.agent_steps + steps
        while (left := goal - training.agent_steps) > 0 and not (episodes and training.episodes >= episodes):
            self._camera.glance()
            if self._grain is None or not self._scene.is_watched():
                training.advance(left, episodes)
                return
            wanted = int(self._per_second * PIECE_S) // self._grain + 1
            self._piece(min(left, wanted * self._grain), episodes)
            self._scene.settle(goal - training.agent_steps, episodes)

    def _piece(self, steps: int, episodes: int) -> None:
        started, before = self._clock(), self._training.agent_steps
        self._training.advance(steps, episodes)
        self._per_second = (self._training.agent_steps - before) / max(self._clock() - started, 1e-6)


def _take_step(training: OnTwin, episodes: int) -> LastStep:
    """Take one step and reconstruct its action and reward from what changed: the compiled loop keeps neither."""
    counts, sums = training.progress.counts, training.progress.sums
    state, earned = int(counts[STATE]), float(sums[RETURN])
    visits = np.zeros(0, np.int32)
    if isinstance(training, TwinTraining) and state != NOWHERE:
        visits = training.visits[state]
    before = visits.copy()
    training.advance(1, episodes)
    if counts[STATE] == NOWHERE:
        return LastStep(training.agent_steps)
    tried = np.flatnonzero(visits != before)
    action = int(tried[0]) if len(tried) else _NO_ACTION
    return LastStep(training.agent_steps, action, float(sums[RETURN]) - earned)


def _progress(training: OnTwin | Together) -> Sequence[LoopProgress]:
    """Return the progress of each learner."""
    return [training.progress] if isinstance(training, OnTwin) else training.progress


def grain_of(training: TableTraining) -> int | None:
    """Return the number of agent steps at whose multiples `advance` can be split without a difference.

    None: it cannot be split.
    """
    match training:
        case ParallelTraining():
            return training.round_steps
        case SpreadTraining():
            return None  # the processes would wait for each other more often
        case _:
            return 1


def mean_return(training: TableTraining) -> float | None:
    """Return the mean return of episodes since the last report; None if none has ended or it is not known."""
    if isinstance(training, PlayedTraining | MultiAgentTraining):
        return training.mean_return
    if not isinstance(training, OnTwin | Together):
        return None
    ended = sum(float(progress.sums[ENDED]) for progress in _progress(training))
    return sum(float(progress.sums[RETURNS]) for progress in _progress(training)) / ended if ended else None


def _place(
    training: OnTwin | Together, progress: LoopProgress, last_action: int
) -> tuple[Sequence[AgentID], Ints | None]:
    """Return the agents and the position; None if no episode runs and the next may begin anywhere."""
    state = int(progress.counts[STATE])
    if isinstance(training, HashedTraining):
        return _CONNECT_FOUR_AGENTS, (0, 0, 0) if state == NOWHERE else _connect_four(state)
    twin: Twin = training.twin
    assert not isinstance(twin, SteppedEnv), "what is stepped in other processes is not drawn"
    if not isinstance(twin, Mdp):
        return TICTACTOE_AGENTS, _tictactoe(twin.start if state == NOWHERE else state)
    if state != NOWHERE:
        return (AGENT,), (state, int(progress.counts[STEP_IN_EPISODE]), last_action)
    starts = np.unique(twin.start_state)
    return (AGENT,), (int(starts[0]), 0, _NO_ACTION) if len(starts) == 1 else None


def _tictactoe(position: int) -> Ints:
    """Return the mover's and the other's marks as bits, and who moves; there are as many marks as moves."""
    cells = cells_of(position).tolist()
    mine, theirs = (sum(1 << cell for cell, mark in enumerate(cells) if mark == whose) for whose in (MINE, THEIRS))
    return mine, theirs, (mine | theirs).bit_count() % 2


def _connect_four(key: int) -> Ints:
    mine, taken = (int(word) for word in position_of_key(np.uint64(key)))
    return mine, taken, taken.bit_count() % 2


def _drawing_board(environment: EnvironmentConfig) -> CompiledVector:
    vector = make_compiled_vector(environment, 1)
    if vector is None or vector.kernel.load is None:
        raise MosaicError(f"nothing puts a state of its compiled twin into {environment.id}")
    return vector
