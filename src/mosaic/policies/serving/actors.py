"""Policies that act in the episodes of many clients, in one forward pass where their controllers can.

Decisions that are asked for while the event loop is busy, or while a policy computes, form the next batch: none waits
for others that may not come. A policy whose batches take less than a few milliseconds computes in the event loop's own
thread; any other in a thread of its own, so that a slow one delays no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from time import perf_counter
from typing import NamedTuple, Protocol, TypeAlias, cast

from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S, ActsTogether, PolicyController, Remembers
from mosaic.policies.registry import load_policy
from mosaic.policies.serving.episode import StartedEpisode
from mosaic.policies.serving.messages import EpisodeID

# An exception concerns its own episode alone, which it ends; a CallError about a value only refuses the call.
Decision: TypeAlias = "Mapping[AgentID, Action] | Exception"
QUICK_S = 0.003  # a policy whose last batch took less computes in the event loop's thread
_MOST_IDLE = 64  # controllers that wait for another episode


class EpisodeActor(Protocol):
    """Policy that acts in several episodes at the same time; calls come one after another, from any thread."""

    @property
    def waits(self) -> bool: ...  # for something else: it never decides in the event loop's thread, however quick it is

    def begin(self, episode: StartedEpisode) -> None: ...

    def act(self, turns: Sequence[tuple[EpisodeID, Turn]]) -> Sequence[Decision]: ...  # one for each, in their order

    def forget(self, episode_id: EpisodeID, agent: AgentID) -> None: ...

    def end(self, episode_id: EpisodeID) -> None: ...


class ServedPolicy:
    """Policy that acts for agents of an env in any number of episodes."""

    def __init__(
        self,
        reference: PolicyID,
        spec: EnvSpec,
        agents: tuple[AgentID, ...],
        *,
        seed: int = 0,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
    ) -> None:
        """Load the policy: what cannot act for these agents fails here."""
        self.reference, self.spec, self.agents = reference, spec, agents
        self._seed, self._time_limit_s = seed, time_limit_s
        first = self._load()
        self.remembers = isinstance(first, Remembers)
        self._shared = _SharedActor(first) if isinstance(first, ActsTogether) else None
        self._idle: list[PolicyController] = [] if self._shared else [first]
        self._closed = False

    def actor(self) -> EpisodeActor:
        """Return the actor of an episode: the same for all whose decisions can be computed together."""
        if self._shared is not None:
            return self._shared
        return _SoloActor(self._take, self._release)

    def warm_up(self) -> None:
        """Decide alone and together with another episode, so that no client waits for what is compiled then."""
        if self._shared is not None:
            agent = self.agents[0]
            seen = deepcopy(self.spec.observation_spaces[agent]).sample()  # a copy has random numbers of its own
            self._shared.warm_up(Turn({agent: seen}, {}, {}, {}, {}, {}, {}))

    def close(self) -> None:
        """Close the controllers that no episode uses; the others follow when their episodes end."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        if self._shared is not None:
            self._shared.close()

    def _take(self) -> PolicyController:
        try:
            return self._idle.pop()
        except IndexError:
            return self._load()

    def _load(self) -> PolicyController:
        return load_policy(self.reference, self.spec, self.agents, seed=self._seed, time_limit_s=self._time_limit_s)

    def _release(self, controller: PolicyController) -> None:
        if len(self._idle) < _MOST_IDLE and not self._closed:
            self._idle.append(controller)
        else:
            controller.close()


class _SharedActor:
    """Actor of all episodes of one policy."""

    waits = False

    def __init__(self, first: ActsTogether) -> None:
        self._first = first
        self._controllers: dict[EpisodeID, ActsTogether] = {}

    def warm_up(self, turn: Turn) -> None:
        pair = [(self._first.sibling(), turn) for _ in range(2)]
        for made, _ in pair:
            cast(PolicyController, made).begin(tuple(turn.observations), 0)
        self._first.act_together(pair[:1])
        self._first.act_together(pair)
        for made, _ in pair:
            cast(PolicyController, made).close()

    def begin(self, episode: StartedEpisode) -> None:
        made = self._first.sibling()
        cast(PolicyController, made).begin(episode.agents, episode.seed)
        self._controllers[episode.episode_id] = made

    def act(self, turns: Sequence[tuple[EpisodeID, Turn]]) -> Sequence[Decision]:
        try:
            return self._first.act_together([(self._controllers[episode_id], turn) for episode_id, turn in turns])
        except Exception as error:  # noqa: BLE001 - of one of them: it must not end the episodes of other clients
            return [error] if len(turns) == 1 else [self.act((each,))[0] for each in turns]

    def forget(self, episode_id: EpisodeID, agent: AgentID) -> None:
        controller = self._controllers[episode_id]
        if isinstance(controller, Remembers):
            controller.forget(agent)

    def end(self, episode_id: EpisodeID) -> None:
        controller = self._controllers.pop(episode_id, None)
        if controller is not None:
            cast(PolicyController, controller).close()

    def close(self) -> None:
        cast(PolicyController, self._first).close()


class _SoloActor:
    """Actor of one episode, with a controller of its own from `begin` on, which other episodes use after it."""

    waits = False

    def __init__(self, take: Callable[[], PolicyController], release: Callable[[PolicyController], None]) -> None:
        self._take, self._release, self._failed = take, release, False
        self._controller: PolicyController | None = None  # an episode that is refused before it begins takes none

    def begin(self, episode: StartedEpisode) -> None:
        controller = self._take()
        try:
            controller.begin(episode.agents, episode.seed)
        except BaseException:
            controller.close()
            raise
        self._controller = controller

    def act(self, turns: Sequence[tuple[EpisodeID, Turn]]) -> Sequence[Decision]:
        ((_, turn),) = turns  # an episode asks for one decision at a time
        try:
            assert self._controller is not None, "the episode has not begun"
            return [self._controller.act(turn)]
        except Exception as error:  # noqa: BLE001
            self._failed = True
            return [error]

    def forget(self, episode_id: EpisodeID, agent: AgentID) -> None:
        if self._controller is not None and isinstance(self._controller, Remembers):
            self._controller.forget(agent)

    def end(self, episode_id: EpisodeID) -> None:
        if self._controller is None:  # it failed to begin, and was closed
            return
        if self._failed:
            self._controller.close()
        else:
            self._release(self._controller)


class Decisions:
    """Requests for decisions of one actor, computed in batches; no two calls of the actor overlap."""

    def __init__(self, actor: EpisodeActor, threads: ThreadPoolExecutor) -> None:
        self._actor, self._threads = actor, threads
        self._waiting: list[_Question] = []
        self._orders: list[_Order] = []
        self._busy = False
        self._quick = False
        self._loop = asyncio.get_running_loop()

    def ask(self, episode_id: EpisodeID, turn: Turn) -> asyncio.Future[Decision]:
        """Return the decision for a Turn, when its batch has been computed."""
        future: asyncio.Future[Decision] = self._loop.create_future()
        self._waiting.append(_Question(episode_id, turn, future))
        self._schedule()
        return future

    def order(self, work: Callable[[], object]) -> asyncio.Future[None]:
        """Carry out another call of the actor, before the next batch."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._orders.append(_Order(work, future))
        self._schedule()
        return future

    def _schedule(self) -> None:
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        batch = [each for each in self._waiting if not each.decision.done()]  # an episode may have been lost meanwhile
        orders, self._waiting, self._orders = self._orders, [], []
        if self._quick and not orders:
            self._finish(batch, [], self._decide(batch), [])
            return
        work = self._loop.run_in_executor(self._threads, self._work, batch, orders)
        work.add_done_callback(lambda done: self._finish(batch, orders, *done.result()))

    def _work(self, batch: list[_Question], orders: list[_Order]) -> tuple[Sequence[Decision], list[Exception | None]]:
        failures = [_failure(order.work) for order in orders]
        return self._decide(batch), failures

    def _decide(self, batch: list[_Question]) -> Sequence[Decision]:
        if not batch:
            return ()
        began = perf_counter()
        try:
            return self._actor.act([(each.episode_id, each.turn) for each in batch])
        except Exception as error:  # noqa: BLE001
            return [error] * len(batch)
        finally:
            self._quick = not self._actor.waits and perf_counter() - began < QUICK_S

    def _finish(
        self,
        batch: list[_Question],
        orders: list[_Order],
        decisions: Sequence[Decision],
        failures: list[Exception | None],
    ) -> None:
        self._busy = False
        for order, failure in zip(orders, failures, strict=True):
            if not order.done.done():
                order.done.set_result(None) if failure is None else order.done.set_exception(failure)
        for question, decision in zip(batch, decisions, strict=True):
            if not question.decision.done():
                question.decision.set_result(decision)
        if self._waiting or self._orders:
            self._schedule()


class _Question(NamedTuple):
    episode_id: EpisodeID
    turn: Turn
    decision: asyncio.Future[Decision]


class _Order(NamedTuple):
    work: Callable[[], object]
    done: asyncio.Future[None]


def _failure(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:  # noqa: BLE001
        return error
    return None
