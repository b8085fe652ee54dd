"""The train page helps: basic options first, search, advice to press, errors at fields, a name, phases of the start."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy

pytestmark = pytest.mark.slow


FIRST_LOOK = """new MutationObserver(() => {
  const start = [...document.querySelectorAll("button")].find((each) => each.textContent.includes("Start training"));
  if (start && !start.disabled && !document.querySelector("dl.m-kv dd")) window.startedTooEarly = true;
}).observe(document, { childList: true, subtree: true });"""


def test_start_waits_for_the_form(tab: Tab) -> None:
    tab.page.add_init_script(FIRST_LOOK)
    page = tab.open("/train?env=gym/CartPole-v1")
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()
    assert page.locator("dl.m-kv dd").count()
    assert not page.evaluate("window.startedTooEarly")  # at no moment, however long the form took
    tab.check()


def test_options_are_basic_first_and_found_by_words(tab: Tab) -> None:
    page = tab.open("/train?env=gym/CartPole-v1")
    expect(page.get_by_label("Learning rate", exact=True)).to_be_visible()
    expect(page.get_by_label("Target kl", exact=True)).to_have_count(0)
    page.get_by_label("Search the options").fill("kl divergence")
    page.get_by_label("Target kl", exact=True).fill("0.02")
    expect(page.get_by_label("Learning rate", exact=True)).to_be_hidden()
    page.get_by_label("Search the options").fill("")
    expect(page.get_by_label("Target kl", exact=True)).to_have_value("0.02")  # what was changed stays in view
    expect(page.get_by_label("Vf coef", exact=True)).to_have_count(0)
    page.get_by_role("button", name="advanced options").click()
    expect(page.get_by_label("Vf coef", exact=True)).to_be_visible()
    page.get_by_label("Search the options").fill("nothing of the kind")
    expect(page.get_by_text("No option has that name.").filter(visible=True)).to_have_count(1)
    tab.check()


def test_advice_is_followed_by_pressing_a_button(tab: Tab) -> None:
    page = tab.open("/train?env=classic/connect_four_v3")
    start = page.get_by_role("button", name="Start training")
    expect(start).to_be_enabled()  # the form is there and was checked
    page.get_by_role("button", name="Self-play").click()
    expect(page.locator(".m-cmd code").first).to_contain_text("--policies self_play")  # the rows were drawn again
    page.get_by_role("combobox", name="Policy of player_1").click()
    page.get_by_role("option", name="minimax").first.click()
    expect(page.locator(".t-problem").first).to_have_text(
        "In self-play at least two agents learn, but here only player_0 does."
    )
    expect(start).to_be_disabled()
    keep_picture(page, "train-advice")
    page.get_by_role("button", name="Use parameter sharing").click()
    expect(start).to_be_enabled()
    expect(page.locator(".m-kv").first).to_contain_text("parameter sharing")
    expect(page.get_by_role("button", name="One for all")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Name of the run")).to_have_attribute("placeholder", "connect-four-ppo")
    tab.check()


def test_an_error_is_shown_at_the_field_that_it_names(tab: Tab) -> None:
    page = tab.open("/train?env=gym/CartPole-v1")
    page.get_by_label("Num gpus", exact=True).fill("2")
    expect(page.locator(".t-field", has_text="Num gpus").locator(".q-field__messages")).to_contain_text("num_gpus")
    page.get_by_label("Num gpus", exact=True).fill("0")
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()
    expect(page.locator(".t-field", has_text="Num gpus").locator(".q-field__messages")).to_have_count(0)
    tab.check()


def test_the_log_begins_with_the_phases_of_the_start(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(20, name="phases"))
    page = tab.open(f"/runs/{run_id}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("Submitted")
    expect(log).to_contain_text("The worker's process has started")
    expect(log).to_contain_text("First report, at 10 env steps")
    tab.check()
