"""One run: how it is, its curves, its picture, what wants a look, its log, what can be done with it."""

from __future__ import annotations

from nicegui import PageArguments, ui

from mosaic.core.errors import MosaicError
from mosaic.server.schemas import RunDetails
from mosaic.store.state import LIVE
from mosaic.ui.web.components.layout import Frame
from mosaic.ui.web.components.widgets import box, complain
from mosaic.ui.web.pages.run.about import AboutPanel
from mosaic.ui.web.pages.run.alerts import AlertsPanel
from mosaic.ui.web.pages.run.curves import CurvesPanel
from mosaic.ui.web.pages.run.page import StatusStrip
from mosaic.ui.web.pages.run.picture import GridPanel
from mosaic.ui.web.run_actions import Actions
from mosaic.ui.web.run_log import LogPanel
from mosaic.ui.web.run_picture import PicturePanel

_REFRESH_S = 4.0  # curves and pictures come by themselves, as they happen


def page(frame: Frame, run_id: str, address: PageArguments) -> None:
    """`?with=RUN,RUN,group:NAME` shows their curves beside its own."""
    folder = frame.desk.folder(run_id)
    details = frame.facts.details(folder.run_id)
    title = str(details.config.get("name") or details.run_id)
    with box("m-page"):
        actions = Actions(details)
        strip = StatusStrip(frame.facts)
        with box("m-cols r-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
            with box("stack gap-4"):
                curves = CurvesPanel(frame, folder, details, address.query_parameters.get("with", ""))
                grid = GridPanel(folder, details)
                log = LogPanel(folder)
            with box("stack gap-4"):
                picture = PicturePanel(details)
                alerts = AlertsPanel(frame, folder)
                about = AboutPanel(frame, folder, details)
    parts = (actions, strip, curves, log, picture, grid, alerts, about)
    shown: list[RunDetails] = []

    async def refresh() -> None:
        try:
            now = await frame.facts.aside(frame.facts.details, folder.run_id)
        except MosaicError as error:  # somebody deleted it
            clock.deactivate()
            complain(str(error))
            return
        if now is None or strip.element.is_deleted:  # the server ends, or the page was left meanwhile
            return
        if shown and shown[-1].state == now.state and now.state not in LIVE and shown[-1].last_seq == now.last_seq:
            await about.update(now)  # how long ago it started
            return
        if not shown or shown[-1].state != now.state:
            frame.title(("Runs", "/runs"), title, state=now.state)
        shown[:] = [now]
        for part in parts:
            await part.update(now)

    frame.title(("Runs", "/runs"), title, state=details.state)
    clock = ui.timer(_REFRESH_S, refresh)
