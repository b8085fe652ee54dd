"""Play by single requests: the position as text with the legal actions by name, and a move that returns the next one.

For programs and language models that keep no WebSocket open. During a request its sender is a viewer of the match.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import numpy as np
from gymnasium import spaces
from pydantic import Field

from mosaic.config.sections import Section
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.text.view import text_view
from mosaic.server.play.episode import CurrentEpisode, MatchPhase
from mosaic.server.play.match import Match
from mosaic.server.play.messages import Agent, Restart, Seed
from mosaic.server.play.participants import Viewer
from mosaic.server.play.state import MatchState
from mosaic.server.schemas import ResponseModel

LONGEST_WAIT_S = 50.0  # clients give up after a minute
SHOWN_MOVES = 20

WaitSeconds = Annotated[
    float, Field(ge=0, le=LONGEST_WAIT_S, description="Maximum wait for the other agents, in seconds.")
]


class Position(ResponseModel):
    """Position of a match, for one who plays in it."""

    match_id: str
    env: str
    phase: MatchPhase
    episode: int
    seed: int | None = Field(description="Null while it would reveal hidden information.")
    step: int
    agent: str | None = Field(description="Agent to act for now; null while others act, or when the episode is over.")
    text: str = Field(description="What that agent observes.")
    legal_actions: list[str] = Field(description="Its moves by name; empty where actions are not integers.")
    action_space: str = Field(description="Its action space.")
    agents: dict[str, str] = Field(description="Agent → policy; `human` is played by requests or by people.")
    returns: dict[str, float]
    moves: list[str] = Field(description="The last moves, oldest first.")
    result: str
    error: str


class MoveRequest(Section):
    move: Annotated[str, Field(max_length=200, description="Name of a legal action, or its number or numbers.")]
    agent: Agent | None = Field(None, description="Agent that acts; null: the one whose turn it is.")
    wait_s: WaitSeconds = 30.0


class UndoRequest(Section):
    agent: Agent | None = Field(None, description="Agent whose move is taken back; null: the last one's of the sender.")
    wait_s: WaitSeconds = 30.0


class RestartRequest(Section):
    agent: Agent | None = Field(None, description="Agent to play; null: every human agent that is not claimed.")
    seed: Seed | None = Field(None, description="Of the next episode; null draws one.")
    wait_s: WaitSeconds = 30.0


def see_position(match: Match, agent: AgentID | None, wait_s: float) -> Position:
    """Return the position once it is the agent's turn or the episode is over; after `wait_s` as it is."""
    with _present(match, agent) as viewer:
        return _wait(match.state, viewer, None, wait_s)


def make_move(match: Match, asked: MoveRequest) -> Position:
    """Make a move and return the position at the next turn of the same player."""
    state = match.state
    with _present(match, asked.agent) as viewer:
        before = state.episode.turn
        state.type_move(viewer, asked.agent, asked.move)
        return _wait(state, viewer, before, asked.wait_s)


def restart(match: Match, asked: RestartRequest) -> Position:
    """Begin the next episode and return its first position."""
    state = match.state
    with _present(match, asked.agent) as viewer:
        before = state.episode.turn
        state.restart(Restart(type="restart", seed=asked.seed))
        return _wait(state, viewer, before, asked.wait_s)


def undo(match: Match, asked: UndoRequest) -> Position:
    """Take back the last move of the sender's agents and what policies replied; return the position before it."""
    state = match.state
    with _present(match, asked.agent) as viewer:
        before = state.episode.turn
        order = match.undo(viewer)
        if not state.changed.wait_for(order.done, asked.wait_s):
            raise InputError("A policy is still thinking: ask again when it has moved.")
        order.result()
        return _wait(state, viewer, before, asked.wait_s)


@contextmanager
def _present(match: Match, agent: AgentID | None) -> Iterator[Viewer]:
    """Join the match for a block, which holds its lock."""
    state = match.state
    viewer = Viewer(lambda: None, set() if agent is None else {agent}, pictures=False)
    with state.changed:
        if agent is not None:
            state.episode.check_agent(agent)
        state.join(viewer)
        try:
            yield viewer
        finally:
            state.leave(viewer)


def _wait(state: MatchState, viewer: Viewer, before: Turn | None, wait_s: float) -> Position:
    state.changed.wait_for(lambda: _is_ready(state, viewer, before), wait_s)
    return _position(state, viewer, before)


def _is_ready(state: MatchState, viewer: Viewer, before: Turn | None) -> bool:
    episode = state.episode
    if episode.phase in (MatchPhase.OVER, MatchPhase.OPENING):
        return episode.phase is MatchPhase.OVER and episode.turn is not before
    return episode.phase is not MatchPhase.PLAYING or _chooser(state, viewer, before) is not None


def _chooser(state: MatchState, viewer: Viewer, before: Turn | None) -> AgentID | None:
    """Return the viewer's agent that must choose; none during a step, and none before the episode after `before`."""
    episode, chosen = state.episode, state.players.chosen
    if episode.turn is state.players.taken or (episode.turn is before and not chosen):
        return None
    mine = state.players.mine(viewer)
    return next((agent for agent in episode.acting if agent in mine and agent not in chosen), None)


def _position(state: MatchState, viewer: Viewer, before: Turn | None) -> Position:
    episode, agent = state.episode, _chooser(state, viewer, before)
    spec = episode.known_spec
    return Position(
        match_id=state.id,
        env=spec.env_id,
        phase=episode.phase,
        episode=episode.number,
        seed=episode.seed if episode.is_revealed else None,
        step=episode.step,
        agent=agent,
        text="" if agent is None else _text(episode, agent),
        legal_actions=[] if agent is None else _legal(episode, agent),
        action_space="" if agent is None else str(spec.action_spaces[agent]),
        agents={each: state.assignments.policy_of(each) for each in episode.agents},
        returns=dict(episode.returns),
        moves=[f"{move.agent}: {move.text}" for move in episode.moves_for(state.players.mine(viewer))[-SHOWN_MOVES:]],
        result=episode.result,
        error=episode.error,
    )


def _text(episode: CurrentEpisode, agent: AgentID) -> str:
    assert episode.turn is not None
    try:
        return text_view(episode.known_spec, episode.turn, agent)
    except InputError as error:  # a picture: the match can be played, but not read
        return f"There is no text of this observation. {error}"


def _legal(episode: CurrentEpisode, agent: AgentID) -> list[str]:
    """Return what `type_move` takes: names, or numbers where there are too many for names."""
    assert episode.turn is not None
    named = [choice.label for choice in episode.choices.get(agent, ())]
    space, mask = episode.known_spec.action_spaces[agent], episode.turn.action_masks.get(agent)
    if named or not isinstance(space, spaces.Discrete):
        return named
    legal = np.arange(int(space.n)) if mask is None else np.flatnonzero(mask)
    return [str(int(space.start) + int(place)) for place in legal]
