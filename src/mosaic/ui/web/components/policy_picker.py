"""Policy picker: one of those that fit the environment, or any reference that is typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nicegui import ui

from mosaic.core.errors import MosaicError
from mosaic.core.ids import PolicyID
from mosaic.policies.registry import parse_policy
from mosaic.ui.web.components.widgets import box, select

_OTHER = "other …"


class PolicyPicker:
    """A choice of policy; `problem` says why the typed text is not one, `policy` is the last valid one."""

    def __init__(
        self, offers: Mapping[PolicyID, str], policy: PolicyID, label: str, on_change: Callable[[PolicyPicker], object]
    ) -> None:
        self.policy, self.problem, self.typing, self._on_change = policy, "", False, on_change
        known = dict(offers) if policy in offers else {policy: policy, **offers}
        with box("stack gap-1 grow"):
            select({**known, _OTHER: _OTHER}, policy, label=label, on_change=self._choose)
            self._text = ui.input(
                placeholder="stockfish:elo=1500, run:NAME@best, …",
                on_change=lambda event: self._type(event.value or ""),
            )
            self._text.without_auto_validation().props("outlined dense hide-bottom-space debounce=250")
            self._text.props["aria-label"] = f"{label}: a reference"
        self._text.set_visibility(False)

    def _choose(self, value: str) -> None:
        self.typing = value == _OTHER
        self._text.set_visibility(self.typing)
        if self.typing:
            self._type(self._text.value or "")
        else:
            self._take(value)

    def _type(self, text: str) -> None:
        try:
            parse_policy(text.strip())
        except MosaicError as error:
            self.problem = str(error) if text else "Type the reference of a policy."
            self._text.error = self.problem if text else None
            self._on_change(self)
            return
        self._text.error = None
        self._take(text.strip())

    def _take(self, policy: PolicyID) -> None:
        self.policy, self.problem = policy, ""
        self._on_change(self)
