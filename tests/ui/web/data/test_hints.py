"""Panels show their titles and hints as text, whatever a run, an env or an imported file is called."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from mosaic.ui.web.components import widgets


def test_markup_in_a_hint_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(widgets, "raw", lambda html, *_: drawn.append(html))
    monkeypatch.setattr(widgets, "box", lambda *_: nullcontext())
    with widgets.panel("<b>Agents</b>", hint="1 episode of <img src=x onerror=alert(1)>"):
        pass
    assert drawn == ["&lt;b&gt;Agents&lt;/b&gt;", "1 episode of &lt;img src=x onerror=alert(1)&gt;"]
