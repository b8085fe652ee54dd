"""Check of the return and the env steps that a worker reports where agents differ in both."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.telemetry.events.event import MetricEvent
from mosaic.testing.toys import Uneven, uneven
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal

_CAPABILITY = "returns of several agents"
_FEW_STEPS = 1200
_CLOSE = 0.5  # an agent that ends early may be ahead by one episode in each env
_PROMISE = "episode_reward_mean is the mean return of all agents that learn, as in the run's evaluation"
_STEPS_PROMISE = "env_steps counts the steps of the envs, whichever agent acts in them"


class _Case(NamedTuple):
    when: str  # the agents act
    environment: EnvironmentConfig
    returns: dict[AgentID, float]  # of those that learn
    played: dict[AgentID, PolicyID]


_BY_TURNS = uneven(turn_based=True)
_CASES = (
    _Case("at once", uneven(), {"a": 0.0, "b": 10.0}, {}),
    _Case("by turns", _BY_TURNS, {"a": 0.0, "b": 8.0}, {}),
    _Case("one after the other has ended", uneven(turn_based=True, a_ends=1), {"a": 0.0, "b": 9.0}, {}),
    _Case("by turns and a is played at random", _BY_TURNS, {"b": 8.0}, {"a": "random"}),
)


def check_returns(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Train in an env of two agents that differ in their returns and in when they end.

    Workers that step no env of Mosaic, or take one agent only, are not asked; an env that is refused is left out.
    """
    info, families = setup.info, setup.info.env_families
    steps_none = "environment" in info.not_applicable or ("*" not in families and uneven().family not in families)
    if steps_none or (info.max_agents or 2) < 2 or not info.agent_mapping:
        return []
    seen = [_check(setup, short, case) for case in _CASES]
    return [ContractProof(_CAPABILITY, "; ".join(seen))]


def _check(setup: ContractSetup, short: RunConfig, case: _Case) -> str:
    info = setup.info
    steps = max(_FEW_STEPS, min(short.training.total_timesteps or _FEW_STEPS, 2 * _FEW_STEPS))
    changes: dict[str, object] = {
        "environment": case.environment.model_dump(mode="json")
        | ({"num_envs": 2} if "num_envs" in info.resources else {}),
        "training": {"total_timesteps": steps, "episodes": None, "stop_reward": None},
        "agents": case.played,
        "policy_configuration": "parameter_sharing" if "parameter_sharing" in info.paradigms else None,
        **({"evaluation": {"episodes": 2}} if info.evaluates else {}),
    }
    try:
        rehearsal = setup.rehearse(setup.changed(short, changes))
    except InputError as error:
        return f"{case.when}: refused ({error})"
    with rehearsal:
        rehearsal.finish(_CAPABILITY)
        events = rehearsal.events()
    told = _reward(rehearsal, events, case)
    _check_steps(rehearsal, events, case)
    return f"{case.when}: {told:g}"


def _reward(rehearsal: Rehearsal, events: list[MetricEvent], case: _Case) -> float:
    """Return the last reported reward, checked against the known one and the run's own evaluation."""
    rewards = {
        of: [
            reward
            for event in events
            if event["kind"] == of and (reward := event.get("episode_reward_mean")) is not None
        ]
        for of in ("iteration", "evaluation")
    }
    if not rewards["iteration"]:
        raise rehearsal.broken(_CAPABILITY, "no event reports a return", _PROMISE, "report episode_reward_mean")
    mean = fmean(case.returns.values())
    known = ", ".join(f"{agent} gets {value:g}" for agent, value in case.returns.items())
    for of, found in rewards.items():
        if found and abs(found[-1] - mean) > _CLOSE:
            said = f"where agents act {case.when}, {known}, and the last {of} reports {found[-1]:g}"
            advice = "average the agents of each episode; one that ends early must not count more often"
            raise rehearsal.broken(_CAPABILITY, said, _PROMISE, advice)
    return rewards["iteration"][-1]


def _check_steps(rehearsal: Rehearsal, events: list[MetricEvent], case: _Case) -> None:
    counted = [
        (steps, episodes)
        for event in events
        if (steps := event.get("env_steps")) and (episodes := event.get("episodes_total"))
    ]
    for steps, episodes in counted[-1:]:
        if not 0.9 <= steps / (Uneven.STEPS * episodes) <= 1.3:
            found = (
                f"{episodes} episodes of {Uneven.STEPS} steps, in which agents act {case.when}, are {steps} env steps"
            )
            advice = "count a step of an env once, also where no agent that learns acts in it"
            raise rehearsal.broken(_CAPABILITY, found, _STEPS_PROMISE, advice)
