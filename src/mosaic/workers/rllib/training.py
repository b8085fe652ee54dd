"""One attempt of an RLlib run: building the algorithm, iterating, reporting, saving, evaluating, and shutting down."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, has_illegal_actions, sharing_envs
from mosaic.learners.agent_roles import read_agent_roles
from mosaic.policies.controller import PolicyController, PolicyRequest, default_sampling
from mosaic.policies.registry import load_policy
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.screen import why_undrawn
from mosaic.store.archives.trust import require_trust_to_resume
from mosaic.telemetry.events.info_numbers import PolicyNumbers
from mosaic.telemetry.frames.sources import EVALUATION, announce_source, remove_rings, withdraw_source
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import evaluate_learners, league_players, policies_by_episode
from mosaic.workers.loop import Progress
from mosaic.workers.loop import train as train_loop
from mosaic.workers.policy_settings import read_policy_options
from mosaic.workers.ray_record import StartRay, ray_of_run
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import with_limit, with_options
from mosaic.workers.rllib.checkpoint.state import load_progress, load_state, save_state
from mosaic.workers.rllib.config.offline_options import steps_of_dataset
from mosaic.workers.rllib.config.options import ASYNCHRONOUS, RllibOptions
from mosaic.workers.rllib.config.resources import (
    Asked,
    AvailableResources,
    Node,
    Placement,
    asked_for,
    place,
    settled,
    this_machine,
)
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.reporting.episodes import NOTHING_SAMPLED, alerts_of, records_of
from mosaic.workers.rllib.reporting.log_filter import compiled_remarks_dropped, keep_quiet
from mosaic.workers.rllib.reporting.metrics import Interval, RllibProgress, fields, sampled_fields

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

    from mosaic.learners.league import Snapshot
    from mosaic.workers.rllib.self_play import LeagueManager

_VIEWER_POLLS, _VIEWER_POLL_S = 50, 0.02  # a second, for a viewer that has asked for pictures of an evaluation
_LOOK_EVERY_S = 0.5  # to notice the end of training, in the thread that waits for a stop
REPORT_GAP_S = 0.25  # between the events of two iterations, if report_every_steps is not set
_BACK_DOOR = "To suppress all validation errors"  # start of the last part of RLlib's messages


@dataclass(slots=True)
class Training:
    """RLlib algorithm in training, and its progress."""

    setup: RllibSetup
    algo: Algorithm
    self_play: LeagueManager | None
    progress: RllibProgress = field(default_factory=RllibProgress)
    alerts: set[str] = field(default_factory=set)  # reported, each once

    @property
    def learned(self) -> dict[str, str]:
        """The run's own policies, with RLlib's names for them."""
        return dict(self.setup.modules)

    @property
    def reward(self) -> float | None:
        return self.progress.reward(self.learned)


def train(context: WorkerContext) -> None:
    if context.resume_from is not None:
        require_trust_to_resume(context.resume_from)
    context.config = with_limit(context.config)
    with ray_of_run(context) as start_ray:
        setup = prepare(context, start_ray)
        for line in setup.placement.said:  # no number was asked for, so nothing is wrong
            context.report(kind="equipped", message=line)
        with built(setup, context) as training, _passing_on_stops(context, setup.session):
            context.stage("collecting the first samples")
            iterate(context, training)


def prepare(context: WorkerContext, start_ray: StartRay) -> RllibSetup:
    """Decide everything that is needed before RLlib is built, and start Ray."""
    config, options = context.config, context.options
    assert isinstance(options, RllibOptions)
    with sharing_envs():
        masked, spec = has_illegal_actions(config.environment), env_spec(config.environment)
    roles = read_agent_roles(config, spec, honours_batches=True)
    for agent, references in roles.every_played.items():
        for reference in references:  # otherwise env runners would be started and restarted to find out
            load_policy(reference, spec, (agent,)).close()
    apart = config.training.algorithm in ASYNCHRONOUS
    asked = asked_for(config.resources, options, apart=apart)
    placement = place(asked, _join(config, asked, start_ray))
    if config.resources.ray_address is not None:
        _store_placement(context, placement)
        config, options = context.config, context.options
        assert isinstance(options, RllibOptions)
    own = read_policy_options(load_worker("rllib"), config, options, roles.plan)
    return RllibSetup(
        config,
        options,
        spec,
        masked,
        roles,
        placement,
        context.folder.path,
        attempt=context.attempt,
        curriculum=context.curriculum,
        own=own,
        episodes_before=0 if context.resume_from is None else load_progress(context.resume_from.path).episodes,
    )


def _store_placement(context: WorkerContext, placement: Placement) -> None:
    """Write what the cluster had room for into the run's configuration: every later attempt requests the same.

    The supervisor of this process holds the run's lock, so no other process writes it.
    """
    config, options = context.config, context.options
    assert isinstance(options, RllibOptions)
    resources, chosen = settled(config.resources, options, placement)
    decided = with_options(config.model_copy(update={"resources": resources}), chosen)
    if decided != config:
        whole = {} if context.curriculum is None else {"environment": context.curriculum.environment}
        context.folder.write_config(decided.model_copy(update=whole))
    context.config, context.options = decided, chosen


def _join(config: RunConfig, asked: Asked, start_ray: StartRay) -> AvailableResources:
    """Start Ray or join the cluster.

    Ray on this machine gets all of it: what the placement leaves free is used to replace what fails.
    """
    address = config.resources.ray_address
    if address is None:
        machine = this_machine(asked)
        place(asked, machine)
        start_ray(machine.cpus, None)
        return machine
    from ray._private.state import available_resources_per_node

    start_ray(1, address)
    free: list[dict[str, float]] = list(available_resources_per_node().values())  # type: ignore[no-untyped-call]
    nodes = tuple(Node(int(node.get("CPU", 0)), float(node.get("GPU", 0))) for node in free)
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    return AvailableResources(cpus, gpus, f"the Ray cluster at {address}", nodes)


@contextmanager
def built(setup: RllibSetup, context: WorkerContext) -> Iterator[Training]:
    import torch

    from mosaic.workers.rllib.checkpoint.start_weights import start_from
    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.lost_runners import failures_named
    from mosaic.workers.rllib.reporting.callbacks import close_frames
    from mosaic.workers.rllib.self_play import LeagueManager

    runners = setup.placement.runners
    beside = f", {runners} env runner{'s' if runners > 1 else ''}" if runners else ""
    context.stage(f"building the algorithm{beside}")
    keep_quiet()
    torch.set_num_threads(1)  # small products on several threads spin more than they compute
    self_play = LeagueManager(setup) if setup.roles.plan.self_play else None
    config = configure(setup, self_play.mapping() if self_play else None)
    try:
        config.validate()
    except ValueError as error:
        raise InputError(f"RLlib refuses these options: {str(error).partition(_BACK_DOOR)[0].strip()}") from error
    with compiled_remarks_dropped(), failures_named(config):
        algo = config.build_algo()
    finished = False
    try:
        training = Training(setup, algo, self_play)
        if context.resume_from is not None:
            training.progress = load_state(context.resume_from.path, algo, self_play)
        else:
            if setup.config.training.init is not None:
                start_from(setup.config.training.init, setup, algo)
            if self_play is not None:
                self_play.begin(algo)
        yield training
        finished = True  # also after a requested stop: nothing failed
    finally:
        close_frames(algo, finished=finished)
        algo.stop()  # type: ignore[no-untyped-call]
        remove_rings(context.folder.path)  # of runners that were lost


@contextmanager
def _passing_on_stops(context: WorkerContext, session: str) -> Iterator[None]:
    """Forward a stop to env runners while the main thread waits for their samples."""
    from mosaic.workers.rllib.env.sampling import forget, request_stop

    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if context.inbox.wait_for_stop(_LOOK_EVERY_S):
                request_stop(session)
                return

    thread = threading.Thread(target=watch, name="stops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        forget(session)


def iterate(context: WorkerContext, training: Training) -> None:
    trainable = RllibTraining(context, training)
    context.measure_with(trainable.measure)
    every = training.setup.options.report_every_steps
    gap_s = REPORT_GAP_S if every is None else None
    train_loop(context, trainable, report_every_steps=every, report_first=True, report_gap_s=gap_s)


class RllibTraining:
    """`Trainable` over an RLlib algorithm."""

    def __init__(self, context: WorkerContext, training: Training) -> None:
        from mosaic.workers.rllib.env.sampling import SamplingView

        self._context, self._training, self._counted = context, training, training.progress
        self._session = training.setup.session
        self._view = SamplingView(self._session)
        self._league: Mapping[str, object] = {}
        self._interval = Interval()  # since the last metrics
        self._numbers = PolicyNumbers()

    def iterate(self) -> None:
        from mosaic.workers.rllib.env.sampling import begin_iteration

        training, counted = self._training, self._counted
        before, episodes = counted.env_steps, counted.episodes
        begin_iteration(self._session)
        result = training.algo.train()  # type: ignore[no-untyped-call]
        ended = records_of(result)
        with self._context.inbox.reporting:  # reports by the clock read the counters before or after, never in between
            counted.add(result, ended)
            counted.add_learned(steps_of_dataset(training.setup.options))
            self._view.complete(counted.env_steps - before, counted.episodes - episodes)
        self._interval.add(result, ended, training.setup.envs_per_runner)
        self_play = training.self_play
        self._league = self_play.after_iteration(training.algo, result, counted.env_steps) if self_play else {}
        for alert in alerts_of(result):
            _alert_once(self._context, alert, training.alerts, env_steps=counted.env_steps)

    def change_env(self, environment: EnvironmentConfig) -> None:
        """Let the env runners continue in another env, and count only rewards of that one from now on."""
        from mosaic.workers.rllib.env.stages import enter_stage

        curriculum = self._context.curriculum
        assert curriculum is not None
        enter_stage(self._training.algo, self._session, curriculum.number, environment)
        with self._context.inbox.reporting:
            self._counted.begin_stage(curriculum.number)

    def progress(self) -> Progress:
        return Progress(self._counted.env_steps, self._counted.episodes, self._training.reward)

    def measure(self) -> Mapping[str, object]:
        """Return counters and means during an iteration."""
        from mosaic.workers.rllib.env.sampling import end_iteration

        training = self._training
        if training.setup.algorithm not in ASYNCHRONOUS:
            return sampled_fields(self._counted, self._view.current(), training.learned)
        end_iteration(self._session)  # samples count when the learner fetches them, as in an iteration's result
        return sampled_fields(self._counted, NOTHING_SAMPLED, training.learned)

    def metrics(self) -> dict[str, object]:
        interval, self._interval = self._interval, Interval()
        for record in interval.ended:
            for agent, numbers in record.get("numbers", {}).items():
                self._numbers.add(record["policies"][agent], numbers)
        found, alert = self._numbers.take()
        if alert:
            self._context.report(kind="alert", message=alert, env_steps=self._counted.env_steps)
        return fields(interval, self._counted, self._training.learned, self._league, found)

    def save(self) -> None:
        _save(self._context, self._training)

    def evaluate(self) -> Iterator[Mapping[str, object]]:
        return _evaluate(self._context, self._training)


def _save(context: WorkerContext, training: Training) -> None:
    from mosaic.workers.rllib.checkpoint.export import export_policies, policy_entries

    setup = training.setup

    def save(folder: Path) -> None:
        export_policies(folder, setup, training.algo, training.progress.env_steps)
        save_state(folder, training.algo, training.progress, training.self_play)

    context.checkpoint(
        save,
        env_steps=training.progress.env_steps,
        policies=policy_entries(setup),
        reward=training.reward,
        rating=None if training.self_play is None else training.self_play.league.rating,
    )


def _evaluate(context: WorkerContext, training: Training) -> Iterator[Mapping[str, object]]:
    """Play the current policies on fixed seeds, with the default that `run:` has in this env."""
    from mosaic.workers.rllib.checkpoint.controllers import load_policy as load_exported
    from mosaic.workers.rllib.checkpoint.export import export_policies, export_snapshot, gives_probabilities

    setup, self_play = training.setup, training.self_play
    with TemporaryDirectory(prefix="mosaic-evaluation-") as name:
        folder = Path(name)
        export_policies(folder, setup, training.algo)

        def load(spec: EnvSpec, agent: AgentID, folder: Path, policy: PolicyID) -> PolicyController:
            sampling = default_sampling(spec, stochastic=gives_probabilities(setup))
            request = PolicyRequest("the policy that learns", spec, (agent,), sampling=sampling)
            return load_exported(folder, policy, request)

        def make_snapshot(spec: EnvSpec, agent: AgentID, snapshot: Snapshot) -> PolicyController:
            assert self_play is not None
            own = folder / str(snapshot.env_steps)
            export_snapshot(own, setup, training.algo, self_play.weights_of(snapshot))
            return load(spec, agent, own, setup.policy_of[agent])

        now = training.progress.env_steps
        with _evaluation_screen(context, training.alerts) as screen:
            yield from evaluate_learners(
                context.config,
                lambda spec, agent: load(spec, agent, folder, setup.policy_of[agent]),
                setup.roles.played,
                screen,
                context.inbox.stop_asked,
                policy_of=setup.policy_of,
                league=league_players(self_play.league if self_play else None, setup.roles, now, make_snapshot),
                by_episode=policies_by_episode(
                    setup.roles, lambda spec, agent, policy: load(spec, agent, folder, policy)
                ),
            )


def _alert_once(context: WorkerContext, message: str, alerts: set[str], **facts: object) -> None:
    """Report an alert unless another env runner or evaluation was the cause of the same one."""
    if message not in alerts:
        alerts.add(message)
        context.report(kind="alert", message=message, **facts)


@contextmanager
def _evaluation_screen(context: WorkerContext, alerts: set[str]) -> Iterator[LiveScreen | None]:
    """Offer pictures of an evaluation while it lasts, beside those of the env runners."""
    if not context.config.telemetry.frames:
        yield None
        return
    try:
        folder = announce_source(context.folder.path, EVALUATION)
    except OSError as error:
        _alert_once(context, f"No pictures of this evaluation: {error}", alerts)
        yield None
        return
    try:
        with LiveScreen(folder) as screen:
            yield screen
            _wait_for_viewer(screen, context)
        if screen.undrawn and (why := why_undrawn(context.config.environment)):
            _alert_once(context, why, alerts)
    finally:
        withdraw_source(folder)


def _wait_for_viewer(screen: LiveScreen, context: WorkerContext) -> None:
    """Keep the last picture of a short evaluation for a viewer that has asked for it and not found it yet."""
    polls = _VIEWER_POLLS if screen.is_open and not screen.undrawn else 0
    while polls and not screen.is_watched() and not context.inbox.wait_for_stop(_VIEWER_POLL_S):
        polls -= 1
