"""Panel of alerts: those that the worker reported, and those derived from its numbers."""

from __future__ import annotations

import time
from html import escape

from nicegui import run

from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.reader import EventTail
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.widgets import box, empty, panel, raw
from mosaic.ui.web.data.alerts import Alert, end_alerts, number_alerts, plateau_alert, silence_alert
from mosaic.ui.web.data.progress import time_spent

_MOST_REPORTED = 5
_LOOK_AGAIN_S = 10.0  # silence is news too
_HEAR_AGAIN_S = 3.0  # no one can act on an alert sooner


class AlertsPanel:
    def __init__(self, frame: PageLayout, folder: RunFolder) -> None:
        self._folder, self._facts = folder, frame.facts
        self._after = 0
        self._heard: tuple[State, int] | None = None
        self._looked = 0.0
        self._reported: list[str] = []
        self._shown: list[Alert] | None = None
        with panel("Alerts", body="m-body tight"):
            self._box = box()

    async def update(self, details: RunDetails) -> None:
        heard = (details.state, details.last_seq)
        wait_s = _LOOK_AGAIN_S if heard == self._heard else _HEAR_AGAIN_S
        same_state = self._heard is not None and self._heard[0] == details.state
        if same_state and time.monotonic() - self._looked < wait_s:
            return
        self._heard, self._looked = heard, time.monotonic()
        found = await run.io_bound(self._look, details)
        if found is None or self._box.is_deleted or found == self._shown:
            return
        self._shown = found
        self._box.clear()
        with self._box:
            for alert in found:
                raw(
                    f"{icon('alert', alert.level)}<div><div>{escape(alert.text)}</div>"
                    f'<div class="x">{escape(alert.advice)}</div></div>',
                    "r-alert",
                )
            if not found:
                empty("No alerts.")

    def _look(self, details: RunDetails) -> list[Alert]:
        self._read_reports()
        event = details.last_metric or {}
        found = end_alerts(details.state, details.run_id, details.reason)
        usual_s = sum(time_spent(self._facts.iteration(details.run_id)).values())
        found += silence_alert(details.state, event.get("timestamp"), time.time(), usual_s)
        found += number_alerts(event)
        if details.state is State.RUNNING:
            curve = self._facts.trend(details.run_id)
            found += plateau_alert(details.state, curve.x, curve.mean)
        reported = [Alert("warn", text, "The worker reported this.") for text in reversed(self._reported)]
        return found + reported

    def _read_reports(self) -> None:
        if not self._folder.metrics.exists():
            return
        with EventTail(self._folder.metrics, self._after) as tail:
            while events := tail.read():
                self._after = events[-1]["seq"]
                said = [str(each.get("message", "")) for each in events if each["kind"] == "alert"]
                self._reported = (self._reported + said)[-_MOST_REPORTED:]
