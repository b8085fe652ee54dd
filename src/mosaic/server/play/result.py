"""Result of an episode of a match: the winner, or all returns."""

from __future__ import annotations

from mosaic.core.episode import Episode, outcomes
from mosaic.envs.env import EnvFacts

_MOST_NAMED = 4


def result_of(record: Episode, facts: EnvFacts) -> str:
    if record.cut:
        return f"Cut after {record.env_steps} env steps."
    if facts.competitive and record.returns:
        words = outcomes(record.returns, facts.win_above)
        winners = [agent for agent, word in words.items() if word == "win"]
        return f"{winners[0]} ({record.policy_of(winners[0], record.env_steps)}) wins." if winners else "A draw."
    returns = record.returns
    if len(returns) > _MOST_NAMED:
        return f"Over after {record.env_steps} env steps. Mean return {sum(returns.values()) / len(returns):.4g}."
    shown = ", ".join(f"{agent} {value:.4g}" for agent, value in returns.items())
    return f"Over after {record.env_steps} env steps. Return: {shown}."
