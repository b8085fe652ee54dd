"""Form generated from a pydantic model: one line per setting, validated by the model, with a JSON view."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from html import escape

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement
from pydantic import BaseModel

from mosaic.config.file_formats import read_json
from mosaic.core.ids import Json, JsonObject
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.widgets import box, button, raw, select, set_html
from mosaic.ui.web.data.schema_fields import (
    FieldValues,
    SchemaField,
    as_text,
    complaints,
    fields_of,
    from_text,
    shown_default,
)

_NOTHING = ""  # the choice that stands for None


class SchemaForm:
    """Form of a model's settings; it keeps in `values` only what differs from the defaults."""

    def __init__(
        self,
        model: type[BaseModel],
        values: JsonObject,
        on_change: Callable[[], object],
        *,
        defaults: Mapping[str, Json] | None = None,
        only: Collection[str] = (),
    ) -> None:
        self._on_change = on_change
        fields = [field for field in fields_of(model) if not only or field.name in only]
        self._fields = FieldValues(fields, values, partial(complaints, model), defaults)
        self._lines: dict[str, _Line] = {}
        self._text, self._all = "", False  # searched for, and whether advanced fields are shown
        self.element = box("stack t-form")
        with self.element:
            self._places = {field.name: box() for field in fields}  # advanced fields are built when they are shown
            self._more = button("", self._show_all, kind="ghost small").classes("t-more")
            self._none = raw("No option has that name.", "m-note")
        self.show()

    @property
    def problems(self) -> Mapping[str, str]:
        return self._fields.problems

    @property
    def effective(self) -> JsonObject:
        """Return every setting of the form, set or not."""
        return {**self._fields.defaults, **self._fields.values}

    def show(self) -> None:
        """Update the fields to the current values."""
        for name, line in self._lines.items():
            line.show(self._fields.effective(name), name in self._fields.values)
        self._arrange()

    def search(self, text: str) -> None:
        """Show only fields whose name or help has all words, the advanced ones too."""
        self._text = text.lower()
        self._arrange()

    def point_at(self, name: str, problem: str) -> bool:
        """Show a problem at a field, which becomes visible; return whether the form has that field."""
        if name not in self._places:
            return False
        if problem:
            self._show_line(name)
        if name in self._lines and name not in self._fields.problems:
            self._lines[name].complain(problem)
        return True

    def _show_all(self) -> None:
        self._all = not self._all
        self._arrange()

    def _arrange(self) -> None:
        """Show basic fields, changed ones and what was searched for; the others on request."""
        words = self._text.split()
        hidden = 0
        for name, field in self._fields.fields.items():
            found = f"{name} {field.title} {field.help}".lower()
            basic = self._all or field.group == "basic" or name in self._fields.values or name in self._fields.problems
            if all(word in found for word in words) if words else basic:
                self._show_line(name)
            else:
                self._places[name].set_visibility(False)
                hidden += 1
        advanced = sum(field.group == "advanced" for field in self._fields.fields.values())
        set_html(self._more, "Show basic options only" if self._all else f"Show {hidden} advanced options")
        self._more.set_visibility(bool(advanced and not words and (hidden or self._all)))
        self._none.set_visibility(bool(words and hidden == len(self._places)))

    def _show_line(self, name: str) -> None:
        place, field = self._places[name], self._fields.fields[name]
        if name not in self._lines:
            with place:
                self._lines[name] = _Line(field, self._fields.defaults[name], self._take)
            self._lines[name].show(self._fields.effective(name), name in self._fields.values)
        place.set_visibility(True)

    def read(self, values: Mapping[str, Json]) -> str:
        """Take a whole document of settings; return why it is invalid, or "" if it was taken."""
        problem = self._fields.take_all(values)
        if not problem:
            self.show()
        return problem

    def _take(self, name: str, value: Json) -> None:
        problem = self._fields.take(name, value)
        line = self._lines[name]
        line.complain(problem)
        if not problem:
            line.mark(name in self._fields.values)
        self._on_change()


class _Line:
    """Label, widget and help of one setting, with a dot where it was changed and a reset button."""

    def __init__(self, field: SchemaField, default: Json, take: Callable[[str, Json], None]) -> None:
        self._field, self._default, self._take = field, default, take
        self._quiet = False  # while the program itself sets its widgets
        words = shown_default(field, default)
        self._row = box("t-field")
        with self._row:
            raw(f'<span class="dot"></span><span>{escape(field.title)}</span>', "t-label").props["title"] = field.name
            self._widget = self._make()
            with box("row"):
                hint = f' <span class="t-bounds">{escape(field.bounds)}</span>' if field.bounds else ""
                raw(escape(field.words) + hint, "help grow")
                back = raw(icon("reset"), "m-btn ghost small icon reset", "button").props("type=button")
                back.props["aria-label"] = back.props["title"] = f"{field.title}: back to {words}"
                back.on("click", self._reset, [])

    def show(self, value: Json, changed: bool) -> None:
        self._quiet = True
        match self._widget:
            case ui.switch() as switch:
                switch.set_value(bool(value))
            case ui.select() as choice:
                choice.set_value(_NOTHING if value is None else value)
            case text:
                text.set_value(as_text(value))
        self._quiet = False
        self.complain("")
        self.mark(changed)

    def mark(self, changed: bool) -> None:
        if changed:
            self._row.classes(add="changed")
        else:
            self._row.classes(remove="changed")

    def complain(self, text: str) -> None:
        if isinstance(self._widget, ValidationElement):  # a switch has no room for it; the summary shows it
            self._widget.error = text or None

    def _make(self) -> ui.switch | ui.select | ui.input:
        field = self._field
        if field.widget == "switch":
            switch = ui.switch(on_change=lambda event: self._chosen(event.value)).props("dense")
            switch.props["aria-label"] = field.title
            return switch
        if field.widget == "choice":
            options = {word: word for word in field.choices}
            if field.optional:
                options = {_NOTHING: field.nothing, **options}
            return select(options, label=field.title, on_change=self._chosen).without_auto_validation()
        element = ui.input(on_change=lambda event: self._typed(event.value or "")).without_auto_validation()
        element.props("outlined dense hide-bottom-space debounce=250")
        element.props["aria-label"] = field.title
        if field.unit:
            element.props["suffix"] = field.unit
        if field.optional and self._default is None:
            element.props["placeholder"] = field.nothing
        if field.types & {"integer", "number"} and not field.types & {"array", "string"}:
            element.props["inputmode"] = "decimal"
        return element

    def _chosen(self, value: bool | str | None) -> None:
        if not self._quiet:
            self._take(self._field.name, None if value == _NOTHING else value)

    def _typed(self, text: str) -> None:
        if not self._quiet:
            self._take(self._field.name, from_text(self._field, text))

    def _reset(self) -> None:
        self.show(self._default, False)
        self._take(self._field.name, self._default)


class JsonView:
    """The same settings as text; input is copied to the form as soon as the model accepts it."""

    def __init__(self, form: SchemaForm, on_change: Callable[[], object]) -> None:
        self._form, self._on_change = form, on_change
        self._quiet = False
        self.problem = ""
        self.element = ui.textarea(on_change=lambda event: self._typed(event.value or "")).without_auto_validation()
        self.element.props("outlined debounce=250 input-class=mono").classes("fill t-json")
        self.element.props["aria-label"] = "Options as JSON"
        self.show()

    def show(self) -> None:
        self._quiet = True
        self.element.set_value(json.dumps(self._form.effective, indent=2))
        self.element.error = None
        self.problem = ""
        self._quiet = False

    def _typed(self, text: str) -> None:
        if self._quiet:
            return
        try:
            values = read_json(text)
            self.problem = (
                self._form.read(values) if isinstance(values, dict) else "It should be an object: {NAME: VALUE}."
            )
        except ValueError as error:
            self.problem = f"This is not valid JSON: {error}."
        self.element.error = self.problem or None
        self._on_change()
