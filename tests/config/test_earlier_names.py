"""Renamed settings: their earlier names are still read, and never stored."""

from __future__ import annotations

import pytest

from mosaic.config.loading import dump_run_config, load_run_config, parse_run_config
from mosaic.config.sections import ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.runs.resume_settings import with_changes
from mosaic.workers.api import WorkerCapabilities

ENV = {"environment": {"env_id": "gym/CartPole-v1"}}


def asked(resources: object = None, *overrides: str) -> dict[str, object]:
    config = parse_run_config({**ENV, "resources": resources}, overrides)
    return dump_run_config(config)["resources"]


def test_the_earlier_name_is_read_and_the_current_one_is_stored(tmp_path):
    file = tmp_path / "earlier.yaml"
    file.write_text("version: 2\nenvironment: {env_id: gym/CartPole-v1}\nresources: {num_workers: 3}\n")
    for stored in (
        asked({"num_workers": 3}),
        asked({"num_workers": 3, "num_env_runners": 3}),
        asked(None, "resources.num_workers=3"),
        asked({"num_env_runners": 9}, "resources.num_workers=3"),
        asked({"num_workers": 9}, "resources.num_env_runners=3"),
        asked(None, "resources.num_workers=3", "resources.num_env_runners=3"),
        dump_run_config(load_run_config(file))["resources"],
    ):
        assert stored["num_env_runners"] == 3
        assert "num_workers" not in stored
    assert ResourcesConfig.model_validate({"num_workers": 3}).num_workers == 3
    assert asked({"num_workers": "auto"})["num_env_runners"] is None


def test_two_names_with_different_numbers_are_refused():
    with pytest.raises(InputError, match=r"'num_workers' is the earlier name of 'num_env_runners', .*differ: 2 and 3"):
        asked({"num_workers": 2, "num_env_runners": 3})
    with pytest.raises(InputError, match=r"'resources\.num_workers' and 'resources\.num_env_runners' are one setting"):
        asked(None, "resources.num_workers=2", "resources.num_env_runners=3")
    with pytest.raises(InputError, match="differ: 2 and 3"):
        with_changes(parse_run_config(ENV), {"num_workers": 2, "num_env_runners": 3})


def test_a_resumed_run_takes_either_name():
    stored = parse_run_config({**ENV, "resources": {"num_env_runners": 2}})
    assert with_changes(stored, {"num_workers": 5}).resources.num_env_runners == 5
    assert with_changes(stored, {}, ["resources.num_workers=6"]).resources.num_env_runners == 6


@pytest.mark.parametrize(
    ("settings", "named"), [({"resources": {"num_worker": 2}}, "num_worker"), ({"num_workers": 2}, "num_workers")]
)
def test_a_misspelt_earlier_name_leads_to_the_current_one(settings, named):
    with pytest.raises(InputError, match=rf"{named}'. Did you mean 'resources\.num_env_runners'\?"):
        parse_run_config({**ENV, **settings})


def test_a_plug_in_that_declares_the_earlier_name_meets_the_setting():
    info = WorkerCapabilities(
        name="w", version="1", algorithms=("a",), paradigms=("independent",), resources=("num_workers", "num_cpus")
    )
    assert info.resources == ("num_env_runners", "num_cpus")
