"""The JSON schema says everything that forms and docs need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mosaic.config.run import CURRENT_VERSION, RunConfig, run_schema
from mosaic.config.validation import list_settings

FREE = {
    "Mosaic run.version",
    "CurriculumStage.until_reward",
    "TrainingConfig.stop_reward",
}  # a constant, and rewards may be any number


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for owner in [schema, *schema["$defs"].values()]:
        for name, setting in owner["properties"].items():
            yield f"{owner['title']}.{name}", setting


def test_the_schema_names_its_version() -> None:
    schema = run_schema()
    assert schema["$id"] == f"urn:mosaic-rl:run-config:{CURRENT_VERSION}"
    assert schema["title"] == "Mosaic run"
    assert schema["properties"]["version"]["const"] == CURRENT_VERSION
    assert schema["required"] == ["environment"]
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


def test_every_setting_is_described_and_typed() -> None:
    for path, setting in properties(run_schema()):
        assert setting.get("description", "").rstrip(".…"), path
        assert {"type", "anyOf", "enum", "const", "$ref"} & set(setting), path


def test_every_number_is_bounded() -> None:
    for path, setting in properties(run_schema()):
        for kind in setting.get("anyOf", [setting]):
            if kind.get("type") in ("integer", "number") and path not in FREE:
                assert {"minimum", "exclusiveMinimum"} & set(kind), path
                assert {"maximum", "exclusiveMaximum"} & set(kind), path


def test_settings_are_listed_by_dotted_path() -> None:
    paths = [path for path, _ in list_settings(RunConfig)]
    assert paths[:7] == ["version", "run_id", "name", "project", "tags", "seed", "environment.family"]
    assert "training.params" in paths
    assert "training" not in paths
