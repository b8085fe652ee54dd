"""Service that carries out the calls of clients, whatever brings them: HTTP, a WebSocket, a test."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from msgspec import UNSET

from mosaic.core.errors import MosaicError, describe_error, shown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import SEED_LIMIT, child_seed
from mosaic.core.turn import Turn
from mosaic.envs.space_json import Document, describe_space, spec_spaces
from mosaic.policies.serving.actors import Decision, Decisions, EpisodeActor
from mosaic.policies.serving.episode import (
    NOTHING,
    EpisodeState,
    ExperienceSink,
    Report,
    StartedEpisode,
    add_report,
    finish,
    living,
    take_turn,
)
from mosaic.policies.serving.messages import (
    EVERY_AGENT,
    PROTOCOL,
    AnyCall,
    CallError,
    EndEpisode,
    EpisodeID,
    Forget,
    GetAction,
    LogAction,
    LogReturns,
    Reply,
    StartEpisode,
    Step,
)
from mosaic.policies.serving.sessions import EpisodeLimits, EpisodeTable
from mosaic.policies.serving.values import ValueReader

_LOG = logging.getLogger(__name__)
_THREADS = 32  # for policies that compute for long


class OpenedPolicy(NamedTuple):
    """Policy for one episode."""

    reference: PolicyID
    reader: ValueReader
    agents: tuple[AgentID, ...]  # for which it may act
    actor: EpisodeActor
    remembers: bool = True  # clients must say when another policy takes an agent over


PolicySource: TypeAlias = Callable[[StartEpisode], OpenedPolicy]  # may take long; raises MosaicError for what it lacks


@dataclass(slots=True)
class _Session:
    """Episode of a client."""

    episode: StartedEpisode
    policy: OpenedPolicy
    decisions: Decisions
    state: EpisodeState
    pending: asyncio.Future[Decision] | None = None

    @property
    def client(self) -> str:
        return self.episode.client


class PolicyService:
    """Episodes of all clients of a server, and the policies that act in them."""

    def __init__(
        self,
        source: PolicySource,
        *,
        sink: ExperienceSink | None = None,
        limits: EpisodeLimits | None = None,
        seed: int = 0,
        status_of: Callable[[MosaicError], int] = lambda error: 400,
    ) -> None:
        """Serve the policies of `source`; `sink` hears of all episodes that may be used for training."""
        self._source, self._sink, self._seed, self._status_of = source, sink, seed, status_of
        self.episodes: EpisodeTable[_Session] = EpisodeTable(limits or EpisodeLimits())
        self._threads = ThreadPoolExecutor(_THREADS, "policy")
        self._decisions: dict[EpisodeActor, tuple[Decisions, int]] = {}  # with the number of episodes
        self._closed = False
        self._ending: set[asyncio.Future[None]] = set()

    async def answer(self, message: AnyCall | list[AnyCall], client: str) -> Reply | list[Reply]:
        """Carry out a call, or several in their order; those of different episodes are decided together."""
        if not isinstance(message, list):
            return await self._answer(message, client)
        replies: list[asyncio.Future[Reply]] = []
        open_calls: dict[EpisodeID, asyncio.Future[Reply]] = {}
        for call in message:
            if call.episode_id is not None and call.episode_id in open_calls:
                await open_calls.pop(call.episode_id)
            reply = asyncio.ensure_future(self._answer(call, client))
            replies.append(reply)
            if call.episode_id is not None:
                open_calls[call.episode_id] = reply
        return list(await asyncio.gather(*replies))

    def drop_client(self, client: str, reason: str) -> None:
        """End all episodes of a client that is gone."""
        for episode_id in self.episodes.of_client(client):
            self._lose(episode_id, reason)

    def drop_idle(self) -> None:
        """End episodes that have had no call for too long; one that waits for its action is not idle."""
        for episode_id in self.episodes.idle():
            if self.episodes.get(episode_id).pending is None:  # `get` lets the others wait as long again
                self._lose(episode_id, f"it had no call for {self.episodes.limits.idle_s:g} s")

    async def close(self) -> None:
        """End all episodes and wait for what policies still compute; later calls are refused."""
        self._closed = True
        for episode_id in self.episodes.all():
            self._lose(episode_id, "the server ends")
        await asyncio.gather(*self._ending, return_exceptions=True)
        self._threads.shutdown()

    async def _answer(self, call: AnyCall, client: str) -> Reply:
        try:
            reply = await self._carry_out(call, client)
        except CallError as error:
            reply = dict(error.document())
        except MosaicError as error:
            reply = dict(CallError("refused", str(error), status=self._status_of(error)).document())
        if isinstance(call.id, int | str):
            reply["id"] = call.id
        return reply

    async def _carry_out(self, call: AnyCall, client: str) -> Reply:
        self._check_open()
        if isinstance(call, StartEpisode):
            return await self._start(call, client)
        session = self.episodes.get(call.episode_id)
        if session.pending is not None:
            raise CallError("episode_busy", f"The episode '{call.episode_id}' still waits for its last get_action.")
        match call:
            case GetAction():
                return await self._get_action(session, call)
            case LogAction():
                self._log_action(session, call)
            case LogReturns():
                self._log_returns(session, call)
            case EndEpisode():
                self._end(session, call)
            case Forget():
                session.policy.reader.check_agent(call.agent)
                await self._forget(session, call.agent)
        return {}

    def _check_open(self) -> None:
        if self._closed:
            raise CallError("episode_lost", "The server ends. Start another episode when it is there again.")

    async def _start(self, call: StartEpisode, client: str) -> Reply:
        if call.protocol != PROTOCOL:
            raise CallError(
                "bad_message", f"This server speaks version {PROTOCOL} of the protocol, not {call.protocol}."
            )
        if call.seed is not None and not 0 <= call.seed < SEED_LIMIT:
            raise CallError("wrong_value", f"seed: {shown(call.seed)}; expected: 0 to {SEED_LIMIT - 1}.")
        self.drop_idle()
        self.episodes.check_room(client)
        episode_id = self.episodes.new_id(call.episode_id)
        policy = await asyncio.get_running_loop().run_in_executor(self._threads, self._source, call)
        agents = _checked_agents(policy, call)
        seed = child_seed(self._seed, "episode", episode_id) if call.seed is None else call.seed
        episode = StartedEpisode(episode_id, client, policy.reader.spec, agents, seed, call.training_enabled)
        self._check_open()
        self.episodes.check_room(client)  # others may have started meanwhile
        self.episodes.new_id(episode_id)
        decisions = self._open(policy.actor)
        session = _Session(episode, policy, decisions, EpisodeState(policy.reader.spec.possible_agents))
        self.episodes.add(episode_id, session)
        try:
            await decisions.order(lambda: policy.actor.begin(episode))
        except Exception as error:
            self._lose(episode_id, "its policy failed")
            raise _policy_failed(policy.reference, agents, error) from error
        if self._sink is not None and episode.training_enabled:
            self._sink.started(episode)
        return {"episode_id": episode_id, "agents": list(agents), "remembers": policy.remembers}

    async def _get_action(self, session: _Session, call: GetAction) -> Reply:
        reader, episode_id = session.policy.reader, call.episode_id
        state = add_report(session.state, _report(reader, call))
        seen, masks = reader.observations(call.observation, call.action_mask)
        state, turn = take_turn(state, seen, masks)
        _check_served(session, seen)
        session.pending = session.decisions.ask(episode_id, turn)
        try:
            decision = await session.pending
        finally:
            session.pending = None
        if isinstance(decision, CallError) and decision.retry != "episode":
            raise decision  # the call was refused, as one with a value that nothing can be learned from
        if isinstance(decision, Exception):
            error: Exception = decision
        elif problem := _illegal(reader, turn, decision):
            error = MosaicError(problem)
        else:
            self.episodes.get(episode_id)  # its time without a call begins with the reply
            session.state = state
            if self._sink is not None and session.episode.training_enabled:
                self._sink.acted(episode_id, turn, decision, "policy")
            return {"action": reader.form(decision)}
        self._lose(episode_id, "its policy failed")
        raise _policy_failed(session.policy.reference, seen, error) from error

    def _log_action(self, session: _Session, call: LogAction) -> None:
        reader = session.policy.reader
        state = add_report(session.state, _report(reader, call))
        seen, masks = reader.observations(call.observation, call.action_mask)
        actions = reader.actions(call.action, masks)
        if actions.keys() != seen.keys():
            raise CallError(
                "wrong_value",
                f"action: of {', '.join(actions) or 'no agent'}, and observation of {', '.join(seen) or 'no agent'}.",
                sent=", ".join(actions),
                expected=", ".join(seen),
            )
        state, turn = take_turn(state, seen, masks)
        if self._sink is not None and session.episode.training_enabled:
            self._sink.acted(call.episode_id, turn, actions, "client")  # it may refuse them
        session.state = state

    def _log_returns(self, session: _Session, call: LogReturns) -> None:
        reader = session.policy.reader
        terminated = _named(session, call.terminated)
        truncated = _named(session, call.truncated, terminated)
        finals, _ = reader.observations(call.observation, call.action_mask)
        report = _report(reader, call)._replace(terminated=terminated, truncated=truncated, observations=finals)
        session.state = add_report(session.state, report)
        for agent in {*terminated, *truncated}:
            self._forget(session, agent).add_done_callback(_note_failure)

    def _end(self, session: _Session, call: EndEpisode) -> None:
        reader = session.policy.reader
        finals, _ = reader.observations(call.observation, call.action_mask)
        turn = finish(add_report(session.state, _report(reader, call)), finals, truncated=call.truncated)
        if self._sink is not None and session.episode.training_enabled:
            self._sink.ended(call.episode_id, turn)
        self._close(call.episode_id, "it has ended")

    def _forget(self, session: _Session, agent: AgentID) -> asyncio.Future[None]:
        return session.decisions.order(lambda: session.policy.actor.forget(session.episode.episode_id, agent))

    def _lose(self, episode_id: EpisodeID, reason: str) -> None:
        session = self._close(episode_id, reason)
        if session is None:
            return
        if session.pending is not None and not session.pending.done():
            session.pending.set_result(CallError("episode_lost", f"The episode '{episode_id}' is over: {reason}."))
        if self._sink is not None and session.episode.training_enabled:
            self._sink.lost(episode_id, reason)

    def _close(self, episode_id: EpisodeID, reason: str) -> _Session | None:
        session = self.episodes.remove(episode_id, reason)
        if session is not None:
            actor = session.policy.actor
            ending = session.decisions.order(lambda: actor.end(episode_id))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            ending.add_done_callback(_note_failure)
            decisions, users = self._decisions.pop(actor)
            if users > 1:
                self._decisions[actor] = decisions, users - 1
        return session

    def _open(self, actor: EpisodeActor) -> Decisions:
        decisions, users = self._decisions.get(actor) or (Decisions(actor, self._threads), 0)
        self._decisions[actor] = decisions, users + 1
        return decisions


def _note_failure(order: asyncio.Future[None]) -> None:
    """Log the failure of something that no client waits for."""
    error = None if order.cancelled() else order.exception()
    if error is not None:
        _LOG.warning("A policy failed after its episode had ended: %s", describe_error(error))


def _report(reader: ValueReader, call: Step) -> Report:
    if call.reward is UNSET and call.info is UNSET:
        return NOTHING
    return Report(reader.rewards(call.reward), reader.infos(call.info))


def _named(
    session: _Session, given: list[AgentID] | dict[AgentID, bool], others: Iterable[AgentID] = ()
) -> list[AgentID]:
    """Return the agents that a client names; `__all__` is every agent that still lives and is not one of the others."""
    agents = [agent for agent, ended in given.items() if ended] if isinstance(given, dict) else list(given)
    for agent in given:
        if agent != EVERY_AGENT:
            session.policy.reader.check_agent(agent)
    if EVERY_AGENT not in agents:
        return agents
    named = [agent for agent in agents if agent != EVERY_AGENT]
    return [*named, *(agent for agent in living(session.state) if agent not in {*named, *others})]


def _checked_agents(policy: OpenedPolicy, call: StartEpisode) -> tuple[AgentID, ...]:
    reader = policy.reader
    agents = policy.agents if call.agents is None else tuple(call.agents)
    for agent in agents:
        reader.check_agent(agent)
    own = spec_spaces(reader.spec, agents) if call.spaces is not None else {}
    for agent, spaces in own.items():
        for which, space in spaces.items():
            sent = (call.spaces or {}).get(agent, {}).get(which)
            if sent != space:
                expected = describe_space(cast(Document, space))
                text = f"spaces.{agent}.{which}: {shown(sent)}; this policy plays in {reader.spec.env_id}: {expected}."
                raise CallError("wrong_value", text, agent=agent, sent=shown(sent), expected=expected)
    return agents


def _check_served(session: _Session, agents: Iterable[AgentID]) -> None:
    for agent in agents:
        if agent not in session.episode.agents:
            known = ", ".join(session.episode.agents)
            raise CallError(
                "unknown_agent", f"The policy acts for {known} in this episode, not for '{agent}'.", agent=agent
            )


def _illegal(reader: ValueReader, turn: Turn, decision: object) -> str | None:
    """Return what is wrong with a decision; nothing else is played in its place."""
    if not isinstance(decision, dict | Mapping) or decision.keys() != turn.observations.keys():
        return f"it returned {shown(decision)} for {', '.join(turn.observations)}"
    for agent, action in decision.items():
        problem = reader.problem(agent, action, turn.action_masks.get(agent))
        if problem is not None:
            return f"it played {problem}, for agent '{agent}'"
    return None


def _policy_failed(reference: PolicyID, agents: Iterable[AgentID], error: Exception) -> CallError:
    if isinstance(error, CallError):
        return error
    names = ", ".join(f"'{agent}'" for agent in agents)
    reason = str(error) if isinstance(error, MosaicError) else describe_error(error)
    return CallError("policy_failed", f"The policy '{reference}' failed for agent {names}: {reason.rstrip('.')}.")
