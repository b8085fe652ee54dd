"""Icons: one stroke path each, drawn in the colour of the text beside them."""

from __future__ import annotations

_PATHS = {
    "home": "M3 10.5 12 3l9 7.5M5 9v11h5v-6h4v6h5V9",
    "train": "M13 2 4 14h7l-1 8 9-12h-7z",
    "runs": "M4 6h16M4 12h16M4 18h10",
    "play": "M7 4.5v15l12-7.5z",
    "evaluate": "M8 21h8M12 17v4M7 4h10v5a5 5 0 0 1-10 0zM7 6H4a3 3 0 0 0 3 4M17 6h3a3 3 0 0 1-3 4",
    "export": "M12 3v12m0 0 5-5m-5 5-5-5M4 17v3h16v-3",
    "search": "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
    "sun": (
        "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2"
        "M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4"
    ),
    "pause": "M8 5v14M16 5v14",
    "stop": "M6 6h12v12H6z",
    "step": "M6 5v14l9-7zM18.5 5v14",
    "restart": "M4 4v5h5M4.6 13a8 8 0 1 0 1.6-6.2L4 9",
    "record": "M12 18a6 6 0 1 0 0-12 6 6 0 0 0 0 12z",
    "check": "M5 12.5 10 17.5 19.5 7",
    "alert": "M12 4 2.5 20h19zM12 10v4.5M12 17.4v.1",
    "info": "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5.5M12 7.6v.1",
    "x": "M6 6l12 12M18 6 6 18",
    "trash": "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
    "copy": "M9 9h11v11H9zM5 15H4V4h11v1",
    "save": "M5 4h11l3 3v13H5zM8 4v5h7V4M8 20v-6h8v6",
    "undo": "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
    "flip": "M7 20V5M7 5 3.5 8.5M7 5l3.5 3.5M17 4v15M17 19l3.5-3.5M17 19l-3.5-3.5",
    "swap": "M7 4 3 8l4 4M3 8h18M17 12l4 4-4 4M21 16H3",
    "user": "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5c.8-4 3.8-6 7.5-6s6.7 2 7.5 6",
    "hand": (
        "M8 12V5.500a1.5 1.5 0 0 1 3 0V11m0-1V4.500a1.5 1.5 0 0 1 3 0V11m0-4.500a1.5 1.5 0 0 1 3 0V14c0"
        " 4-2.5 7-6 7-3 0-4.5-1.5-6-4l-2-3.500a1.4 1.4 0 0 1 2.3-1.500L8 14"
    ),
    "arrow": "M5 12h14M13 6l6 6-6 6",
    "right": "M9 5l7 7-7 7",
    "reset": "M4 5v5h5M5 10a7.5 7.5 0 1 1-.5 4",
    "bolt": "M13 2 5 13h6l-1 9 8-11h-6z",
    "link": "M10 14a4 4 0 0 0 5.7 0l3-3a4 4 0 0 0-5.7-5.700l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.700l1-1",
    "plus": "M12 5v14M5 12h14",
    "folder": "M3 6h6l2 2.500h10V19H3z",
    "file": "M6 3h8l4 4v14H6zM14 3v4h4",
    "branch": "M6 4v10M6 20a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM18 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM18 10c0 4-4 5-9 6",
    "pin": "M9 4h6l-1 6 4 4H6l4-4zM12 14v6",
    "more": "M5 12h.01M12 12h.01M19 12h.01",
    "speed": "M4 18a9 9 0 1 1 16 0M12 15l4-6",
}


def icon(name: str, extra: str = "") -> str:
    """Return inline SVG, hidden from screen readers, as the text beside it says the same."""
    return f'<svg class="i {extra}" viewBox="0 0 24 24" aria-hidden="true"><path d="{_PATHS[name]}"/></svg>'


LOGO = (
    '<svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true"><g fill="currentColor">'
    '<rect x="0" y="0" width="9" height="9" rx="2" opacity=".9"/>'
    '<rect x="11" y="0" width="9" height="9" rx="2" opacity=".35"/>'
    '<rect x="0" y="11" width="9" height="9" rx="2" opacity=".35"/></g>'
    '<rect x="11" y="11" width="9" height="9" rx="2" fill="var(--accent)"/></svg>'
)
CHEVRON = (
    "M6 9l6 6 6-6@@fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round"  # Quasar's syntax for a path
)
