"""JSON schemas of workers' options: dialect, id and version, of built-in workers and of plug-ins."""

import json
from importlib.metadata import version

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from mosaic.core.errors import InputError
from mosaic.core.plugins import plugins
from mosaic.plugins import options_schema
from mosaic.testing import check_worker
from mosaic.testing.worker import WorkerContractError
from mosaic.ui.cli.main import app
from mosaic.workers.registry import load_worker
from tests.workers import liars
from tests.workers.hosting import run_config

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ALL = [(name, algorithm) for name in plugins("mosaic.workers") for algorithm in load_worker(name).info.algorithms]


@pytest.mark.parametrize(("name", "algorithm"), ALL, ids=":".join)
def test_every_schema_names_its_dialect_its_worker_and_its_version(name, algorithm):
    worker = load_worker(name)
    schema = options_schema(worker, algorithm)
    assert schema["$schema"] == DIALECT
    assert schema["$id"] == f"urn:mosaic-rl:worker:{name}:{algorithm}:{worker.info.version}"
    assert schema["version"] == worker.info.version
    assert schema["properties"]
    Draft202012Validator.check_schema(schema)


def test_the_command_prints_it():
    expected = options_schema(load_worker("toy"), "walk")
    assert expected["$id"] == f"urn:mosaic-rl:worker:toy:walk:{version('mosaic-rl')}"
    shown = CliRunner().invoke(app, ["schema", "toy", "walk"])
    assert json.loads(shown.stdout) == expected


def test_a_plugins_schema(installed_liars):
    schema = options_schema(load_worker("honest"), "count")
    assert (schema["$schema"], schema["$id"], schema["version"]) == (
        DIALECT,
        "urn:mosaic-rl:worker:honest:count:1",
        "1",
    )
    with pytest.raises(InputError, match="There is no algorithm of the worker honest named 'cuont'"):
        options_schema(load_worker("honest"), "cuont")


def test_a_name_or_version_with_a_colon_does_not_break_the_id():
    worker = liars.Honest("a:b", version="1.0+local build")
    assert options_schema(worker, "count")["$id"] == "urn:mosaic-rl:worker:a%3Ab:count:1.0%2Blocal%20build"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "undated",
            "worker undated, options of count: its version is ''. Promise: a schema has an $id with the version",
        ),
        ("old_dialect", "its schema says $schema='http://json-schema.org/draft-07/schema#'"),
    ],
)
def test_the_contract_refuses_a_schema_without_identity(installed_liars, name, text):
    with pytest.raises(WorkerContractError) as caught:
        check_worker(liars.WORKERS[name], run_config(name))
    assert text in str(caught.value)
