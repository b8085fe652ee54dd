"""Which policy plays for which agent, and which policies learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from mosaic.config.field_types import LONGEST, MosaicPicks, is_code, writable
from mosaic.core.errors import shown

PolicyConfiguration = Literal["parameter_sharing", "independent", "self_play", "shared_value_function"]


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _check_agents(value: Any) -> Any:
    match value:
        case None:
            return {}
        case str():
            if not is_code(value):
                raise ValueError("it should be {AGENT: POLICY}, such as {player_0: random}, or python:MODULE:FUNCTION")
        case Mapping():
            for pattern, policy in value.items():
                _check_rule(pattern, policy)
        case _:
            raise ValueError("it should be {AGENT: POLICY}, such as {player_0: random}, or python:MODULE:FUNCTION")
    return value


def _check_rule(pattern: Any, policy: Any) -> None:
    if not _is_name(pattern):
        raise ValueError(f"an agent's name should be text: put {shown(pattern)} in quotes")
    if not _is_name(policy):
        raise ValueError(f"the policy of '{pattern}' should be text, such as random or run:latest, not {shown(policy)}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(writable(value)) <= LONGEST


def _check_trained(value: Any) -> Any:
    match value:
        case None:
            return None
        case str() if is_code(value):
            return value
        case list() | tuple() if value and all(map(_is_name, value)):
            return tuple(value)
        case _:
            raise ValueError("it should be a list of policy names, such as [red, blue], or python:MODULE:FUNCTION")


PolicyConfigurationChoice: TypeAlias = Annotated[PolicyConfiguration | None, MosaicPicks, BeforeValidator(_lower)]
# The order of the rules matters: the first that fits an agent wins.
AgentRules: TypeAlias = Annotated[dict[str, str] | str, BeforeValidator(_check_agents)]
TrainedPolicies: TypeAlias = Annotated[tuple[str, ...] | str | None, BeforeValidator(_check_trained)]
