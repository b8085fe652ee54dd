"""Which environment is meant, and how it is made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from mosaic.config.field_types import FreeOptions, Reference
from mosaic.config.section import Section
from mosaic.core.ids import EnvID
from mosaic.core.user_code import PREFIX

ApiType = Literal["aec", "parallel", "gym", "auto"]


class EnvironmentConfig(Section):
    """`{"env_id": "classic/chess_v6"}` and `{"family": "classic", "env_id": "chess_v6"}` are the same env."""

    family: str = Field(
        "",
        max_length=100,
        description="Environment family: gym, classic, sisl, butterfly, mpe, python, or a plug-in's.",
    )
    env_id: Reference = Field(description="Name within the family, with or without version: chess_v6, CartPole-v1.")
    api_type: ApiType = Field("auto", description="Which face of the env to use where it has several.")
    options: FreeOptions = Field(default_factory=dict, description="Keyword arguments for the env's own maker.")
    wrappers: tuple[Reference, ...] = Field(
        (), description="Transforms around the env, innermost first: time_limit:max_steps=200."
    )
    num_envs: int | None = Field(
        None, ge=1, le=1_000_000, description="Envs side by side; None lets the worker choose."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_id(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("env_id"), str) or data.get("family"):
            return data
        family, env_id = split_id(data["env_id"])
        return {**data, "family": family, "env_id": env_id}

    @property
    def id(self) -> EnvID:
        """The whole name: family/name, or python:module:factory."""
        match self.family:
            case "":
                return self.env_id
            case "python":
                return f"{PREFIX}{self.env_id}"
            case family:
                return f"{family}/{self.env_id}"


def split_id(env_id: EnvID) -> tuple[str, str]:
    """Family and name; ("", name) where no family is given."""
    if env_id.startswith(PREFIX):
        return "python", env_id.removeprefix(PREFIX)
    family, slash, name = env_id.partition("/")
    return (family, name) if family and slash else ("", env_id)
