"""The Train page and files: a whole configuration is pasted, uploaded and downloaded, and nothing in it is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mosaic.config.file_formats import parse_document
from mosaic.config.loading import parse_run_config
from tests.ui.web.data.test_draft_files import FULL
from tests.ui.web.web_kit import SCREENSHOTS, Tab, keep_picture

TEXT = "Configuration of the run"
APPLIED = "The form now shows the settings of the file."
FIRST = {"YAML": re.compile("^[a-z_]+:"), "TOML": re.compile(r"^[a-z_\[]+"), "JSON": re.compile("^{")}
TOML = """
seed = 7
name = "from a file"
policy_configuration = "independent"
[environment]
env_id = "classic/tictactoe_v3"
[agents]
"player_2" = "minimax:depth=2"
[training]
worker = "native"
algorithm = "ppo"
total_timesteps = 4321
[training.params]
gamma = 0.5
[checkpoint]
keep_last = 9
"""


# Notes in what states the text was seen while it was empty.
WATCH_TEXT = f"""
window.seen = [];
new MutationObserver(() => {{
  const text = document.querySelector('textarea[aria-label="{TEXT}"]');
  const state = text && (text.readOnly ? "readonly" : "editable");
  if (text && !text.value && !window.seen.includes(state)) window.seen.push(state);
}}).observe(document, {{subtree: true, childList: true, attributes: true}});
"""


def text_of(page: Page) -> str:
    return page.get_by_label(TEXT).input_value()


def choose_format(page: Page, kind: str) -> None:
    """Choose a format and wait for the form's text in it; an edited text stays as it is."""
    page.get_by_role("button", name=kind, exact=True).last.click()
    if page.get_by_role("button", name="Apply to the form").is_disabled():
        expect(page.get_by_label(TEXT)).to_have_value(FIRST[kind])


def paste(page: Page, text: str, kind: str = "YAML") -> None:
    choose_format(page, kind)
    page.get_by_label(TEXT).fill(text)
    page.get_by_role("button", name="Apply to the form").click()


def upload(page: Page, name: str, text: str) -> None:
    files = [{"name": name, "mimeType": "text/plain", "buffer": text.encode()}]
    page.locator("input[type=file]").set_input_files(files)  # type: ignore[arg-type]


def test_nothing_can_be_typed_before_the_form_has_written_its_text(tab: Tab) -> None:
    tab.page.add_init_script(WATCH_TEXT)
    page = tab.open("/train")
    expect(page.get_by_label(TEXT)).to_have_value(FIRST["YAML"])
    expect(page.get_by_label(TEXT)).to_be_editable()
    assert "editable" not in page.evaluate("window.seen")


def test_a_file_fills_the_form_and_the_form_gives_the_same_file(tab: Tab, tmp_path: Path) -> None:
    page = tab.open("/train")
    upload(page, "run.toml", TOML)
    expect(page.get_by_text(APPLIED)).to_be_visible()
    expect(page.get_by_label("Env steps")).to_have_value("4,321")
    expect(page.get_by_label("Name of the run")).to_have_value("from a file")
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    expect(page.get_by_label("Gamma", exact=True)).to_have_value("0.5")
    expect(page.get_by_role("button", name="One per agent")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="TOML").click()
    expect(page.get_by_label(TEXT)).to_have_value(re.compile(r"^total_timesteps = 4321$", re.M))
    with page.expect_download() as started:
        page.get_by_role("button", name="Download", exact=True).click()
    saved = tmp_path / started.value.suggested_filename
    started.value.save_as(saved)
    assert saved.name == "tictactoe_v3.toml"
    assert saved.read_text() == text_of(page)
    written = parse_run_config(parse_document(saved.read_text(), saved))
    assert written == parse_run_config(parse_document(TOML, Path("run.toml")))
    tab.check()


def test_everything_that_can_be_set_survives_the_form(tab: Tab) -> None:
    asked = {key: value for key, value in FULL.items() if key != "run_id"}
    page = tab.open("/train")
    paste(page, json.dumps(asked), "JSON")
    expect(page.get_by_text(APPLIED)).to_be_visible()
    page.get_by_role("button", name="JSON", exact=True).last.click()
    expect(page.get_by_label(TEXT)).to_have_value(re.compile('"policies_to_train"'))
    assert parse_run_config(parse_document(text_of(page), Path("run.json"))) == parse_run_config(asked)
    tab.check()


REFUSED = {
    "seed: 7\nenviroment: {}\n": "There is no setting 'enviroment'. Did you mean 'environment'?",
    "environment: {env_id: gym/CartPole-v1}\nseed: -1\n": "seed",
    "environment: {env_id: gym/CartPole-v1\n": "configuration.yaml, line",
    "environment: {env_id: gym/CartPoll-v1}\n": "CartPole",
    "environment: {env_id: gym/CartPole-v1}\ntraining: {worker: native, params: {gama: 1}}\n": (
        "there is no option 'gama'. Did you mean 'gamma'?"
    ),
    "environment: {env_id: 'python:os:getcwd'}\n": "--allow-programs",
    "a: &a [1]\nenvironment: {env_id: gym/CartPole-v1, options: {x: *a}}\n": "aliases (*NAME) are not allowed here.",
}


def test_errors_stand_at_the_text_and_the_form_stays(tab: Tab) -> None:
    page = tab.open("/train?env=mpe%2Fsimple_spread_v3")
    expect(page.locator(".t-badge")).to_contain_text("spread", ignore_case=True)
    for text, said in REFUSED.items():
        paste(page, text)
        expect(page.locator(".t-file [role=alert]")).to_contain_text(said)
        expect(page.get_by_label(TEXT)).to_have_value(text)
    expect(page.locator(".t-badge")).to_contain_text("spread", ignore_case=True)
    upload(page, "run.txt", "seed: 7")
    expect(page.locator(".t-file [role=alert]")).to_contain_text("The file is not .yaml, .yml, .toml or .json")
    tab.check()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_panel_fits(tab: Tab, width: int, theme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.open("/train")
    if page.locator(f"body.body--{theme}").count() == 0:
        page.get_by_label("Light or dark").click()
        page.wait_for_selector(f"body.body--{theme}")
    expect(page.get_by_label(TEXT)).to_have_value(re.compile("env_id"))
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    keep_picture(page, f"train-file-{theme}-{width}")
    paste(page, next(iter(REFUSED)))
    expect(page.locator(".t-file [role=alert]")).to_contain_text("enviroment")
    page.locator(".t-file").screenshot(path=SCREENSHOTS / f"train-file-error-{theme}-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.check()
