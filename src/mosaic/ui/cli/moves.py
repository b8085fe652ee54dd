"""How a step reads in one line: who played what."""

from __future__ import annotations

from mosaic.core.episode import Episode
from mosaic.core.turn import Turn
from mosaic.envs.action_names import action_names
from mosaic.envs.env import EnvSpec


def describe_step(spec: EnvSpec, before: Turn, episode: Episode, step: int) -> str:
    """`step 3: player_0 (stockfish) plays e2e4`; `before` is the Turn that was answered, `step` counts from 1."""
    parts = []
    for agent, action in episode.actions[step - 1].items():
        names = {number: name for name, number in action_names(spec, before, agent).items()}
        played = names.get(action, action) if isinstance(action, int) else action
        parts.append(f"{agent} ({episode.policy_of(agent, step - 1)}) plays {played}")
    return f"step {step}: {', '.join(parts)}"
