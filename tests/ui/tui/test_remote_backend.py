"""The terminal app's backend on a server, in this process: forms, checks and starts come from the server."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from mosaic.core.errors import InputError, MosaicError
from mosaic.server.app import create_app
from mosaic.server.auth.token import ensure_token
from mosaic.server.client.client import Client
from mosaic.server.context import ServerSettings
from mosaic.ui.tui.backend.remote import RemoteBackend
from mosaic.ui.tui.train.form import load_form
from mosaic.ui.web.data.draft import Draft


class AppClient(Client):
    def __init__(self, http):
        self.url, self._http = "http://there", http


def backend_on(folder, *, pages=True):
    from mosaic.ui.web.data.facts import Facts
    from mosaic.ui.web.form_api import add_form_routes

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


def test_a_server_without_pages_chooses_the_policies_itself(tmp_path):
    backend = backend_on(tmp_path, pages=False)
    assert backend.catalog.look("classic/tictactoe_v3").look is None
    assert backend.runs.check({"environment": {"env_id": "gym/CartPole-v1"}}).config is not None
    assert "environmentt" in backend.runs.check({"environmentt": {}}).error
