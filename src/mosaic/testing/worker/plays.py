"""Checks of saved policies: they play, also in other envs with equal spaces, sample, and are named in evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from gymnasium.spaces import Discrete, Tuple

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.shared_env import env_spec
from mosaic.envs.wrappers.transform import Transform
from mosaic.evaluation.evaluate import evaluate
from mosaic.policies.registry import load_policy
from mosaic.store.checkpoints import find_checkpoint
from mosaic.telemetry.events.event import MetricEvent
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal
from mosaic.workers.api import MakesPolicies

_MAX_STEPS = 200
_SEEDS = 64  # enough seeds to expose a policy that samples among two or more actions
_NAMES = "an evaluation of several agents names every agent with its policy and the policies of the others"
_HOW_TO_NAME = "yield the records of mosaic.plugins.evaluate_learners, with policy_of"


def check_plays(setup: ContractSetup, rehearsal: Rehearsal) -> list[ContractProof]:
    if not isinstance(setup.worker, MakesPolicies):
        return []
    policy, environment = f"run:{rehearsal.run.id}", setup.config.environment
    if not find_checkpoint(rehearsal.run.folder).manifest.policies:
        raise rehearsal.broken(
            "run: policies",
            "its checkpoint names no policies",
            "a worker with controller(…) saves policies that play",
            "give context.checkpoint(…, policies={NAME: PolicyEntry(…)})",
        )
    steps = _play(rehearsal, environment, policy)
    _play(rehearsal, _named(environment, "same_spaces"), policy)
    _check_refused(rehearsal, _named(environment, "other_spaces"), policy)
    proofs = [
        ContractProof("run: policies", f"{policy} played {steps} env steps, and in another env with equal spaces")
    ]
    return [*proofs, *_check_sampling(setup, rehearsal, policy)]


def _play(rehearsal: Rehearsal, environment: EnvironmentConfig, policy: str) -> int:
    try:
        return evaluate(environment, {"*": policy}, episodes=1, max_steps=_MAX_STEPS).env_steps
    except Exception as error:
        raise rehearsal.broken(
            "run: policies",
            f"{policy} cannot play {environment.id}: {type(error).__name__}: {error}",
            "a worker with controller(…) makes policies that play in envs with the spaces they were trained on",
            "follow the traceback of the cause",
        ) from error


def _check_refused(rehearsal: Rehearsal, environment: EnvironmentConfig, policy: str) -> None:
    try:
        evaluate(environment, {"*": policy}, episodes=1, max_steps=1)
    except InputError as error:
        if "in training" in str(error):
            return
        found = f"the refusal of an env with other spaces does not show the difference: {error}"
    else:
        found = f"{policy} played {environment.id}, whose observations are not those of training"
    raise rehearsal.broken(
        "run: policies",
        found,
        "a policy is refused where spaces differ, with the difference",
        "save checkpoints by context.checkpoint(…), which notes the spaces",
    )


def _check_sampling(setup: ContractSetup, rehearsal: Rehearsal, policy: str) -> list[ContractProof]:
    promise, advice = "a worker that declares samples draws actions", "obey request.sampling, or declare samples=False"
    with closing(make_env(setup.config.environment)) as env:
        if not setup.info.samples:
            try:
                load_policy(f"{policy},sample=true", env.spec).close()
            except InputError as error:
                return [ContractProof("no samples", f"refused: {error}")]
            raise rehearsal.broken("no samples", "sample=true was ignored", "what is not declared is refused", advice)
        turn = env.reset(0)
        drawn = [_first_actions(f"{policy},temperature=1e6", env.spec, turn, seed) for seed in (*range(_SEEDS), 0)]
        _first_actions(f"{policy},sample=true", env.spec, turn, 0)
    if drawn[0] != drawn[-1]:
        raise rehearsal.broken("samples", "the same seed drew other actions", "seeds reproduce", "draw by begin's seed")
    if len(set(drawn)) == 1 and _has_choice(env.spec, turn):
        found = f"at a high temperature {_SEEDS} seeds all drew {drawn[0]}"
        raise rehearsal.broken("samples", found, promise, advice)
    return [
        ContractProof(
            "samples", f"{len(set(drawn))} different first actions of {_SEEDS} seeds, the same for a seed again"
        )
    ]


def _first_actions(reference: str, spec: EnvSpec, turn: Turn, seed: int) -> str:
    with closing(load_policy(reference, spec)) as controller:
        controller.begin(tuple(turn.observations), seed)
        return repr(dict(controller.act(turn)))


def _has_choice(spec: EnvSpec, turn: Turn) -> bool:
    """Return whether an agent that acts now has more than one legal action."""
    for agent in turn.observations:
        space, mask = spec.action_spaces[agent], turn.action_masks.get(agent)
        legal = int(mask.sum()) if mask is not None else int(space.n) if isinstance(space, Discrete) else 2
        if legal > 1:
            return True
    return False


def _named(environment: EnvironmentConfig, factory: str) -> EnvironmentConfig:
    options = {"environment": environment.model_dump(mode="json")}
    return EnvironmentConfig(env_id=f"python:{__name__}:{factory}", options=options)


def same_spaces(environment: Mapping[str, object]) -> Env:
    """Make an env under another name."""
    return make_env(EnvironmentConfig.model_validate(environment))


def other_spaces(environment: Mapping[str, object]) -> Env:
    """Make an env whose observations have one number more."""
    return _Wider(make_env(EnvironmentConfig.model_validate(environment)))


class _Wider(Transform):
    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_spaces = {
            agent: Tuple((env.observation_spaces[agent], Discrete(2))) for agent in env.possible_agents
        }


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
            raise rehearsal.broken(capability, f"an evaluation has no {', '.join(missing)}", _NAMES, _HOW_TO_NAME)


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
