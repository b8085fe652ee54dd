"""How a browser gets its cookie, and who gets a page and who the data."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mosaic.server.app import create_app
from mosaic.server.auth.token import COOKIE, ensure_token
from mosaic.server.context import ServerSettings
from mosaic.ui.web.app import LoginMiddleware, PageRoute, _without_query

PAGE = {"Accept": "text/html,application/xhtml+xml"}
WRONG = "0" * 43


async def _pages(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("the page")(scope, receive, send)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    settings = ServerSettings(start_queued=False)
    app = create_app(tmp_path, settings)
    app.router.routes.insert(0, PageRoute(_pages, ("/", "/runs", "/runs/{run_id}")))
    app.add_middleware(LoginMiddleware, token=ensure_token(tmp_path), hosts=settings.hosts)
    with TestClient(app, base_url="http://127.0.0.1:8642", follow_redirects=False) as client:
        yield client


def test_a_token_in_an_address_without_a_page_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test of addresses")
    logger.addFilter(_without_query)
    logger.warning("http://127.0.0.1:8642/nothing?token=secret not found")
    assert caplog.messages == ["http://127.0.0.1:8642/nothing not found"]


def test_without_a_token_a_person_is_asked_for_it(client: TestClient) -> None:
    answer = client.get("/runs", headers=PAGE)
    assert answer.status_code == 401
    assert "This page requires a token." in answer.text
    assert "mosaic serve" in answer.text
    assert "set-cookie" not in answer.headers


def test_without_a_token_a_program_is_told_so_in_json(client: TestClient) -> None:
    answer = client.get("/runs")
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["error"]


def test_a_wrong_token_opens_nothing(client: TestClient) -> None:
    answer = client.get("/", params={"token": WRONG}, headers=PAGE)
    assert answer.status_code == 401
    assert "not valid for this server" in answer.text
    assert "set-cookie" not in answer.headers


def test_the_link_gives_the_cookie_and_forgets_the_token(client: TestClient, tmp_path: Path) -> None:
    token = ensure_token(tmp_path)
    answer = client.get("/runs", params={"token": token, "tag": "a b"}, headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?tag=a+b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={token};")
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()


def test_the_redirect_stays_on_this_server(client: TestClient, tmp_path: Path) -> None:
    answer = client.get(
        "http://127.0.0.1:8642//elsewhere.example", params={"token": ensure_token(tmp_path)}, headers=PAGE
    )
    assert answer.headers["location"] == "/elsewhere.example"


def test_a_foreign_name_gets_no_cookie(client: TestClient, tmp_path: Path) -> None:
    headers = {**PAGE, "Host": "evil.example"}
    answer = client.get("/", params={"token": ensure_token(tmp_path)}, headers=headers)
    assert answer.status_code == 421
    assert "set-cookie" not in answer.headers


def test_the_cookie_opens_page_and_data_at_one_address(client: TestClient, tmp_path: Path) -> None:
    client.cookies.set(COOKIE, ensure_token(tmp_path))
    assert client.get("/runs", headers=PAGE).text == "the page"
    assert client.get("/runs/some-run", headers=PAGE).text == "the page"
    assert client.get("/runs").json() == []
    assert client.get("/health", headers=PAGE).json()["status"] == "ok"


def test_nicegui_is_not_imported_before_its_folder_is_chosen() -> None:
    """It reads the folder when it is imported, and would else write `.nicegui` where the server was started."""
    script = "import sys; import mosaic.ui.web.app; print('nicegui' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "False"
