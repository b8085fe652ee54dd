"""Episode of a client as a state machine: reports of the client become Turns, as those of an env.

Everything that a client reports between two decisions (rewards, infos, agents that ended) is collected and is part of
the next Turn, so a listener sees what it would see of an env that it steps itself:

    started(episode)                       # agents, seed, whether it may be used for training
    acted(id, turn, actions, by)           # turn.observations: agents that act; turn.rewards: since the last Turn
    ...
    ended(id, turn)                        # turn.over; rewards since the last Turn, ends and final observations
    lost(id, reason)                       # instead of `ended`: its client is gone, it expired, or a policy failed

`ExperienceSink` is that listener. A training run implements it, and gives the server an `EpisodeActor`
(`mosaic.policies.serving.actors`) that chooses the actions of `get_action`. `by` is "policy" for these and "client"
for actions from `log_action`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.env import EnvSpec
from mosaic.policies.serving.messages import CallError, EpisodeID

ActedBy: TypeAlias = Literal["policy", "client"]
Infos: TypeAlias = Mapping[AgentID, Mapping[str, object]]


class StartedEpisode(NamedTuple):
    """Episode that a client has begun."""

    episode_id: EpisodeID
    client: str  # a connection, or the address of a client without one
    spec: EnvSpec
    agents: tuple[AgentID, ...]  # for which the policy acts
    seed: int
    training_enabled: bool


class ExperienceSink(Protocol):
    """Listener to the episodes of clients, called in their order from the server's thread; it must not block.

    It may refuse actions of a client, or an end, by raising CallError: then the call was not carried out.
    """

    def started(self, episode: StartedEpisode) -> None: ...

    def acted(
        self, episode_id: EpisodeID, turn: Turn, actions: Mapping[AgentID, Action], by: ActedBy
    ) -> None: ...  # after the actions were chosen

    def ended(self, episode_id: EpisodeID, turn: Turn) -> None: ...

    def lost(self, episode_id: EpisodeID, reason: str) -> None: ...


class EpisodeState(NamedTuple):
    """Living agents, and what was reported since the last Turn."""

    living: tuple[AgentID, ...]
    steps: int = 0  # Turns in which an agent acted
    rewards: Mapping[AgentID, float] = MappingProxyType({})
    infos: Infos = MappingProxyType({})
    terminated: frozenset[AgentID] = frozenset()
    truncated: frozenset[AgentID] = frozenset()
    final_observations: Mapping[AgentID, Observation] = MappingProxyType({})
    last_observations: Mapping[AgentID, Observation] = MappingProxyType({})


class Report(NamedTuple):
    """Observations and rewards of agents since their last action."""

    rewards: Mapping[AgentID, float]
    infos: Infos = MappingProxyType({})
    terminated: Collection[AgentID] = ()
    truncated: Collection[AgentID] = ()
    observations: Mapping[AgentID, Observation] = MappingProxyType({})  # the last ones of agents that ended


NOTHING = Report({})


def add_report(state: EpisodeState, report: Report) -> EpisodeState:
    """Return the state with what a client reports; raise CallError for agents that have ended before."""
    if not any(report):
        return state
    ended = frozenset({*report.terminated, *report.truncated})
    for agent in (*report.rewards, *report.infos, *ended):
        _check_living(state, agent)
    for agent in report.observations.keys() - ended:
        raise CallError(
            "wrong_value",
            f"observation.{agent}: log_returns takes the last observations of agents that have ended; "
            "others belong to get_action or log_action.",
            agent=agent,
        )
    finals = {agent: _final(state, agent, report) for agent in state.living if agent in ended}
    rewards = dict(state.rewards)
    for agent, reward in report.rewards.items():
        rewards[agent] = rewards.get(agent, 0.0) + reward
    return state._replace(
        rewards=rewards,
        infos={**state.infos, **report.infos},
        terminated=state.terminated | frozenset(report.terminated),
        truncated=state.truncated | frozenset(report.truncated),
        final_observations={**state.final_observations, **finals},
    )


def take_turn(
    state: EpisodeState, observations: Mapping[AgentID, Observation], masks: Mapping[AgentID, Mask]
) -> tuple[EpisodeState, Turn]:
    """Return the state after these agents have acted, and the Turn in which they do."""
    if not observations:
        raise CallError("wrong_value", "observation: it is missing; name an agent that must act.", sent="nothing")
    for agent in observations:
        _check_living(state, agent)
    turn = Turn(observations, masks, *_results(state), state.final_observations, state.infos)
    left = living(state) if state.final_observations else state.living
    return EpisodeState(left, state.steps + 1, last_observations={**state.last_observations, **observations}), turn


def finish(state: EpisodeState, observations: Mapping[AgentID, Observation], *, truncated: bool) -> Turn:
    """Return the last Turn: every agent that still lives has terminated, or was truncated."""
    rest = living(state)
    for agent in observations:
        _check_living(state, agent)
    report = Report({}, {}, () if truncated else rest, rest if truncated else (), observations)
    over = add_report(state, report)
    return Turn({}, {}, *_results(over), over.final_observations, over.infos)


def living(state: EpisodeState) -> tuple[AgentID, ...]:
    """Return the agents that have not ended."""
    return tuple(agent for agent in state.living if agent not in state.final_observations)


def _results(state: EpisodeState) -> tuple[dict[AgentID, float], dict[AgentID, bool], dict[AgentID, bool]]:
    """Return rewards, terminated and truncated of the living, who are all that a client may report of."""
    terminated, truncated = (dict.fromkeys(ended, True) for ended in (state.terminated, state.truncated))
    running = dict.fromkeys(state.living, False)
    return dict.fromkeys(state.living, 0.0) | dict(state.rewards), running | terminated, running | truncated


def _check_living(state: EpisodeState, agent: AgentID) -> None:
    if agent in state.final_observations or agent not in state.living:
        raise CallError("agent_ended", f"The agent '{agent}' has ended or is not part of this episode.", agent=agent)


def _final(state: EpisodeState, agent: AgentID, report: Report) -> Observation:
    """Return an agent's last observation; where it has terminated nothing follows, so an earlier one may stand in."""
    if agent in report.observations:
        return report.observations[agent]
    if agent in report.truncated:
        raise CallError(
            "wrong_value",
            f"observation.{agent}: it is missing; what an agent sees when it is truncated is needed for training.",
            agent=agent,
            sent="nothing",
        )
    return state.last_observations.get(agent)
