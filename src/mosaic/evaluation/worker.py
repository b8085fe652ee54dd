"""Player of an evaluation's games, one after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypedDict

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import Episode
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.user_code import exits_refused
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.evaluation.results import EpisodeResult, sum_up
from mosaic.policies.mapping import AgentMapping
from mosaic.runners.local import ControllerError, LocalEnvRunner
from mosaic.runners.record import save_episode
from mosaic.runners.trajectories import Recorder, TrajectoryRecorder, TrajectorySink

if TYPE_CHECKING:
    from mosaic.runners.screen import Screen
    from mosaic.runners.video import FilmCamera


class PlayOptions(TypedDict, total=False):
    """Arguments that `evaluate` and `tournament` share."""

    max_steps: int | None
    time_limit_s: float | None
    record_dir: Path | str | None
    recorder: Recorder | None
    screen: Screen | None
    num_workers: int  # earlier name of num_env_runners


def env_runners_asked(number: int, options: PlayOptions) -> int:
    """Return the number of env runners, which may be given under its earlier name."""
    earlier = options.get("num_workers", number)
    if number not in (1, earlier):
        raise InputError(
            f"num_workers is the earlier name of num_env_runners, and they differ: {earlier} and {number}. "
            "Leave num_workers out."
        )
    return earlier


def record_folder_asked(options: PlayOptions) -> Path | None:
    given = options.get("record_dir")
    return None if given is None else Path(given)


def check_record_folder(folder: Path, option: str = "record_dir=", spell: Callable[[str], str] = repr) -> None:
    """Raise InputError for a folder that cannot be made, or in which episodes would be mixed with earlier ones."""
    place, name = folder.absolute(), option.rstrip(" =")
    there = next(each for each in (place, *place.parents) if each.exists())
    if not there.is_dir():
        raise InputError(f"{name}: '{folder if there == place else there}' is not a folder. Choose another name.")
    count = sum(1 for _ in place.glob("*.json"))
    if count:
        raise InputError(
            f"{name}: '{folder}' already holds {count} recorded {'episode' if count == 1 else 'episodes'} (*.json), "
            f"which would be mixed with the new ones. Type: {option}{spell(_another(folder))}"
        )


def _another(folder: Path) -> str:
    """Return a name for a folder beside this one, or below it where it is the current one."""
    return f"{folder}-2" if folder.name not in ("", "..") else str(folder / "episodes")


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Settings shared by all games of an evaluation; sent to every process that plays some of them."""

    environment: EnvironmentConfig
    mappings: tuple[AgentMapping, ...]
    seed: int  # of the controllers; every game has its own seed as well
    max_steps: int
    time_limit_s: float | None
    record_dir: Path | None = None
    sink: TrajectorySink | None = None  # of demonstrations
    names: Mapping[PolicyID, str] = field(default_factory=dict)  # of policies that are shown by another one

    def named(self, policies: Mapping[AgentID, PolicyID]) -> dict[AgentID, str]:
        return {agent: self.names.get(policy, policy) for agent, policy in policies.items()}


@dataclass(frozen=True, slots=True)
class GameTask:
    """One episode to be played."""

    index: int
    seed: int
    mapping: int = 0  # index into the plan's mappings


class GameRunner:
    """One env with the controllers of the current mapping."""

    def __init__(self, plan: EvaluationPlan, env: Env | None = None, screen: Screen | None = None) -> None:
        self._plan, self._screen = plan, screen
        self._env = make_env(plan.environment) if env is None else env
        self._mapping = -1
        self._runner: LocalEnvRunner | None = None

    def play(self, game: GameTask, camera: FilmCamera | None = None) -> EpisodeResult:
        runner = self._runner_of(game.mapping)
        began = monotonic()
        try:
            with exits_refused(self._env.spec.env_id):
                episode = self._episode(game, runner, camera)
        except ControllerError:  # what led to it is worth a look
            self._save(game, self._record(runner))
            raise
        span_s = began, monotonic()
        self._save(game, episode)
        everybody = dict.fromkeys([*episode.policies, *episode.returns])  # including agents that appeared later
        policies = self._plan.named({agent: runner.controllers.policy_of(agent) for agent in everybody})
        return sum_up(game.index, episode, policies, self._env.spec.facts, span_s)

    def _save(self, game: GameTask, episode: Episode) -> None:
        if self._plan.record_dir is not None:
            save_episode(self._plan.record_dir / f"{game.index:06d}.json", episode)

    def _episode(self, game: GameTask, runner: LocalEnvRunner, camera: FilmCamera | None) -> Episode:
        plan = self._plan
        digests = plan.record_dir is not None or plan.sink is not None
        if camera is None and plan.sink is None:
            runner.run(game.seed, episode=game.index, max_steps=plan.max_steps, digests=digests)
            return self._record(runner)
        recorder = None if plan.sink is None else TrajectoryRecorder(self._env)
        turns = runner.turns(game.seed, episode=game.index, max_steps=plan.max_steps, digests=digests)
        for step, turn in enumerate(turns):
            if recorder is not None:
                recorder.note(turn, runner.record)
            if camera is not None:
                policies = {agent: runner.controllers.policy_of(agent) for agent in turn.rewards}
                camera.shoot(self._env, step, turn, plan.named(policies), game.index)
        if camera is not None:
            camera.cut()
        if plan.sink is not None and recorder is not None:
            plan.sink.add(game.index, self._record(runner), recorder.trajectories())
        return self._record(runner)

    def _record(self, runner: LocalEnvRunner) -> Episode:
        """Return the record with the names of its policies."""
        return replace(runner.record, policies=self._plan.named(runner.record.policies))

    def close(self) -> None:
        if self._runner is not None:
            self._runner.controllers.close()
        self._env.close()

    def __enter__(self) -> GameRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _runner_of(self, mapping: int) -> LocalEnvRunner:
        """Return the runner of this mapping; close the controllers of the previous one, which may own processes."""
        if self._runner is None or mapping != self._mapping:
            if self._runner is not None:
                self._runner.controllers.close()
            plan = self._plan
            self._runner = LocalEnvRunner(
                self._env,
                plan.mappings[mapping],
                seed=plan.seed,
                time_limit_s=plan.time_limit_s,
                screen=self._screen,
            )
            self._mapping = mapping
        return self._runner
