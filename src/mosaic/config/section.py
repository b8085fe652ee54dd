"""What all parts of a configuration share: frozen, and strict about what is no setting and no number."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_heading(cls, data: Any) -> Any:
        """In YAML a heading with nothing below it is null: it asks for the defaults."""
        return {} if data is None else data

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """To Python `true` is the number 1; nobody who writes `seed: true` means that."""
        if isinstance(value, bool) and info.field_name and cls.model_fields[info.field_name].annotation is not bool:
            raise ValueError("it should not be true or false; in quotes it would be text")
        return value
