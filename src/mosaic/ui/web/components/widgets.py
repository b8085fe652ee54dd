"""Small widgets: static parts are a single piece of HTML; only what changes or is clicked is an element."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from nicegui import ui

from mosaic.ui.web.components.icons import CHEVRON, icon
from mosaic.ui.web.components.theme import avatar, env_picture

Key = TypeVar("Key")
# Runs in the browser, during the click itself: later the browser would not allow the page to copy.
_COPY = "async (event) => emit(await mosaicCopy(event.currentTarget.parentElement.querySelector('code').textContent))"


def raw(html: str, classes: str = "", tag: str = "div") -> ui.html:
    """Show our own markup; text from any other source must go through html.escape first."""
    return ui.html(html, sanitize=False, tag=tag).classes(classes)


def set_html(element: ui.html, html: str) -> None:
    """Replace the markup of an element; an unchanged one is not sent to the browser."""
    if element.content != html:
        element.set_content(html)


def box(classes: str = "", tag: str = "div") -> ui.element:
    return ui.element(tag).classes(classes)


@contextmanager
def panel(
    title: str = "", *, hint: str = "", body: str = "m-body", classes: str = "", level: int = 2
) -> Iterator[ui.element]:
    """Enter the body of a titled surface; yield the right end of its header."""
    with box(f"m-panel {classes}", "section"):
        if title:
            with box("", "header"):
                raw(escape(title), "m-h2", f"h{level}")
                if hint:
                    raw(escape(hint), "small faint clip", "span")
                end = box("end")
        else:
            end = box().style("display:none")
        with box(body):
            yield end


def button(
    text: str = "",
    on_click: Callable[[], object] | None = None,
    *,
    glyph: str = "",
    kind: str = "",
    label: str = "",
) -> ui.html:
    """Return a real <button>; `label` names one without text, for screen readers and the tooltip."""
    shape = "icon" if glyph and not text else ""
    content = (icon(glyph) if glyph else "") + escape(text)
    element = raw(content, f"m-btn {kind} {shape}", "button").props("type=button")
    if label:
        element.props["aria-label"] = element.props["title"] = label
    if on_click is not None:
        element.on("click", lambda: on_click(), [])
    return element


def enable(element: ui.element, on: bool) -> None:
    if on:
        element.props(remove="disabled")
    else:
        element.props("disabled")


def link_button(text: str, href: str, *, glyph: str = "", kind: str = "") -> ui.html:
    element = raw((icon(glyph) if glyph else "") + escape(text), f"m-btn {kind}", "a")
    element.props["href"] = href
    return element


def line_link(title: str, words: str, href: str, hover: str = "") -> None:
    """Show a line of a list that links to a page."""
    text = f'<span class="clip">{escape(title)}</span><span class="faint small">{escape(words)}</span>'
    link = raw(text, "p-line", "a")
    link.props["href"] = href
    if hover:
        link.props["title"] = hover


class Segmented(ui.element):
    """A choice of one out of a few: a group of buttons that are pressed or not."""

    def __init__(
        self, options: Mapping[str, str] | Sequence[str], value: str, on_change: Callable[[str], object], label: str
    ) -> None:
        super().__init__("div")
        self.classes("m-seg").props("role=group")
        self.props["aria-label"] = label
        self.value, self._on_change = value, on_change
        named = options if isinstance(options, Mapping) else {option: option for option in options}
        self._buttons: dict[str, ui.html] = {}
        with self:
            for key, text in named.items():
                self._buttons[key] = raw(escape(text), "", "button").props("type=button")
                self._buttons[key].on("click", lambda key=key: self.choose(key), [])
        self._mark()

    def choose(self, key: str) -> object:
        """Select an option and return the result of `on_change`: NiceGUI awaits it if it is a coroutine."""
        self.value = key
        self._mark()
        return self._on_change(key)

    def _mark(self) -> None:
        for name, element in self._buttons.items():
            element.props(f"aria-pressed={str(name == self.value).lower()}")


def toggle(html: str, value: bool, on_change: Callable[[bool], object]) -> ui.html:
    """Return a pill that is on or off (a series, a filter)."""
    element = raw(html, "m-toggle", "button").props(f"type=button aria-pressed={str(value).lower()}")
    state = {"on": value}

    def flip() -> object:
        state["on"] = not state["on"]
        element.props(f"aria-pressed={str(state['on']).lower()}")
        return on_change(state["on"])

    element.on("click", flip, [])
    return element


def select(
    options: Mapping[Key, str] | Sequence[Key],
    value: object = None,
    *,
    label: str,
    on_change: Callable[[Any], object] | None = None,
    multiple: bool = False,
    clearable: bool = False,
    with_input: bool = False,
    new_value_mode: Literal["add-unique"] | None = None,
) -> ui.select:
    """Return a drop-down; `on_change` gets the chosen value: a list where there may be several."""
    changed = None if on_change is None else lambda event: on_change(event.value)
    element = ui.select(
        dict(options) if isinstance(options, Mapping) else list(options),
        value=value,
        on_change=changed,
        multiple=multiple,
        clearable=clearable,
        with_input=with_input,
        new_value_mode=new_value_mode,
    ).classes("fill")
    element.props("outlined dense options-dense hide-bottom-space")
    element.props["dropdown-icon"], element.props["aria-label"] = CHEVRON, label
    return element


def text_input(
    placeholder: str, on_change: Callable[[str], object] | None = None, *, glyph: str = "", value: str = ""
) -> ui.input:
    changed = None if on_change is None else lambda event: on_change(event.value or "")
    element = ui.input(placeholder=placeholder, value=value, on_change=changed).props("outlined dense debounce=120")
    element.props["aria-label"] = placeholder
    if glyph:
        with element.add_slot("prepend"):
            raw(icon(glyph), "row")
    return element


def pill(state: str) -> str:
    return f'<span class="m-pill {escape(state)}">{escape(state)}</span>'


def picture(env: str, classes: str = "") -> str:
    """Return the env's picture, or its letters; without alt text, as the text beside it says the same."""
    name = env_picture(env)
    if name is None:
        return f'<span class="pic m-letters {classes}">{avatar(env.partition("/")[2] or env, len(env))}</span>'
    return f'<img class="pic {classes}" src="/static/envs/{quote(name)}.webp" alt="" loading="lazy">'


def command(text: str, *, multi: bool = False) -> ui.html:
    """Show a command to type, with a copy button; change the text with `set_content(escape(…))`."""
    with box("m-cmd" + (" multi" if multi else "")):
        code = raw(escape(text), "", "code")
        copy = button(glyph="copy", kind="ghost small", label="Copy")
        copy.on("click", lambda event: _tell_copied(bool(event.args)), js_handler=_COPY)
    return code


def _tell_copied(done: bool) -> None:
    if done:
        say("Copied")
    else:
        complain("This browser does not allow copying here: select the text and press Ctrl+C.")


def replace_address(path: str) -> None:
    """Set the address that the browser shows, copies and keeps in its history, without changing the page."""
    ui.run_javascript(f"history.replaceState({{page: {json.dumps(path)}}}, '', {json.dumps(path)})")


def say(text: str) -> None:
    """Show a short note over the top bar: at the bottom it would cover the controls of a match and the tab bar."""
    ui.notify(text, position="top")


def complain(text: str) -> None:
    """Show an error that says what to do, until it is closed."""
    ui.notify(text, position="top", timeout=0, close_button="Close", multi_line=True, classes="m-complaint")


def problem(text: str) -> None:
    """Show a message in place of a page."""
    with box("m-page"), panel("This page cannot be shown"):
        raw(escape(text), "m-lead")
        link_button("All runs", "/runs", glyph="runs")


def empty(html: str) -> ui.html:
    """Say that there is nothing here yet, and what to do about it."""
    return raw(html, "m-note m-empty")
