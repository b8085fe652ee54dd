"""Frame around every page: side bar, top bar with breadcrumb, palette, theme switch, phone tab bar, error pages."""

from __future__ import annotations

import logging
from html import escape
from urllib.parse import quote, urlencode

from nicegui import app, events, run, ui

from mosaic.core.version import VERSION
from mosaic.server.context import ServerContext
from mosaic.ui.web.components.icons import LOGO, icon
from mosaic.ui.web.components.theme import env_title
from mosaic.ui.web.components.widgets import box, button, pill, problem, raw, set_html, text_input
from mosaic.ui.web.data.env_info import catalog
from mosaic.ui.web.data.facts import Facts

NAV = (
    ("/", "Home", "home", "h"),
    ("/train", "Train", "train", "t"),
    ("/runs", "Runs", "runs", "r"),
    ("/play", "Play", "play", "p"),
    ("/evaluate", "Evaluate", "evaluate", "e"),
    ("/export", "Export", "export", "x"),
)
_BELOW = {
    "/replay": "/play",
    "/demos": "/play",
    "/ladder": "/evaluate",
    "/tune": "/runs",
}  # pages without an entry of their own
_LOG = logging.getLogger(__name__)
_REFRESH_S = 6.0
_FOUND = 9
_ENVS = 4  # places kept for environments, however many runs are found


class PageLayout:
    """Frame of one tab; gives pages the server context, facts about runs, and the breadcrumb."""

    def __init__(self, context: ServerContext, facts: Facts, addresses: set[str]) -> None:
        self.context, self.facts = context, facts
        self._nav = [entry for entry in NAV if entry[0] in addresses]
        self._dark = ui.dark_mode(app.storage.user.get("dark"))  # None: as the operating system prefers
        self._links: dict[str, list[ui.element]] = {href: [] for href, *_ in self._nav}
        self._palette = self._make_palette()
        raw("Skip to content", "sr", "a").props('href="#main"')
        with box("m-shell"):
            self._side()
            with box("m-main").props("id=main"):  # NiceGUI's page is a <main> already
                self._top()
                self.content = box("m-content")
        with box("m-tabbar", "nav").props('aria-label="Pages"'):
            for href, name, glyph, _ in self._nav:
                self._links[href].append(raw(icon(glyph) + name, "", "a").props(f'href="{href}"'))
        router = ui.context.client.sub_pages_router
        router.on_path_changed(self._mark)
        self._mark(router.current_path)
        ui.timer(_REFRESH_S, self._refresh)

    def title(self, *parts: str | tuple[str, str], state: str = "") -> None:
        """Set the breadcrumb: texts, or (text, href) for a link. The last part is the page's heading."""
        shown = [
            f'<a href="{escape(part[1])}">{escape(part[0])}</a>'
            if isinstance(part, tuple)
            else f'<span class="muted">{escape(part)}</span>'
            for part in parts[:-1]
        ]
        last = str(parts[-1])
        shown.append(f'<h1 class="clip">{escape(last)}</h1>')
        self._crumb.set_content('<span class="sep">/</span>'.join(shown) + (pill(state) if state else ""))
        ui.page_title(f"{last} · Mosaic")

    def _top(self) -> None:
        with box("m-top"):
            self._crumb = raw("", "m-crumb clip")
            label = f"{icon('search')}<span>Search or jump to…</span><kbd class=mac>⌘K</kbd><kbd class=pc>Ctrl K</kbd>"
            search = raw(label, "m-search", "button").props('type=button aria-label="Search or jump to"')
            search.on("click", self._open_palette, [])
            flip = button(glyph="sun", kind="ghost", label="Light or dark")
            flip.on("click", self._flip, js_handler="() => emit(document.body.classList.contains('body--dark'))")

    def _side(self) -> None:
        with box("m-side", "nav").props('aria-label="Main"'):
            raw(f"{LOGO}<span>Mosaic</span>", "m-brand")
            for href, name, glyph, key in self._nav:
                with box("m-nav", "a").props(f'href="{href}" data-key={key}') as link:
                    raw(icon(glyph), "row", "i")
                    raw(name, "", "span")
                    if href == "/runs":
                        self._running = raw("", "m-count", "span")
                    else:
                        raw(f"g {key}", "", "kbd").props("aria-hidden=true")
                self._links[href].append(link)
            self._machine = raw("", "m-side-foot")

    async def _refresh(self) -> None:
        running = await run.io_bound(self.facts.running)
        if running is None or self._running.is_deleted:  # the server is shutting down, or the tab is gone
            return
        set_html(self._running, f"{running} running" if running else "")
        machine = self.facts.machine()
        self._machine.set_content(
            f'<div class="row between"><span>CPU</span><span>{machine.cpu:.0f}%</span></div>{_bar(machine.cpu)}'
            f'<div class="row between"><span>Memory</span><span>{machine.used_gb:.1f} of {machine.memory_gb:.0f} GB'
            f"</span></div>{_bar(100 * machine.used_gb / machine.memory_gb)}<div>Mosaic {VERSION}</div>"
        )

    def _make_palette(self) -> ui.dialog:
        with ui.dialog() as dialog, box("m-panel m-palette").props('role=dialog aria-label="Search"'), box("m-body"):
            self._field = text_input(
                "Search pages, runs and environments", lambda _: self._fill_palette(), glyph="search"
            )
            self._field.props("autofocus").classes("fill")
            # The text is sent with the key: the last input event may not have arrived yet.
            self._field.on("keydown.enter", self._open_first, js_handler="(event) => emit(event.target.value)")
            self._results = box("stack gap-1")
        return dialog

    async def _open_palette(self) -> None:
        self._field.value = ""
        self._palette.open()
        await self._fill_palette()

    async def _entries(self, wanted: str) -> list[tuple[str, str, str, str]]:
        """Return the pages, runs and environments whose names have all words; the first catalog takes a moment."""
        pages = [(name, href, glyph, "page") for href, name, glyph, _ in self._nav]
        pages.append(("Tune: searches for good options", "/tune", "search", "page"))
        runs = [
            (f"{row.name or row.run_id} {row.env}", f"/runs/{quote(row.run_id)}", "runs", str(row.state))
            for row in self.facts.rows()
        ]
        envs = [
            (
                f"Train in {env_title(entry.id)} {entry.id}",
                f"/train?{urlencode({'env': entry.id})}",
                "train",
                "environment",
            )
            for entry in await run.io_bound(catalog) or ()
            if entry.installed
        ]
        words = wanted.lower().split()
        found = [
            [entry for entry in kind if all(word in entry[0].lower() for word in words)] for kind in (pages, runs, envs)
        ]
        room = _FOUND - min(_ENVS, len(found[2])) if words else _FOUND
        return [*(found[0] + found[1])[:room], *found[2]][:_FOUND]

    async def _fill_palette(self) -> None:
        found = await self._entries(self._field.value or "")
        self._results.clear()
        with self._results:
            for name, href, glyph, note in found:
                label = (
                    f'{icon(glyph)}<span class="clip" style="display:inline">{escape(name)}</span>'
                    f'<span class="faint small" style="margin-left:auto">{note}</span>'
                )
                link = raw(label, "m-nav", "a").on("click", self._palette.close, [])
                link.props["href"] = href
            if not found:
                raw("No results.", "m-note")

    async def _open_first(self, event: events.GenericEventArguments) -> None:
        found = await self._entries(str(event.args or ""))
        if found:
            self._palette.close()
            ui.navigate.to(found[0][1])

    def _flip(self, event: events.GenericEventArguments) -> None:
        self._dark.value = app.storage.user["dark"] = not event.args

    def _mark(self, path: str) -> None:
        path = path.partition("?")[0]
        for href, links in self._links.items():
            here = path == href or (href != "/" and path.startswith(href)) or _BELOW.get(path) == href
            for link in links:
                if here:
                    link.classes(add="on").props("aria-current=page")
                else:
                    link.classes(remove="on").props(remove="aria-current")


def _bar(share: float) -> str:
    return f'<div class="m-bar"><i style="width:{min(100.0, share):.0f}%"></i></div>'


class Pages(ui.sub_pages):
    """Sub pages with helpful texts for unknown addresses and errors, in place of NiceGUI's."""

    def _render_404(self) -> None:
        ui.page_title("Not found · Mosaic")
        problem(f"There is no page at {self._address}. Pages are listed beside this one; Ctrl+K finds runs too.")

    def _render_error(self, error: Exception) -> None:
        _LOG.error("The page %s failed", self._address, exc_info=error)
        problem(f"The page failed: {type(error).__name__}: {error}. The server's terminal says where; load it again.")

    @property
    def _address(self) -> str:
        return str(ui.context.client.sub_pages_router.current_path)
