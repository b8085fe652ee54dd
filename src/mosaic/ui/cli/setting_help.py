"""Help texts of options that set a field of the settings: the description of that field, written once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_MARK = "setting:"
_DEFAULT = re.compile(r"[;.] (None|without any limit)\b.*", re.DOTALL)  # options name their default in brackets


def setting(path: str) -> str:
    """Return a help text that is replaced by the description of a setting, such as `training.episodes`."""
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
            text: str = getattr(option, "help", None) or ""
            if text.startswith(_MARK):
                field = _field(text.removeprefix(_MARK))
                described: Any = option
                words = _DEFAULT.sub("", field.description or "")
                described.help = words if words.endswith((".", "…")) else f"{words}."
                if described.show_default is True and field.default not in (None, ""):
                    described.show_default = str(field.default)


def _field(path: str) -> FieldInfo:
    from mosaic.config.run import RunConfig
    from mosaic.runs.tuning.plan import TuneSettings

    section, _, name = path.rpartition(".")
    if section == "tune":
        return TuneSettings.model_fields[name]
    model: Any = RunConfig.model_fields[section].annotation if section else RunConfig
    field: FieldInfo = model.model_fields[name]
    return field
