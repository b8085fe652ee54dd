"""Help texts and defaults of options, taken from the settings, and completion of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_MARK = "setting:"
_DEFAULT = re.compile(r"[;.] (None|none|without any limit)\b.*", re.DOTALL)  # options name their default in brackets
_NAMED_DEFAULT = re.compile(r"; [Nn]one: (.+?)\.?$", re.DOTALL)


def setting(path: str) -> str:
    """Return a help text that is replaced by the description of a setting, such as `training.episodes`.

    The first part of the path is a section of a run's configuration, or `tune` or `request`: settings of a tuning run
    and of an export.
    """
    return f"{_MARK}{path}"


class SettingsCommand(TyperCommand):
    """Command whose help is read from the settings when it is shown, so that `mosaic --help` need not import them."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._describe()
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._describe()
        return super().shell_complete(ctx, incomplete)

    def _describe(self) -> None:
        for option in self.params:
            if isinstance(option, TyperOption) and (option.help or "").startswith(_MARK):
                field = _field((option.help or "").removeprefix(_MARK))
                text = field.description or ""
                words = _DEFAULT.sub("", text) + ("; may be repeated" if option.multiple else "")
                option.help = words if words.endswith((".", "…")) else f"{words}."
                if option.show_default is True and (default := _default(field, text)):
                    option.show_default = default


def _default(field: FieldInfo, description: str) -> str:
    """Return the default of a setting in words; "" if it has none."""
    if not field.is_required() and field.default not in (None, "", ()) and field.default is not False:
        return str(field.default)
    named = _NAMED_DEFAULT.search(description)
    return named[1] if named else ""


def _field(path: str) -> FieldInfo:
    from pydantic import BaseModel

    from mosaic.config.export import ExportRequest
    from mosaic.config.run import RunConfig
    from mosaic.runs.tuning.plan import TuneSettings

    section, _, name = path.rpartition(".")
    models: dict[str, type[BaseModel]] = {"": RunConfig, "tune": TuneSettings, "request": ExportRequest}
    model = models[section] if section in models else RunConfig.model_fields[section].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    return model.model_fields[name]


def complete_worker(incomplete: str) -> Iterable[str]:
    """Return the names of installed workers; none of them is imported."""
    from mosaic.core.plugins import plugins

    return [name for name in plugins("mosaic.workers") if name.startswith(incomplete)]


def complete_algorithm(context: typer.Context, incomplete: str) -> Iterable[str]:
    """Return the algorithms of the worker that was typed before, else those of all of Mosaic's own workers.

    Their modules import neither torch nor Ray to declare them; a plug-in is imported only if it was typed.
    """
    from mosaic.core.plugins import plugins
    from mosaic.workers.registry import load_worker

    known = plugins("mosaic.workers")
    typed = str(context.params.get("worker") or "").lower()
    names = [typed] if typed in known else [name for name, entry in known.items() if entry.value.startswith("mosaic.")]
    found = dict.fromkeys(algorithm for name in names for algorithm in load_worker(name).info.algorithms)
    return [algorithm for algorithm in found if algorithm.startswith(incomplete)]
