"""Projects in the browser: listed at home, chosen on the train page, and a filter of the runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import expect

from mosaic.runs.trainer import Trainer
from mosaic.store.projects.project import create_project
from tests.ui.web.web_kit import Tab, WebServer, toy

LAB = "cart lab"
PRESETS = {
    "quick": {"seed": 3, "training": {"worker": "native", "total_timesteps": 4321, "params": {"gamma": 0.77}}},
    "toy": {"training": {"worker": "toy", "total_timesteps": 300}},
}


@pytest.fixture
def projects(server: WebServer, tmp_path: Path) -> Iterator[WebServer]:
    registry = Trainer(server.home).projects
    lab = {"name": LAB, "env": "gym/CartPole-v1", "default_preset": "quick", "train": PRESETS}
    registry.register(create_project(tmp_path / "lab", lab))
    registry.register(create_project(tmp_path / "gone", {"name": "gone"}))
    shutil.rmtree(tmp_path / "gone")
    registry.register(create_project(tmp_path / "own", {"name": "own code", "env": "python:env.py:make"}))
    yield server
    for name in (LAB, "gone", "own code"):
        registry.forget(name)


def test_a_project_at_home_leads_to_its_preset(tab: Tab, projects: WebServer) -> None:
    page = tab.open("/")
    expect(page.get_by_text("There is no mosaic.toml in")).to_be_visible()
    page.locator(".h-project", has_text=LAB).get_by_role("link", name="Train").click()
    expect(page.get_by_label("Env steps")).to_have_value("4,321")
    expect(page.get_by_label("Gamma", exact=True)).to_have_value("0.77")
    expect(page.get_by_label("Seed", exact=True)).to_have_value("3")
    expect(page.get_by_label("Configuration of the run")).to_have_value(re.compile(f"project: {LAB}\n"))
    tab.check()


@pytest.mark.slow
def test_the_form_follows_the_chosen_project_and_says_what_is_refused(tab: Tab, projects: WebServer) -> None:
    page = tab.open(f"/train?project={quote_plus('own code')}")
    expect(page.get_by_text("own code: This server does not run code or programs")).to_be_visible()
    page.get_by_label("Project", exact=True).click()
    page.get_by_role("option", name=LAB).click()
    expect(page.get_by_label("Env steps")).to_have_value("4,321")
    page.get_by_label("Preset", exact=True).click()
    page.get_by_role("option", name="toy").click()
    expect(page.get_by_label("Env steps")).to_have_value("300")
    tab.check()


def test_runs_of_a_project(phone: Tab, projects: WebServer) -> None:
    projects.submit(toy(project=LAB, name="mine of the lab"))
    projects.submit(toy(name="of nobody"))
    page = phone.open(f"/runs?project={quote_plus(LAB)}")
    expect(page.get_by_text("mine of the lab")).to_be_visible()
    expect(page.get_by_text("of nobody")).to_have_count(0)
    page.get_by_label("Project", exact=True).click()
    page.get_by_role("option", name="All projects").click()
    expect(page.get_by_text("of nobody")).to_be_visible()
    assert "project" not in page.url
    phone.check()
