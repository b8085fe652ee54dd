"""Pages inside the frame, and what stands there instead where none is or one breaks."""

from __future__ import annotations

import logging

from nicegui import ui

from mosaic.ui.web.components.widgets import problem

_LOG = logging.getLogger(__name__)


class Pages(ui.sub_pages):
    """NiceGUI's own words for both say nothing that a reader could do."""

    def _render_404(self) -> None:
        ui.page_title("Not here · Mosaic")
        problem(f"There is no page at {self._address}. Pages are listed beside this one; Ctrl+K finds runs too.")

    def _render_error(self, error: Exception) -> None:
        _LOG.error("The page %s broke", self._address, exc_info=error)
        problem(f"The page broke: {type(error).__name__}: {error}. The server's terminal says where; load it again.")

    @property
    def _address(self) -> str:
        return str(ui.context.client.sub_pages_router.current_path)
