"""Runner that plays episodes of one env in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from time import perf_counter
from types import FrameType
from typing import TypeAlias

from mosaic.core.episode import End, Episode, PolicyChange, StepReport, plain_report
from mosaic.core.errors import FormatError, MosaicError, describe_error
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Turn, digest
from mosaic.core.user_code import ProcessExitError, describe_exit
from mosaic.core.version import versions
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.objects import Environment, is_described
from mosaic.envs.spaces import objection
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S, PolicyController, Remembers
from mosaic.policies.mapping import AgentMapping, PolicyMapping
from mosaic.runners.controllers import ControllerMapping, Player
from mosaic.runners.record import compare
from mosaic.runners.screen import Screen, Shot


class TimeLimitError(MosaicError):
    """Action request that exceeded its time limit."""


_SignalHandler: TypeAlias = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


class Watch:
    """Timer that measures every action request and interrupts one that hangs.

    A timer checks a few times per limit whether the current request is overdue and raises in the main thread, so the
    loop only pays for two clock readings. In other threads, and while C code does not return to the interpreter, an
    overrun is only detected afterwards.
    """

    def __init__(self, shortest_limit_s: float | None) -> None:
        self._tick_s = None if shortest_limit_s is None else max(shortest_limit_s / 4, 0.01)
        self._asked_at = 0.0
        self._limit_s: float | None = None
        self._interrupts = False
        self._earlier: tuple[_SignalHandler, tuple[float, float]] | None = None

    def __enter__(self) -> Watch:
        free = threading.current_thread() is threading.main_thread() and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        if self._tick_s is not None and free:
            handler = signal.signal(signal.SIGALRM, self._look)
            self._earlier = handler, signal.setitimer(signal.ITIMER_REAL, self._tick_s, self._tick_s)
        return self

    def __exit__(self, *_: object) -> None:
        if self._earlier is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._earlier[0])
            self._earlier = None

    def ask(self, limit_s: float | None) -> None:
        """Mark the start of a request."""
        self._limit_s = limit_s
        self._asked_at = perf_counter()
        self._interrupts = limit_s is not None

    def answered(self) -> None:
        took_s, limit_s = perf_counter() - self._asked_at, self._limit_s
        self._interrupts = False
        if limit_s is not None and took_s > limit_s:
            raise TimeLimitError(f"took {took_s:.3g} s; its time limit is {limit_s:g} s")

    def _look(self, signum: int, frame: FrameType | None) -> None:
        limit_s = self._limit_s
        # half a tick of grace: an engine's own deadline at the same limit gives a better error message
        if (
            self._interrupts
            and limit_s is not None
            and perf_counter() - self._asked_at > limit_s + (self._tick_s or 0.0) / 2
        ):
            self._interrupts = False
            raise TimeLimitError(f"did not return within its time limit of {limit_s:g} s")


class EnvFailedError(MosaicError):
    """Error in the code of an env while an episode was played."""


class ControllerError(MosaicError):
    """Failure of a controller; no other policy plays in its place."""


class IllegalActionError(ControllerError):
    """Action from a controller that is illegal."""

    exit_code = 2


class LocalEnvRunner:
    """Runner for episodes of one env; agents that share a policy are queried together."""

    def __init__(
        self,
        env: Env,
        mapping: AgentMapping | Mapping[str, PolicyID],
        *,
        seed: int = 0,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
        controllers: dict[PolicyID, PolicyController] | None = None,
        screen: Screen | None = None,
    ) -> None:
        """Create the runner; `screen` is shown the env after every step if it asks for it; its owner closes it."""
        self.env, self._screen = env, screen
        self._environment = env.spec.facts.config.model_dump(mode="json")
        if isinstance(mapping, Mapping):
            mapping = PolicyMapping.of(mapping)
        self.controllers = ControllerMapping(
            env.spec, mapping, seed=seed, time_limit_s=time_limit_s, controllers=controllers
        )
        self._objections = Lookup(lambda agent: objection(env.action_spaces[agent]), env.possible_agents)
        self.record = Episode({}, 0, {})  # the current or most recent episode
        self._everybody: Player | None = None  # the player that acts for all agents and is queried with the whole Turn

    def run(self, seed: int, *, episode: int = 0, max_steps: int | None = None, digests: bool = False) -> Episode:
        """Play one whole episode; `episode` is its number, for mappings that change from one to the next."""
        for _ in self.turns(seed, episode=episode, max_steps=max_steps, digests=digests):
            pass
        return self.record

    def turns(
        self,
        seed: int,
        *,
        episode: int = 0,
        max_steps: int | None = None,
        digests: bool = False,
        opening: Episode | None = None,
    ) -> Iterator[Turn]:
        """Play one episode and yield every Turn, so that a caller can draw in between; `record` grows with it.

        The steps of `opening`, recorded with the same seed, are taken first, as they were; the policies act after them.
        """
        env, controllers, screen = self.env, self.controllers, self._screen
        turn = self._reset(seed)
        if not env.possible_agents:
            self._objections.clear()  # a new episode may give old names new spaces
        controllers.begin(seed, episode, env.possible_agents or tuple(turn.rewards))
        record = self.record = Episode(
            environment=self._environment,
            seed=seed,
            policies={agent: player.key.policy for agent, player in controllers.players.items()},
            first_digest=digest(turn),
            versions=dict(versions()),
        )
        if opening is not None:
            record.policies, record.changes = dict(opening.policies), list(opening.changes)
            record.reports, record.notes = list(opening.reports), list(opening.notes)
        given = 0 if opening is None else opening.env_steps
        self._find_everybody()
        note_actions, note_rewards = record.actions.append, record.rewards.append
        if digests:
            record.digests.append(record.first_digest)
        try:
            with Watch(controllers.time_limit_s) as watch:
                if screen is not None and screen.wanted():
                    screen.show(self.shot(turn, episode))
                yield turn
                while turn.observations:
                    if record.env_steps == max_steps:
                        record.cut = True
                        break
                    if opening is not None and record.env_steps <= given:
                        self._follow(opening, turn, watch)
                    if opening is not None and record.env_steps < given:
                        actions = opening.actions[record.env_steps]
                    else:
                        actions = self._ask(turn, record.env_steps, watch)
                    try:
                        turn = env.step(actions)
                    except MosaicError:
                        raise
                    except Exception as error:
                        raise EnvFailedError(_env_failure(env, f"step {record.env_steps}", seed, error)) from error
                    note_actions(actions)
                    note_rewards(turn.rewards)
                    if digests:
                        record.digests.append(digest(turn))
                    if turn.final_observations:
                        self._note_ends(turn)
                    if screen is not None and screen.wanted():
                        screen.show(self.shot(turn, episode))
                    yield turn
        finally:  # also when it was cut, failed, or the generator was closed
            for agent in [agent for agent in controllers.players if agent not in record.ends]:
                controllers.forget(agent)

    def _reset(self, seed: int) -> Turn:
        try:
            return self.env.reset(seed)
        except MosaicError:
            raise
        except Exception as error:
            raise EnvFailedError(_env_failure(self.env, "reset", seed, error)) from error

    def shot(self, turn: Turn, episode: int) -> Shot:
        """Return the env after this Turn, to be drawn before the next step."""
        returns = self.record.returns
        reward = turn.rewards.get(next(iter(returns), ""), 0.0)
        return Shot(self.env.render, 0, self.record.env_steps, episode, reward, returns)

    def set_policy_for_agent(self, agent: AgentID, policy: PolicyID) -> None:
        """Let another policy act for the agent from the next step on; the record notes the change."""
        self.controllers.swap(agent, policy)
        self.record.changes.append(PolicyChange(self.record.env_steps, agent, policy))
        self._find_everybody()

    def close(self) -> None:
        """Close the controllers (including engine processes) and the env."""
        self.controllers.close()
        self.env.close()

    def __enter__(self) -> LocalEnvRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, opening: Episode, turn: Turn, watch: Watch) -> None:
        """Check a Turn of the opening, and let policies with a memory see it; after the last one, note who acts."""
        record, step = self.record, self.record.env_steps
        difference = compare(opening, step, turn)
        if difference is not None:
            raise FormatError(f"The position cannot be restored: step {step}: {difference.what}.")
        if step < opening.env_steps:
            for agent in turn.observations:
                player = self.controllers.players[agent]
                if isinstance(player.controller, Remembers):
                    self._answer(player, turn.only({agent}), step, watch)
            return
        for agent, player in self.controllers.players.items():
            if agent in record.policies and record.policy_of(agent, step) != player.key.policy:
                record.changes.append(PolicyChange(step, agent, player.key.policy))

    def _note_ends(self, turn: Turn) -> None:
        record, controllers = self.record, self.controllers
        for agent in turn.final_observations:
            record.policies.setdefault(agent, controllers.policy_of(agent))  # an agent that appeared later
            record.ends[agent] = (record.env_steps, _end(turn, agent))
            controllers.forget(agent)

    def _find_everybody(self) -> None:
        players = [
            self.controllers.players[agent] for agent in self.env.possible_agents
        ]  # swapped players: looked up again
        self._everybody = players[0] if players and all(player is players[0] for player in players) else None

    def _ask(self, turn: Turn, steps: int, watch: Watch) -> Mapping[AgentID, Action]:
        actions: Mapping[AgentID, Action]
        if self._everybody is not None:
            actions = self._answer(self._everybody, turn, steps, watch)
        else:
            actions = self._ask_each(turn, steps, watch)
        masks, objections = turn.action_masks, self._objections
        for agent, action in actions.items():
            problem = objections[agent](action, masks.get(agent))
            if problem:
                policy = self.controllers.policy_of(agent)
                raise IllegalActionError(f"Step {steps}: policy '{policy}' played {problem}, for agent '{agent}'.")
        return actions

    def _ask_each(self, turn: Turn, steps: int, watch: Watch) -> Mapping[AgentID, Action]:
        players = self.controllers.players
        if len(turn.observations) == 1:
            (agent,) = turn.observations
            player = players[agent]
            return self._answer(player, turn.only(player.agents), steps, watch)
        actions: dict[AgentID, Action] = {}
        for player in {id(player): player for player in map(players.__getitem__, turn.observations)}.values():
            actions.update(self._answer(player, turn.only(player.agents), steps, watch))
        return {agent: actions[agent] for agent in turn.observations}

    def _answer(self, player: Player, turn: Turn, steps: int, watch: Watch) -> Mapping[AgentID, Action]:
        try:
            watch.ask(player.limit_s)
            actions = player.controller.act(turn)
            watch.answered()
        except (Exception, SystemExit) as error:
            reason = _reason(error)
            self._note_reports(player, turn, steps)
            raise ControllerError(f"Step {steps}: {_names(player, turn)} {reason.rstrip('.')}.") from error
        if not isinstance(actions, Mapping) or actions.keys() != turn.observations.keys():
            said = f"for {sorted(actions)}" if isinstance(actions, Mapping) else f"{actions!r}"
            raise ControllerError(f"Step {steps}: {_names(player, turn)} returned {said} instead.")
        self._note_reports(player, turn, steps)
        return actions

    def _note_reports(self, player: Player, turn: Turn, steps: int) -> None:
        if player.reporter is None:
            return
        try:
            found = [(agent, plain_report(report)) for agent, report in player.reporter.reports().items()]
        except Exception as error:
            raise ControllerError(f"Step {steps}: {_names(player, turn)} has no report: {_reason(error)}.") from error
        self.record.reports.extend(StepReport(steps, agent, report) for agent, report in found)


def play_episode(
    env: Environment,
    mapping: AgentMapping | Mapping[str, PolicyID],
    seed: int = 0,
    *,
    max_steps: int | None = None,
    controllers: dict[PolicyID, PolicyController] | None = None,
    screen: Screen | None = None,
) -> Episode:
    """Play and record one episode, for example `play_episode(env, {"player_1": "minimax", "player_2": "random"})`.

    `env` is an id, an env object, or a class or function that makes one; an env that is made here is closed.
    """
    made = make_env(env)
    ours = is_described(env) or (made is not env and callable(env))
    with ExitStack() as stack:
        if ours:
            stack.callback(made.close)
        runner = LocalEnvRunner(made, mapping, seed=seed, controllers=controllers, screen=screen)
        stack.callback(runner.controllers.close)
        return runner.run(seed, max_steps=max_steps, digests=True)


def _env_failure(env: Env, where: str, seed: int, error: Exception) -> str:
    return f"{env.spec.env_id} failed in {where} of the episode with seed {seed}: {describe_error(error)}."


def _interruption(error: BaseException) -> BaseException:
    """Return the time limit behind the error: code that is interrupted may end with an error of its own."""
    context = error.__context__
    while context is not None and not isinstance(context, TimeLimitError):
        context = context.__context__
    return context or error


def _reason(error: BaseException) -> str:
    error = _interruption(error)
    match error:
        case ProcessExitError():
            return str(error)[:1].lower() + str(error)[1:]
        case MosaicError():
            return str(error)
        case SystemExit():
            return describe_exit(error)
        case _:
            return f"failed: {type(error).__name__}: {error}"


def _names(player: Player, turn: Turn) -> str:
    agents = ", ".join(f"'{agent}'" for agent in turn.observations)
    return f"policy '{player.key.policy}' for agent {agents}"


def _end(turn: Turn, agent: AgentID) -> End:
    if turn.terminated[agent] and turn.truncated[agent]:
        return "terminated+truncated"
    return "terminated" if turn.terminated[agent] else "truncated"
