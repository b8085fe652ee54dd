"""Dialogs: confirmation, a few lines of input, a choice, and text to read. Esc leaves each without a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

Browse: TypeAlias = Callable[[Callable[[str], None]], None]
"""Opens a file browser and passes on how a setting names what was chosen."""


def _keys(browse: Browse | None) -> str:
    return "[b]⏎[/b] accept   [b]esc[/b] cancel" + ("   [b]^o[/b] browse files" if browse else "")


_CHOOSING = "[b]⏎[/b] choose   [b]esc[/b] cancel"


class Confirm(ModalScreen[bool]):
    """Yes/no question; only `y` means yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "close(True)", "Yes"),
        Binding("n,escape,q", "close(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield Static("[b]y[/b] yes   [b]n[/b] no", classes="keys")

    def action_close(self, sure: bool) -> None:
        self.dismiss(sure)


class Prompt(ModalScreen[dict[str, str] | None]):
    """Form of a few text fields; Enter in the last one accepts them all."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("enter", "accept", "Accept", priority=True),  # before later keys reach the field that has the focus
        Binding("ctrl+o", "browse", "Browse", show=False),
    ]

    def __init__(
        self,
        title: str,
        fields: Mapping[str, str],
        placeholders: Mapping[str, str] | None = None,
        *,
        browse: Browse | None = None,
    ) -> None:
        """Show fields by their label, with their first values; `browse` lets the user choose a file for the first."""
        super().__init__()
        self._title, self._fields, self._placeholders = title, dict(fields), dict(placeholders or {})
        self._browse = browse

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title, classes="title", markup=False)
            for label, value in self._fields.items():
                yield Label(label)
                yield Input(value, placeholder=self._placeholders.get(label, ""), compact=True)
            yield Static(_keys(self._browse), classes="keys")

    def action_browse(self) -> None:
        if self._browse is not None:
            self._browse(lambda text: setattr(self.query(Input).first(), "value", text))

    def action_accept(self) -> None:
        """Go to the next field; from the last one, accept them all."""
        inputs = list(self.query(Input))
        if self.focused in inputs[:-1]:
            self.set_focus(inputs[inputs.index(self.focused) + 1])
            return
        self.dismiss(dict(zip(self._fields, (field.value.strip() for field in inputs), strict=True)))

    def action_leave(self) -> None:
        self.dismiss(None)


class FieldEditor(ModalScreen[str | None]):
    """Input of one setting, checked while it is typed; Enter accepts only what is valid."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("ctrl+o", "browse", "Browse", show=False),
    ]

    def __init__(
        self,
        title: str,
        help: str,
        text: str,
        check: Callable[[str], str],
        *,
        suggestions: Sequence[str] = (),
        browse: Browse | None = None,
    ) -> None:
        """Begin with `text`; `check` returns why a text is invalid, or "".

        `suggestions` complete what is typed; `browse` lets the user choose a file and passes on how a setting names it.
        """
        super().__init__()
        self._browse = browse
        self._title, self._help, self._text, self._check = title, help, text, check
        self._suggester = SuggestFromList(suggestions) if suggestions else None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title, classes="title", markup=False)
            yield Static(self._help, classes="faint", markup=False)
            yield Input(self._text, compact=True, suggester=self._suggester)
            yield Static("", id="field-problem", markup=False)
            yield Static(_keys(self._browse), classes="keys")

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#field-problem", Static).update(self._check(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        problem = self._check(event.value)
        self.query_one("#field-problem", Static).update(problem)
        if not problem:
            self.dismiss(event.value)

    def action_browse(self) -> None:
        if self._browse is not None:
            self._browse(lambda text: setattr(self.query_one(Input), "value", text))

    def action_leave(self) -> None:
        self.dismiss(None)


class Choose(ModalScreen[str | None]):
    """List of choices; typing narrows a long one, and goes to an entry of a short one.

    With `free`, a text that no entry of a long list contains is itself a choice.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("down", "into_list", show=False),
    ]
    _LONG = 12

    def __init__(self, title: str, choices: Sequence[str], chosen: str = "", *, free: bool = False) -> None:
        super().__init__()
        self._title, self._choices, self._chosen, self._free = title, list(choices), chosen, free
        self._typed = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title, classes="title", markup=False)
            if len(self._choices) > self._LONG:
                yield Input(placeholder="type to narrow the list", compact=True)
            yield OptionList(*map(_option, self._choices), compact=True)
            yield Static(_CHOOSING, classes="keys")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        if self._chosen in self._choices:
            options.highlighted = self._choices.index(self._chosen)
        (self.query(Input).first() if self.query(Input) else options).focus()

    def on_key(self, event: Key) -> None:
        """Go to the entry of a short list that begins with what was typed."""
        if not event.is_printable or event.character is None or self.query(Input):
            return
        for typed in (self._typed + event.character.lower(), event.character.lower()):
            found = next((place for place, text in enumerate(self._choices) if text.lower().startswith(typed)), None)
            if found is not None:
                self._typed, self.query_one(OptionList).highlighted = typed, found
                return

    def on_input_changed(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        options = self.query_one(OptionList)
        options.clear_options()
        found = [text for text in self._choices if all(word in text.lower() for word in words)]
        if not found and self._free:
            found = [event.value.strip()]
        options.add_options(map(_option, found))
        options.highlighted = 0 if options.option_count else None
        self.query_one(".keys", Static).update(_CHOOSING if options.option_count else "Nothing matches.")

    def on_input_submitted(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            options.action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_into_list(self) -> None:
        """Go to the entry after the one that Enter takes."""
        self.query_one(OptionList).focus().action_cursor_down()

    def action_leave(self) -> None:
        self.dismiss(None)


def _option(text: str) -> Option:
    from rich.text import Text

    return Option(Text(text), id=text)


class TextScreen(ModalScreen[None]):
    """Text to read: help, messages, the doctor, a configuration."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", "Back")]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(self._title, classes="title", markup=False)
            with VerticalScroll():
                yield Static(self._content)
            yield Static("[b]esc[/b] back   [b]↑ ↓[/b] scroll", classes="keys")

    def action_leave(self) -> None:
        self.dismiss(None)


def highlighted(document: Mapping[str, Any], format: str) -> RenderableType:
    """Return a configuration with syntax highlighting; the format is `.yaml` or `.toml`."""
    from rich.syntax import Syntax

    from mosaic.config.file_formats import write_document

    text = write_document(document, format)
    return Syntax(text, format.removeprefix("."), theme="ansi_dark", background_color="default", word_wrap=True)


class TooSmall(ModalScreen[None]):
    """Message in place of a broken screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.exit", "Quit")]

    def compose(self) -> ComposeResult:
        yield Static("", id="too-small")

    def on_mount(self) -> None:
        self.tell()

    def tell(self) -> None:
        size = self.app.size
        text = f"Mosaic needs a terminal of 80×24; this one is {size.width}×{size.height}. Enlarge it, or press q."
        self.query_one(Static).update(text)
