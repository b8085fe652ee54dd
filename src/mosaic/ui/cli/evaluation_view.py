"""Last evaluation of a run, and the user's own metrics, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

EVALUATION_COLUMNS = ["agent", "policy", "against", "episodes", "mean reward", "won/drawn/lost"]


def evaluation_title(event: Mapping[str, Any]) -> str:
    """Return when it was, and against whom."""
    opponent = event.get("opponent")
    where = f"Evaluation at {event.get('env_steps') or 0:,} env steps"
    return f"{where}, against {opponent}" if opponent else where


def evaluation_rows(event: Mapping[str, Any]) -> list[list[str]]:
    """Return one row per agent, then one per snapshot; events of earlier versions have one row without a name."""
    agents: Mapping[str, Mapping[str, Any]] = event.get("agents") or {}
    if not agents:
        mean = {"reward_mean": event.get("episode_reward_mean")}
        return [["–", "–", str(event.get("opponent") or "–"), *_results({**event, **mean})]]
    rows = [
        [agent, str(facts.get("policy", "–")), _others(facts.get("others") or {}), *_results(facts)]
        for agent, facts in agents.items()
    ]
    snapshots: Sequence[Mapping[str, Any]] = event.get("snapshots") or ()
    return rows + [["", "", str(facts.get("snapshot")), *_results(facts)] for facts in snapshots]


def own_metrics(event: Mapping[str, Any]) -> list[list[str]]:
    """Return policy, name and value of each custom metric of an iteration, those of the whole run first."""
    named = [("", event), *(event.get("policies") or {}).items()]
    return [
        [policy or "–", name, f"{value:.4g}" if isinstance(value, int | float) else str(value)]
        for policy, facts in named
        for name, value in (facts.get("custom_metrics") or {}).items()
    ]


def _others(others: Mapping[str, str]) -> str:
    """Return the policies of the other agents, each once with its agents."""
    by_policy: dict[str, list[str]] = {}
    for agent, policy in others.items():
        by_policy.setdefault(policy, []).append(agent)
    return "; ".join(f"{policy} ({', '.join(agents)})" for policy, agents in by_policy.items()) or "–"


def _results(facts: Mapping[str, Any]) -> list[str]:
    mean = facts.get("reward_mean")
    games = "/".join(str(facts[name]) for name in ("wins", "draws", "losses")) if "wins" in facts else "–"
    return [str(facts.get("episodes", "–")), "–" if mean is None else f"{mean:.4g}", games]
