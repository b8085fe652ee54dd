"""One browser and one server for all tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.ui.web.web_kit import CHROMIUM, FLAGS, PATIENCE_MS, Tab, WebServer, end_runs


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)  # of Playwright's own 5 s a busy machine needs some for the first page
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    home = tmp_path_factory.mktemp("web") / "home"
    server = WebServer(home)
    yield server
    end_runs(home)
    complaints = server.complaints()
    server.end()
    assert "Traceback" not in complaints, complaints


@pytest.fixture(scope="module")
def matches(server: WebServer) -> Iterator[None]:
    yield
    server.end_matches()


@pytest.fixture
def tab(chromium: Browser, server: WebServer, matches: None) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


@pytest.fixture
def phone(chromium: Browser, server: WebServer, matches: None) -> Iterator[Tab]:
    tab = Tab(chromium, server, width=390)
    yield tab
    tab.close()
