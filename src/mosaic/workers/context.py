"""Context of a worker: its configuration, and methods to report, save and receive requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.compile_time import working_time
from mosaic.store.checkpoint_record import BestBy
from mosaic.store.checkpoints import (
    Checkpoint,
    CheckpointContents,
    CheckpointScore,
    PolicyEntry,
    Provenance,
    Retention,
    write_checkpoint,
)
from mosaic.store.origin import all_versions, code_of_attempt, packages_of
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.frames.layout import FrameFacts
from mosaic.workers.curriculum import begin_curriculum, stage_config
from mosaic.workers.heartbeat import Heartbeat, StopPatience
from mosaic.workers.inbox import Inbox
from mosaic.workers.saving_pace import SavingPace

if TYPE_CHECKING:  # these import numba
    from mosaic.envs.env import EnvSpec
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.telemetry.frames.writer import FrameWriter


class WorkerContext:
    """Context of one attempt of a run."""

    def __init__(
        self,
        config: RunConfig,
        options: BaseModel,
        folder: RunFolder,
        writer: EventWriter,
        inbox: Inbox,
        resume_from: Checkpoint | None = None,
        *,
        patience_s: float = 10.0,
        tell: Callable[..., None] = lambda progress, **facts: None,
    ) -> None:
        """Create a context.

        `tell` sends messages to the supervisor; `patience_s` is how long the worker needs to stop, besides its
        iterations.
        """
        self.config, self.options, self.folder, self.inbox = config, options, folder, inbox
        self.resume_from = resume_from  # None: start from the beginning
        self.curriculum = begin_curriculum(config.environment, resume_from.path if resume_from else None)
        if self.curriculum is not None:  # `config` has the env of the current stage
            self.config = stage_config(config, self.curriculum.stage)
        self._writer = writer
        self._frames: FrameWriter | None = None  # created when a worker first asks whether there are viewers
        self._spaces: Mapping[str, object] | None = None
        self._pace = SavingPace(config.checkpoint, self._resumed_at, perf_counter)
        self.stop_reward_reached_at: float | None = None  # in `working_time`
        # Set by workers that prepare before training or evaluate after it: neither counts as training
        self.training_began_at: float | None = None  # in `working_time`
        self.training_ended_at: float | None = None
        every_s, before = config.telemetry.report_every_s, self._resumed_at
        self.patience = StopPatience(patience_s, tell)
        self.heartbeat = Heartbeat(self._store, inbox, every_s, self.patience, before)

    @property
    def _resumed_at(self) -> int:
        return self.resume_from.env_steps if self.resume_from else 0

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def attempt(self) -> int:
        return self._writer.attempt

    def report(self, **fields: object) -> int:
        """Store one metric event before returning. Give `kind`, `env_steps` and the metrics."""
        if fields.get("kind", "iteration") == "iteration":
            return self.heartbeat.report(fields)
        return self._store(**fields)

    def _store(self, **fields: object) -> int:
        if self.curriculum is not None and fields.get("kind", "iteration") == "iteration":
            fields["curriculum_stage"] = self.curriculum.number
        return self._writer.report(**fields)

    def report_due(self) -> bool:
        """Return whether `telemetry.report_every_s` has passed since the last iteration event.

        An event reported for this reason has `trigger="clock"`: its position in the curve depends on the speed of the
        machine. If a worker reports too late, the heartbeat reports for it; see `measure_with`.
        """
        return self.heartbeat.due()

    def measure_with(self, measure: Callable[[], Mapping[str, object]]) -> None:
        """Set the source of metrics for reports during an iteration.

        `measure` returns the fields of an iteration event, at least counters, and is called at any moment from another
        thread. Without it, an event that is due while an iteration runs repeats the last one.
        """
        self.heartbeat.measure_with(measure)

    def stage(self, message: str) -> None:
        """Report what the start is doing, such as "starting Ray", until the first iteration.

        Nothing has been learned by then: if a stop is requested, the next call raises and ends the worker, and a start
        that makes no such call is ended after a few seconds, also in the first seconds of the first iteration.
        """
        self.heartbeat.stage(message)

    def iteration(self) -> AbstractContextManager[None]:
        """Measure one iteration: `with context.iteration():`. A stop waits as long as these take."""
        return self.heartbeat.iteration()

    def frame_wanted(self) -> bool:
        """Return whether to draw a frame now: there is a viewer, and the last frame is old enough.

        It is cheap: call it at every step.
        """
        if not self.config.telemetry.frames:
            return False
        if self._frames is None:
            from mosaic.telemetry.frames.writer import FrameWriter

            self._frames = FrameWriter(self.folder.path)
        return self._frames.wanted()

    def frame_request(self) -> FrameRequest:
        """Return which env the last viewer requested, and how many side by side."""
        from mosaic.telemetry.frames.requests import FrameRequest

        return (self._frames.request() if self._frames else None) or FrameRequest()

    def frame(self, rgb: NDArray[np.uint8], **facts: Unpack[FrameFacts]) -> None:
        """Publish a frame of the env that is trained; call it if `frame_wanted` returned true.

        `rgb` is height × width × 3, uint8.
        """
        if self._frames is not None:
            self._frames.publish(rgb, **facts)

    def close_frames(self, *, finished: bool) -> None:
        """Tell viewers that no more frames will come."""
        if self._frames is not None:
            self._frames.close(finished)
            self._frames = None

    def done(self, env_steps: int, episodes: int = 0, reward: float | None = None) -> str | None:
        """Return why training is over, or None to continue.

        The reason is a requested stop or a limit of the configuration.
        """
        training = self.config.training
        if self.inbox.stop_asked():
            return "stopped"
        counts = self.curriculum is None or self.curriculum.is_last  # earlier stages are easier
        if training.stop_reward is not None and counts and reward is not None and reward >= training.stop_reward:
            self.stop_reward_reached_at = self.stop_reward_reached_at or working_time()
            return f"stop_reward {training.stop_reward:g} reached"
        if training.total_timesteps is not None and env_steps >= training.total_timesteps:
            return f"total_timesteps {training.total_timesteps} reached"
        if training.episodes is not None and episodes >= training.episodes:
            return f"episodes {training.episodes} reached"
        return None

    def stage_is_over(self, env_steps: int, reward: float | None) -> bool:
        """Return whether the next stage of the curriculum begins now; False without a curriculum.

        `reward` is the mean over episodes of the current stage, None before the first one ends.
        """
        return self.curriculum is not None and self.curriculum.is_over(env_steps, reward)

    @contextmanager
    def next_stage(self, env_steps: int) -> Iterator[EnvironmentConfig]:
        """Enter the next stage of the curriculum after `stage_is_over`, and yield its env.

        In the block, between two iterations, the worker makes its envs again; meanwhile reports by the clock have
        counters only. `config` has the new env, which evaluations use too.
        """
        curriculum = self.curriculum
        assert curriculum is not None
        with self.heartbeat.changing_env():
            changes = curriculum.advance()
            self.config = self.config.model_copy(update={"environment": curriculum.current})
            self._store(
                kind="curriculum",
                env_steps=env_steps,
                stage=curriculum.number,
                changes=changes,
                message=curriculum.describe(changes),
            )
            yield self.config.environment

    def describe_env(self, spec: EnvSpec) -> None:
        """Set the spaces that checkpoints record; without this call, an env is created to learn them."""
        from mosaic.envs.space_json import spec_spaces

        self._spaces = spec_spaces(spec)

    def prepare_checkpoints(self) -> None:
        """Collect the env and version data of checkpoints now, instead of at the first checkpoint."""
        self._provenance()

    def checkpoint_due(self, env_steps: int, every_steps: int | None = None) -> bool:
        """Return whether to save now: on request, or because it is time. Call it once after every iteration.

        `every_steps` is the worker's own interval. If neither it nor the configuration sets one, the clock decides.
        """
        due = self._pace.due(env_steps, every_steps)
        return self.inbox.checkpoint_asked() or due

    def has_checkpoint_at(self, env_steps: int) -> bool:
        """Return whether the last checkpoint, of this attempt or the one it resumes from, is of this step."""
        saved_at = self._pace.saved_at
        if saved_at is None and self.resume_from is not None:
            saved_at = self.resume_from.env_steps
        return env_steps == saved_at and (self.folder.checkpoints / str(env_steps)).is_dir()

    def checkpoint(
        self,
        save: Callable[[Path], None],
        *,
        env_steps: int,
        policies: Mapping[str, PolicyEntry],
        reward: float | None = None,
        rating: float | None = None,
        best_by: BestBy | None = None,
        pickles: bool = True,
    ) -> Path:
        """Write a checkpoint atomically; `save` writes files into the folder it is given.

        The best checkpoint is the one with the highest `rating`, or `reward` if no rating is given; in self-play
        without a rating, pass `best_by="env_steps"`.
        """
        settings, began_s, again = self.config.checkpoint, perf_counter(), self.has_checkpoint_at(env_steps)
        self._writer.sync()  # a checkpoint must not outlive the events that led to it
        if self.curriculum is not None and not self.curriculum.is_last:
            reward = None  # of an easier env: it would be the best checkpoint of the run
        score = CheckpointScore(reward, rating, best_by or ("reward" if rating is None else "rating"))
        contents = CheckpointContents(env_steps, self._writer.seq, policies, score, self._provenance(), pickles)

        def save_all(folder: Path) -> None:
            save(folder)
            if self.curriculum is not None:
                self.curriculum.save(folder)

        path = write_checkpoint(self.folder, contents, save_all, Retention(settings.keep_last, settings.keep_best))
        ended_s = perf_counter()
        self.patience.saved(ended_s - began_s)
        self._pace.saved(env_steps, ended_s - began_s)
        self.report(kind="checkpoint_exists" if again else "checkpoint", env_steps=env_steps, path=path.name)
        return path

    def _provenance(self) -> Provenance:
        worker, environment = self.config.training.worker or "", self.config.environment.model_dump(mode="json")
        made_by = all_versions(packages_of(self.config))
        code = code_of_attempt(self.folder.run_id, self.attempt)
        return Provenance(worker, environment, self._agent_spaces(), self.seed, made_by, code)

    def _agent_spaces(self) -> Mapping[str, object]:
        """Return the spaces of all agents; none if the worker takes any env."""
        if self._spaces is None:
            from mosaic.envs.shared_env import env_spec
            from mosaic.workers.capability_check import cares
            from mosaic.workers.registry import load_worker

            name = self.config.training.worker
            if name is None or not cares(load_worker(name).info):
                return {}
            self.describe_env(env_spec(self.config.environment))
        assert self._spaces is not None
        return self._spaces
