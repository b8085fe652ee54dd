"""Check of evaluation events: they name all agents and policies."""

from __future__ import annotations

from collections.abc import Iterable

from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.shared_env import env_spec
from mosaic.telemetry.events.event import MetricEvent
from mosaic.testing.worker.rehearsal import Rehearsal

_PROMISE = "an evaluation of several agents names every agent with its policy and the policies of the others"
_ADVICE = "yield the records of mosaic.plugins.evaluate_learners, with policy_of"


def check_evaluations(rehearsal: Rehearsal, capability: str) -> None:
    """Check the evaluations of a run; one of a single agent has nothing to name."""
    agents, saved = env_spec(rehearsal.run.config.environment).possible_agents, rehearsal.run.checkpoints()
    if len(agents) < 2:
        return
    learned = list(saved[-1].manifest.policies) if saved else []
    for event in rehearsal.events():
        if event["kind"] != "evaluation":
            continue
        if missing := missing_names(event, agents, learned):
            raise rehearsal.broken(capability, f"an evaluation has no {', '.join(missing)}", _PROMISE, _ADVICE)


def missing_names(event: MetricEvent, agents: Iterable[AgentID], learned: Iterable[PolicyID]) -> list[str]:
    """Return what the event of an evaluation does not name."""
    seen, policies = event.get("agents") or {}, event.get("policies") or {}
    missing = [f"agent {agent}" for agent in agents if agent not in seen]
    missing += [f"policy {name}" for name in learned if name not in policies]
    for agent, facts in seen.items():
        names: list[str | None] = [*facts.get("policies", ())] or [facts.get("policy")]
        missing += [f"policy of {agent}" for name in names if name not in policies]
    missing += [f"other agents of {agent}" for agent, facts in seen.items() if not facts.get("others")]
    return missing + [f"mean reward of {name}" for name, facts in policies.items() if "reward_mean" not in facts]
