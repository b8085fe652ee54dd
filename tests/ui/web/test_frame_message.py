"""Frame messages in a real browser: the script reads what Python packs."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.pictures.message import VERSION, pack
from tests.ui.web.web_kit import Tab

pytestmark = pytest.mark.slow
READ = """async (text) => {
  const { drawPicture, readFrame } = await import("/static/frame_message.js");
  const { facts, picture } = readFrame(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  if (!picture) return { facts, pixels: null };
  const canvas = await drawPicture(picture, () => document.createElement("canvas"));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return { facts, type: picture.type, pixels: [...data].filter((_, i) => i % 4 < 3) };
}"""


def read(tab: Tab, message: bytes) -> dict[str, Any]:
    found: dict[str, Any] = tab.page.evaluate(READ, base64.b64encode(message).decode())
    return found


@pytest.mark.chosen
def test_the_page_reads_what_the_server_packs(tab: Tab) -> None:
    tab.open("/")
    drawing = np.random.default_rng(0).integers(0, 2, (9, 14, 3), np.uint8) * 200
    found = read(tab, pack("live", Frame(5, drawing, 7, 2, 3, "red=1.5, blåu=−2", 12.5, float("nan"), -0.5)))
    assert found["pixels"] == drawing.ravel().tolist()
    assert found["type"] == "image/webp"
    assert found["facts"] == {
        "state": "live",
        "format": "webp",
        "number": 5,
        "step": 7,
        "episode": 2,
        "env": 3,
        "agent": "red=1.5, blåu=−2",
        "wall_time": 12.5,
        "reward": None,
        "return": -0.5,
        "width": 14,
        "height": 9,
    }
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    found = read(tab, pack("live", Frame(6, noise, 0, 0, 0, "", 0.0, 0.0, 0.0)))
    assert (found["type"], len(found["pixels"])) == ("image/jpeg", noise.size)
    assert read(tab, pack("stalled")) == {"facts": {"state": "stalled"}, "pixels": None}
    tab.check()


def test_the_page_refuses_another_version(tab: Tab) -> None:
    tab.open("/")
    with pytest.raises(Exception, match=rf"of version 9; this page reads version {VERSION}\. Reload the page"):
        read(tab, b"\x09" + pack("live")[1:])
