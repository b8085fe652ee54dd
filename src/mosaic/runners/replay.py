"""Whether an episode, played again, is the same bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn, digest
from mosaic.envs.env import Env
from mosaic.envs.spaces import objection


@dataclass(frozen=True, slots=True)
class Difference:
    """The first Turn that is not the recorded one: 0 is the one after reset, n the one after n steps."""

    step: int
    what: str


def replay(env: Env, episode: Episode, on_turn: Callable[[int, Turn], None] | None = None) -> Difference | None:
    """Play the recorded actions again; stops at the first difference. `on_turn` sees every Turn with its number."""
    if not episode.digests:
        raise FormatError("The episode was recorded without digests, so a replay could not be compared.")
    turn = env.reset(episode.seed)
    for step, actions in enumerate(episode.actions):
        if on_turn:
            on_turn(step, turn)
        difference = _compare(episode, step, turn)
        if difference:
            return difference
        if actions.keys() != turn.observations.keys():
            asked, recorded = ", ".join(turn.observations) or "nobody", ", ".join(actions)
            return Difference(step, f"{recorded} acted in the record, but {asked} must act now")
        turn = _step(env, turn, actions, step)
    if on_turn:
        on_turn(episode.env_steps, turn)
    return _compare(episode, episode.env_steps, turn)


def _step(env: Env, turn: Turn, actions: Mapping[AgentID, Action], step: int) -> Turn:
    """Take a recorded step; a file may hold actions that this env does not have."""
    for agent, action in actions.items():
        problem = objection(env.action_spaces[agent])(action, turn.action_masks.get(agent))
        if problem:
            raise FormatError(
                f"Step {step}: the recorded action of '{agent}' is not one of {env.spec.env_id}: {problem}."
            )
    return env.step(actions)


def _compare(episode: Episode, step: int, turn: Turn) -> Difference | None:
    if step and dict(turn.rewards) != dict(episode.rewards[step - 1]):
        return Difference(step, f"rewards are {dict(turn.rewards)}, recorded were {dict(episode.rewards[step - 1])}")
    if digest(turn) != episode.digests[step]:
        return Difference(step, "what the agents see differs from the record")
    return None
