"""Panel of a run's last evaluation: every agent with its policy, its opponents and its results."""

from __future__ import annotations

from html import escape

from mosaic.store.views import RunDetails
from mosaic.ui.cli.evaluation_view import EVALUATION_COLUMNS, evaluation_rows, evaluation_title
from mosaic.ui.web.components.widgets import box, panel, raw


class EvaluationPanel:
    def __init__(self) -> None:
        with box() as self._whole, panel("Last evaluation", body="m-body tight"):
            self._box = box()
        self._whole.set_visibility(False)
        self._shown: tuple[object, ...] = ()

    async def update(self, details: RunDetails) -> None:
        events = details.last_evaluation
        if events == self._shown or self._box.is_deleted:
            return
        self._shown = events
        self._whole.set_visibility(bool(events))
        self._box.clear()
        head = "".join(f"<th>{escape(column)}</th>" for column in EVALUATION_COLUMNS)
        with self._box:
            for event in events:
                body = "".join(
                    "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                    for row in evaluation_rows(event)
                )
                raw(escape(evaluation_title(event)), "m-note")
                raw(
                    f'<table class="m-table dense"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
                    "m-scroll",
                )
