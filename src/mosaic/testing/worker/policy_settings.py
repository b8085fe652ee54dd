"""Checks that a worker honours the settings of single policies that it declares, and refuses all others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.testing.duel import duel
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal
from mosaic.workers.api import MakesPolicies, PolicyOptions

_PROMISE = "a policy has the settings that training.policies gives it, or the run is refused"
_CAPABILITY = "policy settings"
_WIDTH = 3  # of the one hidden layer that only one of two policies has


def check_policy_settings(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Check `training.policies`; the env of `short`, a run of seconds, is replaced by one with two equal agents."""
    families, environment = setup.info.env_families, duel()
    if not setup.info.policy_options or ("*" not in families and environment.family not in families):
        return []  # its refusal is checked with the other settings
    config = setup.changed(
        short.model_copy(update={"environment": environment, "policy_configuration": "parameter_sharing"}),
        {"agents": {"a": "red", "b": "blue"}},
    )
    algorithm = short.training.algorithm or setup.info.algorithms[0]
    allowed = setup.info.policy_options.get(algorithm)
    if allowed is None:
        _refuse(setup, config, {"red": {}}, "an algorithm whose policies all have the same settings")
        return [ContractProof(_CAPABILITY, f"refused with {algorithm}")]
    proofs = [_check_refused(setup, config, algorithm, allowed)]
    layers = _layers(setup, algorithm, allowed)
    if layers is not None and isinstance(setup.worker, MakesPolicies):
        proofs.append(_check_network(setup, config, layers))
    return proofs


def _check_refused(setup: ContractSetup, config: RunConfig, algorithm: str, allowed: PolicyOptions) -> ContractProof:
    fields = setup.worker.options(algorithm).model_fields
    run_wide = [name for name in fields if name not in (*allowed.options, *allowed.network)]
    wrong: dict[str, dict[str, object]] = {
        "a policy that does not exist": {"no_such_policy": {}},
        "an option that does not exist": {"red": {"no_such_option": 1}},
        "an algorithm that does not exist": {"red": {"algorithm": "no_such_algorithm"}},
        **{f"{name}, which is the run's": {"red": {name: fields[name].get_default()}} for name in run_wide[:1]},
    }
    for what, policies in wrong.items():
        _refuse(setup, config, policies, what)
    return ContractProof(_CAPABILITY, f"refused: {', '.join(wrong)}")


def _refuse(setup: ContractSetup, config: RunConfig, policies: Mapping[str, object], what: str) -> None:
    setup.refusal(config, f"{_CAPABILITY}: {what}", {"training": {"policies": policies}}, _PROMISE)


def _layers(setup: ContractSetup, algorithm: str, allowed: PolicyOptions) -> str | None:
    """Return the declared option of a network that holds the widths of its layers: the first list of whole numbers."""
    fields = setup.worker.options(algorithm).model_fields
    return next((name for name in allowed.network if fields[name].annotation == tuple[int, ...]), None)


def _check_network(setup: ContractSetup, config: RunConfig, layers: str) -> ContractProof:
    """Check that a policy with another network is saved with fewer weights than its equal, and plays."""
    asked = {"training": {"policies": {"red": {"network": {layers: [_WIDTH]}}}}}
    with setup.rehearse(setup.changed(config, asked)) as rehearsal:
        rehearsal.finish(_CAPABILITY)
        red, blue = (_saved_bytes(rehearsal, name) for name in ("red", "blue"))
        for policy, agent in (("red", "a"), ("blue", "b")):
            _play(rehearsal, policy, agent)
    if red >= blue:
        found = f"'red' with {layers}=[{_WIDTH}] takes {red} bytes, and 'blue' without it {blue}"
        raise rehearsal.broken(_CAPABILITY, found, _PROMISE, f"give each policy the network of its own {layers}")
    return ContractProof(_CAPABILITY, f"{layers}=[{_WIDTH}]: {red} bytes instead of {blue}")


def _saved_bytes(rehearsal: Rehearsal, policy: str) -> int:
    checkpoint = rehearsal.run.checkpoints()[-1]
    return sum((checkpoint.path / file).stat().st_size for file in checkpoint.manifest.policies[policy].files)


def _play(rehearsal: Rehearsal, policy: str, agent: str) -> None:
    with closing(make_env(duel())) as env:
        turn = env.reset(0).only((agent,))
        with closing(load_policy(f"run:{rehearsal.run.id}/{policy}", env.spec, (agent,))) as controller:
            controller.begin((agent,), 0)
            controller.act(turn)
