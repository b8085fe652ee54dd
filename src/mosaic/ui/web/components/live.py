"""Live curves and pictures: elements whose scripts connect to the server on their own sockets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from urllib.parse import quote, urlencode

from nicegui import events, ui

from mosaic.ui.web.components.theme import clipped, series_key
from mosaic.ui.web.components.widgets import box, button, toggle

MOST_SOURCES = 20  # more curves in one chart cannot be told apart
FEW_CURVES = 6  # live_feed.js: beyond this, no bands, and a list of names instead of a name at each curve's end
STAGE = "curriculum/stage"  # drawn as marks
_POINTS = 500


@dataclass(frozen=True, slots=True)
class Source:
    """A run, or a seed group as `group:NAME`."""

    ref: str
    label: str
    live: bool = False


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One curve per source; `place` decides colour and dash, the same in every chart of the page."""

    label: str
    metric: str
    place: int = 0


class FrameCanvas(ui.element, component="../static/frame_canvas.js"):
    """Live picture of a run, on its own WebSocket; only the newest picture is drawn."""

    def __init__(self, run_id: str, *, label: str, env: int = 0, rate: float = 20.0) -> None:
        super().__init__()
        self.props.update(label=label)
        self._run_id, self._rate = run_id, rate
        self._env, self._source = env, ""
        self._point()

    def look_at(self, env: int) -> None:
        self._env = env
        self._point()

    def show_source(self, source: str) -> None:
        """Show one of the run's sources; empty: whichever is active."""
        self._source = source
        self._point()

    def _point(self) -> None:
        query = urlencode({"env": self._env, "rate": self._rate} | ({"source": self._source} if self._source else {}))
        self.props["url"] = f"/runs/{quote(self._run_id, safe='')}/frames?{query}"
        self.update()

    def freeze(self, on: bool) -> None:
        self.run_method("freeze", on)


class LiveFeed(ui.element, component="../static/live_feed.js"):
    """Element that fills charts with curves; Python says what to show and never sends a point."""

    def __init__(self, sources: Sequence[Source], axis: str = "env_steps") -> None:
        super().__init__()
        self.props["first_axis"], self.props["points"] = axis, _POINTS
        self.props["sources"] = [asdict(source) for source in sources]
        self.props["charts"] = []

    def draw(self, chart: ui.echart, lines: Iterable[ChartLine], title: str = "") -> None:
        """Set what this chart shows from now on."""
        drawn: dict[int, object] = {each["id"]: each for each in self.props["charts"]}
        drawn[chart.id] = {"id": chart.id, "title": title, "lines": [asdict(line) for line in lines]}
        self.props["charts"] = list(drawn.values())
        self.update()

    def forget(self, charts: Iterable[ui.echart]) -> None:
        """Draw these charts no more."""
        gone = {chart.id for chart in charts}
        self.props["charts"] = [each for each in self.props["charts"] if each["id"] not in gone]
        self.update()

    def set_stride(self, curves: int) -> None:
        """Set how many places each source takes, so that its colours do not depend on which charts are drawn."""
        self.props["stride"] = max(1, curves)
        self.update()

    def begin(self) -> None:
        """Let the browser request the first chart's curves at once, while it still loads the code that draws them."""
        if self.client.has_socket_connection or not self.props["charts"]:
            return  # everything is loaded already
        lines = self.props["charts"][0]["lines"]
        metrics = dict.fromkeys([*(line["metric"] for line in lines), STAGE])
        query = urlencode(
            [
                *(("ref", source["ref"]) for source in self.props["sources"]),
                *(("metric", metric) for metric in metrics),
                ("x", self.props["first_axis"]),
                ("points", _POINTS),
            ]
        )
        # A failure is handled where the response is used; without its own handler it would be reported twice.
        script = (
            f'begunSeries={{query:"{query}",response:fetch("/series?{query}")}};begunSeries.response.catch(()=>null)'
        )
        ui.add_head_html(f"<script>{script}</script>")

    def compare(self, sources: Sequence[Source]) -> None:
        self.props["sources"] = [asdict(source) for source in sources]
        self.update()

    def set_axis(self, axis: str) -> None:
        self.run_method("set_axis", axis)

    def set_smoothing(self, weight: float) -> None:
        self.run_method("set_smoothing", weight)

    def set_bands(self, on: bool) -> None:
        self.run_method("set_bands", on)

    def set_log(self, on: bool) -> None:
        """Draw values on a logarithmic scale; those of 0 or less are left out."""
        self.run_method("set_log", on)

    def set_pinned(self, label: str | None) -> None:
        """Draw the curves of this label in front of all others; None: draw all alike."""
        self.run_method("set_pinned", label)

    def show_checkpoints(self, checkpoints: Iterable[tuple[int, bool]]) -> None:
        """Mark the env steps of checkpoints, each with whether it is the best."""
        marks = [{"x": env_steps, "best": best} for env_steps, best in checkpoints]
        if marks != self.props.get("checkpoints", []):
            self.props["checkpoints"] = marks
            self.update()

    def set_shown(self, label: str, on: bool) -> None:
        self.run_method("set_shown", label, on)

    def show_everything(self) -> None:
        """Reset the zoom, after part of the curves was selected by dragging or with keys."""
        self.run_method("look_at", None)

    def reload(self) -> None:
        """Load all curves again, after a run was resumed."""
        self.run_method("reload")

    def save_png(self, chart: ui.echart) -> None:
        self.run_method("save_png", chart.id)

    def save_csv(self, chart: ui.echart) -> None:
        self.run_method("save_csv", chart.id)


class SeriesChips:
    """A chip for each curve, which hides and shows it, with a button that pins it in front of the others."""

    def __init__(self, feed: LiveFeed) -> None:
        self._feed = feed
        self._hidden: set[str] = set()
        self._pinned: str | None = None
        self._drawn: dict[str, int] | None = None
        self._row = box("row wrap r-chips")

    def show(self, places: Mapping[str, int]) -> None:
        """Show chips of these labels, each with the place of its curve; there are none for a single curve."""
        if places == self._drawn:
            return
        self._drawn = dict(places)
        if self._pinned is not None and self._pinned not in places:
            self._pin(None)
        self._draw()

    def _draw(self) -> None:
        places = self._drawn or {}
        self._row.clear()
        self._row.set_visibility(len(places) > 1)
        with self._row:
            for label, place in places.items() if len(places) > 1 else ():
                pinned = label == self._pinned
                with box("r-chip" + (" on" if pinned else "")):
                    name = f"{series_key(place)}{clipped(label)}"
                    chip = toggle(name, label not in self._hidden, partial(self._show, label))
                    chip.props["title"] = f"Hide or show {label}"
                    pin = button(glyph="pin", kind="ghost small", label=f"Pin {label}")
                    pin.props(f"aria-pressed={str(pinned).lower()}")
                    pin.on("click", partial(self._pin, None if pinned else label), [])

    def _show(self, label: str, on: bool) -> None:
        self._hidden.discard(label) if on else self._hidden.add(label)
        self._feed.set_shown(label, on)

    def _pin(self, label: str | None) -> None:
        self._pinned = label
        self._feed.set_pinned(label)
        self._draw()


def way_back(feed: LiveFeed) -> ui.html:
    """Return a button that is visible while only part of the curves is shown."""
    element = button("Whole curve", feed.show_everything, glyph="restart", kind="small")
    element.set_visibility(False)

    def zoomed(event: events.GenericEventArguments) -> None:
        element.set_visibility(bool(event.args))

    feed.on("zoomed", zoomed)
    return element


def chart_height(few: int, curves: int) -> str:
    """Return a chart's height: many curves need more room, to be told apart and for the list of names."""
    return f"height:{few if curves <= FEW_CURVES else max(few, 24 + 18 * min(curves, MOST_SOURCES))}px"


def chart(height: int) -> ui.echart:
    """Return an empty chart for a LiveFeed to fill; it must have a height before it is mounted."""
    return ui.echart({"animation": False, "series": []}).style(f"height:{height}px")
