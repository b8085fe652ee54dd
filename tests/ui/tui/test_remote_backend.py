"""The terminal app's backend on a server, in this process: forms, checks and starts come from the server."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

import mosaic
from mosaic.core.errors import InputError, MosaicError
from mosaic.server.app import create_app
from mosaic.server.auth.token import ensure_token
from mosaic.server.client.client import Client
from mosaic.server.context import ServerSettings
from mosaic.server.play.keeping import KeptEpisodes
from mosaic.server.play.replay_views import ReplayAsked
from mosaic.telemetry.pictures.message import decoded
from mosaic.ui.tui.backend.remote import RemoteBackend
from mosaic.ui.tui.train.form import load_form
from mosaic.ui.tui.train.presets import PresetName, list_presets, read_preset, save_settings
from mosaic.ui.web.data.draft import Draft


class AppClient(Client):
    def __init__(self, http):
        self.url, self._http = "http://there", http


def backend_on(folder, *, pages=True):
    from mosaic.ui.web.data.facts import Facts
    from mosaic.ui.web.page_api import add_form_routes

    app = create_app(folder, ServerSettings(start_queued=False))
    if pages:
        add_form_routes(app, Facts(app.state.context))
    headers = {"Authorization": f"Bearer {ensure_token(folder)}"}
    return RemoteBackend(AppClient(TestClient(app, base_url="http://127.0.0.1:8642", headers=headers)))


@pytest.fixture
def backend(tmp_path):
    return backend_on(tmp_path)


def test_the_agents_of_the_form_come_from_the_server(backend, monkeypatch):
    monkeypatch.setattr("mosaic.ui.tui.backend.local.LocalCatalog.look", None)  # nothing is looked at here
    form = load_form(backend, Draft(env="classic/tictactoe_v3"), forget=True)
    agents = [row.title for row in form.rows(advanced=False) if row.section == "Agents"]
    assert agents == ["player_1", "player_2"]


def test_the_server_refuses_an_unknown_env_and_code(backend):
    with pytest.raises(InputError, match="Did you mean 'classic/tictactoe_v3'"):
        backend.catalog.look("classic/tictactoe_v33")
    with pytest.raises(MosaicError, match="--allow-programs"):
        backend.catalog.look("python:mine.py:Env")


def test_the_server_resolves_a_draft_or_says_what_is_wrong(backend):
    document = {"environment": {"env_id": "classic/tictactoe_v3"}}
    assert backend.runs.check(document).config.policy_configuration == "self_play"
    refused = backend.runs.check(document | {"training": {"worker": "tabular", "params": {"epsilonn": 1}}})
    assert "epsilon" in refused.error
    assert refused.config is None
    assert "environmentt" in backend.runs.check({"environmentt": {}}).error


def test_seeds_are_queued_as_one_group_without_a_copy_of_the_env_here(backend, monkeypatch):
    monkeypatch.setattr("mosaic.ui.web.data.draft.resolve", None)
    document = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 10}}
    started = backend.runs.start(document, 2, queue=False)
    rows = backend.runs.rows()
    assert sorted(started.run_ids) == sorted(row.run_id for row in rows)
    assert len({row.group for row in rows}) == 1
    assert started.queued
    assert list(backend.runs.queue()) == list(started.run_ids)


def test_a_server_without_pages_chooses_the_policies_itself(tmp_path):
    backend = backend_on(tmp_path, pages=False)
    assert backend.catalog.look("classic/tictactoe_v3").look is None
    assert backend.runs.check({"environment": {"env_id": "gym/CartPole-v1"}}).config is not None
    assert "environmentt" in backend.runs.check({"environmentt": {}}).error


def test_a_project_of_the_server_is_created_renamed_and_gets_a_preset(backend):
    assert backend.projects.create("", "noughts", "classic/tictactoe_v3") == "noughts"
    backend.projects.rename("noughts", "crosses")
    (name,) = list_presets(backend)
    draft = read_preset(backend, name)
    draft.seed = 7
    assert "The project crosses has the preset quick now" in save_settings(backend, draft, "quick")
    assert read_preset(backend, PresetName("crosses", "quick")).seed == 7
    with pytest.raises(MosaicError, match="--allow-programs"):
        backend.projects.create("/elsewhere", "", "")
    with pytest.raises(InputError, match="A project needs a name"):
        backend.projects.create("", "", "")


def test_recorded_episodes_of_the_server_are_replayed(tmp_path):
    backend = backend_on(tmp_path)
    played = mosaic.play_episode(mosaic.make_env("mosaic/tictactoe"), {"*": "random"}, seed=1)
    name = KeptEpisodes(tmp_path).keep("here", played)
    assert [row.name for row in backend.replays.episodes()] == [name]
    assert backend.demos.rows() == ([], [])
    link = backend.replays.open(ReplayAsked(name=name))
    assert decoded(link.picture(played.env_steps)).ndim == 3
    assert link.show().moves[0].startswith("player_1: cell")
    assert link.reports() == []
    with pytest.raises(InputError, match="The game is over at step"):
        link.play_on(played.env_steps, {"*": "human"})
