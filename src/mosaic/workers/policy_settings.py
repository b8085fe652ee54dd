"""Settings of single policies (`training.policies`): the worker's options for each policy that has its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, nearest, unknown
from mosaic.core.ids import PolicyID
from mosaic.core.reference import explain
from mosaic.workers.api import PolicyOptions, Worker
from mosaic.workers.registry import options_model

if TYPE_CHECKING:  # imports numba
    from mosaic.learners.agent_roles import TrainingPlan

ALGORITHM, NETWORK = "algorithm", "network"

OptionsT = TypeVar("OptionsT", bound=BaseModel)


def read_policy_options(
    worker: Worker, config: RunConfig, options: OptionsT, plan: TrainingPlan
) -> dict[PolicyID, OptionsT]:
    """Return the options of each policy in `training.policies`; raise InputError for what cannot be honoured.

    A policy with another algorithm than the run's has the run's network and rollouts, but that algorithm's defaults of
    everything else, not `training.params`.
    """
    found: dict[PolicyID, OptionsT] = {}
    trained = [name for name, learns in zip(plan.names, plan.trained, strict=True) if learns]
    for name, section in config.training.policies.items():
        if name in plan.names and name not in trained:
            raise InputError(
                f"training.policies.{name}: '{name}' does not train in this run, so it has no settings. Policies that "
                f"train: {', '.join(trained)}. Add it to policies_to_train, or leave its settings out."
            )
        if name not in trained:
            raise unknown("policy that trains", name, trained, f"It is in training.policies.{name}.")
        found[name] = _own_options(worker, config, options, name, section)
    return found


def _own_options(
    worker: Worker, config: RunConfig, options: OptionsT, name: PolicyID, section: Mapping[str, object]
) -> OptionsT:
    usual = config.training.algorithm or worker.info.algorithms[0]
    allowed = worker.info.policy_options.get(usual)
    if allowed is None:
        able = ", ".join(worker.info.policy_options)
        raise InputError(
            f"training.policies.{name}: with {usual} all policies of the worker {worker.info.name} have the same "
            f"settings; with {able} each may have its own. Set them for all: --set training.params.OPTION=VALUE."
        )
    algorithm = _algorithm(worker, usual, name, section, allowed)
    network = section.get(NETWORK, {})
    assert isinstance(network, Mapping)
    learning = {key: value for key, value in section.items() if key not in (ALGORITHM, NETWORK)}
    _check_names(worker, usual, f"training.policies.{name}", learning, allowed.options, allowed.network)
    _check_names(worker, usual, f"training.policies.{name}.network", network, allowed.network, allowed.options)
    model = options_model(worker, algorithm)
    values = options.model_dump(mode="json", round_trip=True)
    if algorithm != usual:
        kept = model.model_fields.keys() - set(allowed.options)
        values = {key: value for key, value in values.items() if key in kept}
    try:
        made = model.model_validate({**values, **learning, **network})
    except ValidationError as error:
        raise InputError(f"training.policies.{name}: {explain(error, model)}") from error
    assert isinstance(made, BaseModel)
    return made  # type: ignore[return-value]  # of the same family of options


def _algorithm(
    worker: Worker, usual: str, name: PolicyID, section: Mapping[str, object], allowed: PolicyOptions
) -> str:
    asked = str(section.get(ALGORITHM, usual))
    if asked in (usual, *allowed.algorithms):
        return asked
    options_model(worker, asked)  # raises if there is none of that name
    able = f"Here it can be {' or '.join((usual, *allowed.algorithms))}."
    raise InputError(
        f"training.policies.{name}.algorithm={asked}: the run trains with {usual}. {allowed.one_algorithm} {able}"
    )


def _check_names(
    worker: Worker,
    algorithm: str,
    place: str,
    given: Mapping[str, object],
    known: Collection[str],
    elsewhere: Collection[str],
) -> None:
    for key in given:
        if key in known:
            continue
        asked = f"{place}.{key}"
        if key in elsewhere:
            right = place.removesuffix(f".{NETWORK}") if place.endswith(f".{NETWORK}") else f"{place}.{NETWORK}"
            raise InputError(f"There is no setting '{asked}'. Did you mean '{right}.{key}'?")
        listed = f"Options that may differ from policy to policy: {', '.join(known) or 'none'}."
        if key in options_model(worker, algorithm).model_fields:
            raise InputError(
                f"{asked}: the worker {worker.info.name} has one {key} for the whole run. Set it for all: "
                f"--set training.params.{key}=VALUE. {listed}"
            )
        near = nearest(key, known)
        hint = f" Did you mean '{place}.{near}'?" if near else ""
        raise InputError(f"There is no setting '{asked}'.{hint} {listed}")
