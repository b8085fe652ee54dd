"""Checks that a worker honours the agent mapping: rules, fixed policies and policies that must not change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from string import ascii_letters

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.core.ids import PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import Explains, PolicyController
from mosaic.policies.registry import load_policy
from mosaic.telemetry.events.event import MetricEvent
from mosaic.testing.duel import CHOICES, CONSTANT, OTHERS_PAY, PLACE, STEPS, duel
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.opponents import constant_opponents, served_opponents
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal
from mosaic.workers.api import MakesPolicies

_FROM_ONE = OTHERS_PAY * (CHOICES - 1) * STEPS  # of an agent's return, for each other agent that always plays 2
_OWN = (CHOICES - 1) * STEPS  # for its own points, at most
_FEW_STEPS = 100
_PROMISE = "a worker honours the whole mapping, or refuses it before there is a run"

OUTSIDE = ("process:true", "http://127.0.0.1:1", "llm:model,url=http://127.0.0.1:1/v1")
IMPOSSIBLE: dict[str, dict[str, object]] = {
    "unknown agent": {"agents": {"unknown": "random"}},
    "unknown policy": {"agents": {"b": "no_such_policy:depth=1"}},
    "misspelt policy": {"agents": {"b": "randon"}},
    "unknown option of a policy": {"agents": {"b": "random:dept=1"}},
    "person": {"agents": {"b": "human"}},
    "key in a reference": {"agents": {"b": "llm:model,url=http://127.0.0.1:1/v1,api_key=secret"}},
    "unknown policy to train": {"policies_to_train": ["no_such_policy"]},
    "function without arguments as policies to train": {"policies_to_train": "python:os:getcwd"},
    "unknown opponent": {"evaluation": {"opponents": ["no_such_policy"]}},
    "unknown mirror": {"telemetry": {"mirrors": ["no_such_mirror"]}},
}


def check_mapping(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Check the agent mapping; the env of `short`, a run of seconds with several checkpoints, is replaced by `Duel`."""
    families = setup.info.env_families
    environment = duel()
    if "*" not in families and environment.family not in families:
        return []  # the worker takes none of our envs
    paradigm = "parameter_sharing" if "parameter_sharing" in setup.info.paradigms else None
    config = short.model_copy(update={"environment": environment, "policy_configuration": paradigm})
    proofs = [_check_refused(setup, config)]
    if setup.info.agent_mapping:
        proofs += [*_check_opponent(setup, config), _check_served(setup, config), *_check_frozen(setup, config)]
    else:
        for reference in (CONSTANT, *OUTSIDE):
            setup.refusal(config, "fixed opponent", {"agents": {"b": reference}}, _PROMISE)
    return proofs


def _check_refused(setup: ContractSetup, config: RunConfig) -> ContractProof:
    for what, changes in IMPOSSIBLE.items():
        setup.refusal(config, what, changes, _PROMISE)
    return ContractProof("agent mapping", f"refused: {', '.join(IMPOSSIBLE)}")


def _check_opponent(setup: ContractSetup, config: RunConfig) -> list[ContractProof]:
    """Check that the learning agent's returns reveal its fixed opponents' moves, and what its infos say.

    The opponents are a function, an ONNX file and a bundle; each of them always plays 2.
    """
    fixed = constant_opponents(setup.home / "opponents")
    proof, rehearsal, events = _train_against(setup, config, "fixed opponent", fixed)
    return [proof, *_check_env_metrics(setup, rehearsal, events, fixed)]


def _check_served(setup: ContractSetup, config: RunConfig) -> ContractProof:
    """Check opponents in other processes, for some steps: a program, a policy server and a language model."""
    steps = min(config.training.total_timesteps or _FEW_STEPS, _FEW_STEPS)
    few = setup.changed(config, {"training": {"total_timesteps": steps}})
    with served_opponents(setup.home / "opponents") as fixed:
        return _train_against(setup, few, "opponent in another process", fixed)[0]


def _train_against(
    setup: ContractSetup, config: RunConfig, capability: str, fixed: Sequence[PolicyID]
) -> tuple[ContractProof, Rehearsal, list[MetricEvent]]:
    """Train one agent of `Duel` against policies that always play 2, which its returns must show."""
    environment = duel(agents=len(fixed) + 1)
    agents = dict(zip(ascii_letters[1:], fixed, strict=False))
    changes = {"environment": environment.model_dump(mode="json"), "agents": agents}
    with setup.rehearse(setup.changed(config, changes)) as rehearsal:
        rehearsal.finish(capability)
        events = [event for event in rehearsal.events() if event["kind"] == "iteration"]
    paid = [reward for event in events for reward in _rewards(event, fixed)]
    if not paid:
        found = "no event reports the rewards of the learning agent"
        raise rehearsal.broken(capability, found, _PROMISE, "report episode_reward_mean")
    least, most = len(fixed) * _FROM_ONE, len(fixed) * _FROM_ONE + _OWN
    wrong = [reward for reward in paid if not least <= reward <= most]
    if wrong:
        found = f"with {', '.join(fixed)} as its opponents an agent was paid {wrong[0]:g}, not {least:g} to {most:g}"
        advice = "let the policies of config.agents act for their agents (mosaic.learners.agent_roles.read_mapping)"
        raise rehearsal.broken(capability, found, _PROMISE, advice)
    kinds = ", ".join(reference.partition(":")[0] for reference in fixed)
    proof = ContractProof(capability, f"moves of {kinds} are in the returns: {min(paid):g} to {max(paid):g}")
    return proof, rehearsal, events


def _check_env_metrics(
    setup: ContractSetup, rehearsal: Rehearsal, events: list[MetricEvent], fixed: Sequence[PolicyID]
) -> list[ContractProof]:
    """Check that the number in the info of the agent's last steps is a metric of its policy."""
    if not setup.info.env_metrics:
        return []
    told_of = [item for event in events for item in (event.get("policies") or {}).items()]
    policies = [facts for name, facts in told_of if name not in fixed]
    told = {facts["custom_metrics"][PLACE] for facts in policies if PLACE in facts.get("custom_metrics", {})}
    if told != {1.0}:
        found = f"infos of the agent's last steps say {PLACE}=1, and its policy reports {sorted(map(str, told))}"
        promise = "numbers in the info of an agent's last step are custom metrics of its policy"
        advice = f"report policies.NAME.custom_metrics.{PLACE}, or declare env_metrics=False"
        raise rehearsal.broken("env metrics", found, promise, advice)
    return [ContractProof("env metrics", f"policies.NAME.custom_metrics.{PLACE} is 1, as the infos say")]


def _rewards(event: MetricEvent, fixed: Sequence[PolicyID]) -> list[float]:
    """Return the mean rewards of the policies that learn, or of the whole run if it reports none per policy."""
    policies = event.get("policies") or {}
    told = [facts.get("reward_mean") for name, facts in policies.items() if name not in fixed]
    return [reward for reward in told or [event.get("episode_reward_mean")] if reward is not None]


def _check_frozen(setup: ContractSetup, config: RunConfig) -> list[ContractProof]:
    """Train one of two policies; the other's output must be the same in the first and the last checkpoint."""
    if not isinstance(setup.worker, MakesPolicies):
        return []
    asked = {"agents": {"a": "red", "b": "blue"}, "policies_to_train": ["red"]}
    with setup.rehearse(setup.changed(config, asked)) as rehearsal:
        rehearsal.finish("policies_to_train")
        first, last = _ends(rehearsal)
        seen = {name: (_opinion(rehearsal, first, name), _opinion(rehearsal, last, name)) for name in ("red", "blue")}
    promise = "only the policies of policies_to_train change"
    if not _same(*seen["blue"]):
        found = f"'blue' is not to be trained, and changed between {first} and {last} env steps"
        raise rehearsal.broken("policies_to_train", found, promise, "leave the weights of other policies alone")
    if _same(*seen["red"]):
        found = f"'red' is to be trained, and did not change between {first} and {last} env steps"
        raise rehearsal.broken("policies_to_train", found, promise, "train the policies that are named")
    return [ContractProof("policies_to_train", f"red changed between {first} and {last} env steps, blue did not")]


def _ends(rehearsal: Rehearsal) -> tuple[int, int]:
    saved = rehearsal.run.checkpoints()
    for checkpoint in saved[:1]:
        missing = {"red", "blue"} - set(checkpoint.manifest.policies)
        if missing:
            found = f"its checkpoint has no policy {' and '.join(sorted(missing))}"
            raise rehearsal.broken("policies_to_train", found, _PROMISE, "save each policy under its name")
    if len(saved) < 2:
        found = f"a run with checkpoints every {rehearsal.run.config.checkpoint.every_steps} steps left {len(saved)}"
        advice = "give check_worker a smaller run to check the mapping with (short=…)"
        raise rehearsal.broken("policies_to_train", found, "a run saves as often as it is told", advice)
    return saved[0].env_steps, saved[-1].env_steps


def _opinion(rehearsal: Rehearsal, env_steps: int, policy: str) -> list[float]:
    """Return the policy's output for every step of an episode, as numbers: probabilities, value, action."""
    agent = {"red": "a", "blue": "b"}[policy]
    with closing(make_env(duel())) as env:
        turn = env.reset(0).only((agent,))
        reference = f"run:{rehearsal.run.id}@{env_steps}/{policy}"
        with closing(load_policy(reference, env.spec, (agent,))) as controller:
            opinion: list[float] = []
            for number in range(STEPS):
                controller.begin((agent,), number)
                opinion += _numbers(controller, turn._replace(observations={agent: number}))
    return opinion


def _numbers(controller: PolicyController, turn: Turn) -> list[float]:
    (agent,) = turn.observations
    if not isinstance(controller, Explains):
        return [float(controller.act(turn)[agent])]
    explained = controller.explain(turn)[agent]
    likely = [] if explained.probabilities is None else explained.probabilities.tolist()
    return [*likely, *([] if explained.value is None else [explained.value])]


def _same(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=1e-6, atol=1e-8))
