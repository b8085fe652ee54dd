"""JSON schema of a run's settings, for forms, editors and docs."""

from __future__ import annotations

from typing import Any

from mosaic.config.run import RunConfig
from mosaic.config.upgrade import CURRENT_VERSION


def run_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:mosaic-rl:run-config:{CURRENT_VERSION}",
        **RunConfig.model_json_schema(),
        "title": "Mosaic run",
    }
