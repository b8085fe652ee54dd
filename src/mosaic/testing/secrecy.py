"""Contract check of hidden information: what the viewers of a match are sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Action, Mask
from mosaic.server.play.episode import CurrentEpisode, MatchPhase
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.play.messages import MatchRequest

_STEP_S = 60.0  # longest wait for a step of the env


class SecrecyError(MosaicError):
    """Error for a viewer that is sent more than it may see."""


@dataclass(frozen=True, slots=True)
class SecrecyReport:
    """Scope of a check for hidden information: what it compared."""

    env_steps: int
    messages: int  # that viewers got while the episode lasted


def check_secrecy(env: EnvID, *, seed: int = 0, max_steps: int = 40) -> SecrecyReport:
    """Play a match with a person for each agent, and a spectator; raise SecrecyError if one of them is sent more than
    they may see.

    The env must declare `metadata["hidden_information"] = True`. As long as the episode lasts, a player gets what its
    own agent observes, its side of the card table, or what the env draws for it, and no viewer gets the picture of
    everything, the seed, a policy's view of another agent, or its place.
    """
    environment = EnvironmentConfig.model_validate({"env_id": env})
    match = Match("secrecy", MatchRequest(environment=environment, agents={"*": "human"}, seed=seed, pace="turns"))
    match.open()
    try:
        return _check(match, seed, max_steps)
    finally:
        match.end("the check is done.")
        match.join_thread(_STEP_S)


def _check(match: Match, seed: int, max_steps: int) -> SecrecyReport:
    state = match.state
    spec = state.episode.known_spec
    if not spec.facts.hidden_information:
        raise SecrecyError(
            f'{spec.env_id} does not declare hidden information: set metadata["hidden_information"] = True, or '
            "hidden_information=True in its EnvFacts."
        )
    viewers: dict[AgentID | None, MatchFeed] = {}
    for agent in (*state.episode.agents, None):
        claims = set() if agent is None else {agent}
        viewers[agent] = MatchFeed(match, claims, lambda policy: None, lambda: None, shares=False)
        viewers[agent].join()

    def sample(agent: AgentID, mask: Mask | None) -> Action:
        space = spec.action_spaces[agent]
        return space.sample() if mask is None else space.sample(mask.astype(np.int8))

    for place, space in enumerate(spec.action_spaces.values()):
        space.seed(seed + place)
    messages = 0
    while state.episode.phase is MatchPhase.PLAYING and state.episode.step < max_steps:
        with state.changed:
            for agent, feed in viewers.items():
                messages += _check_viewer(match, agent, feed)
            step, turn = state.episode.step, state.episode.turn
            assert turn is not None
            for agent in state.episode.acting:
                action = np.asarray(sample(agent, turn.action_masks.get(agent))).tolist()
                viewers[agent].take(json.dumps({"type": "act", "agent": agent, "action": action}))
            state.changed.wait_for(_has_left(state.episode, step), _STEP_S)
            if state.episode.step == step:
                raise SecrecyError(f"{spec.env_id} did not take step {step + 1}: {state.episode.error or 'no reply'}")
    return SecrecyReport(state.episode.step, messages)


def _has_left(episode: CurrentEpisode, step: int) -> Callable[[], bool]:
    return lambda: episode.step > step or bool(episode.error)


def _check_viewer(match: Match, agent: AgentID | None, feed: MatchFeed) -> int:
    """Check what one viewer is due to get now."""
    episode, who = match.state.episode, agent or "a spectator"
    texts = feed.texts()
    if feed.picture() is not None and not episode.view.private_pictures:
        raise SecrecyError(f"At step {episode.step} {who} is sent the env's picture, which shows everything.")
    for text in texts:
        view = json.loads(text)
        if view["type"] == "refused":
            raise SecrecyError(f"At step {episode.step} a move of {who} was refused: {view['text']}")
        for secret in ("seed", "advice"):
            if view[secret] is not None:
                raise SecrecyError(f"At step {episode.step} {who} is told the {secret}.")
        if any(row["place"] for row in view["agents"] if row["agent"] != agent):
            raise SecrecyError(f"At step {episode.step} {who} is told where other agents are.")
        for other, observed in episode.view.observed.items():
            if other != agent and observed != episode.view.observed.get(agent or "") and observed in view["text"]:
                raise SecrecyError(f"At step {episode.step} {who} is told what {other} observes.")
        if not episode.view.tables and any(move["agent"] != agent for move in view["moves"]):
            raise SecrecyError(f"At step {episode.step} {who} is told the moves of other agents.")
    return len(texts)
