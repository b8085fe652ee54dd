"""Every tab in two sizes, beside its stored SVG picture.

To renew pictures, delete them (`rm tests/ui/tui/screens/home-*.svg`), run this file, and look at what it wrote.
"""

import re
from collections import defaultdict
from difflib import unified_diff
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mosaic.ui.tui.app import TABS
from tests.ui.tui.test_tui_app import app_on, text, until

SCREENS = Path(__file__).parent / "screens"
SIZES = [(80, 24), (140, 42)]
WORDS = {  # what each tab shows once it has read everything
    "home": ("demo", "cart", "CPU", "optional"),
    "train": ("duel-v0", "✓ native ppo", "Environment to train in"),
    "metrics": ("Return", "30k", "1 running"),
    "play": ("agent_10", "chess_v6"),
    "export": ("policy_10", "lake-1", "equal"),
    "runs": ("broken", "1 checkpoint"),
}
WIDE_WORDS = {"metrics": ("Episode length", "Loss")}  # further ones where there is room
_CELL, _LINE = 12.2, 24.4  # of the picture, in its own units


def svg(app):
    """Return the screen as SVG whose names and lines stay the same where the screen does."""
    found = re.sub(r"terminal-\d+-", "terminal-", app.export_screenshot(simplify=True))
    found = re.sub(r"<text [^>]*>\n</text>", "", found)  # ends of lines
    found = re.sub(r"(</text>|/>)(?=<)", r"\1\n", found)
    return re.sub(r"[ \t]+$", "", found, flags=re.MULTILINE)


def cells(picture):
    """Return the rows of a picture; each cell is a character with its style."""
    root = ElementTree.fromstring(picture)
    styles = dict(re.findall(r"\.terminal-(r\d+) \{ (.*?) \}", picture))
    texts = [each for each in root.iter() if each.tag.endswith("}text") and each.get("clip-path")]
    grounds = [each for each in root.iter() if each.tag.endswith("}rect") and each.get("shape-rendering")]
    rows = defaultdict(lambda: defaultdict(lambda: [" ", "", ""]))
    for each in grounds:
        row, start = round((float(each.get("y")) - 1.5) / _LINE), round(float(each.get("x")) / _CELL)
        for column in range(start, start + round(float(each.get("width")) / _CELL)):
            rows[row][column][2] = f" on {each.get('fill')}"
    for each in texts:
        row = int(each.get("clip-path").rpartition("-")[2][:-1])
        start, style = round(float(each.get("x")) / _CELL), styles[each.get("class").removeprefix("terminal-")]
        for column, letter in enumerate(each.text, start):
            rows[row][column][:2] = letter.replace("\xa0", " "), style
    return [
        [tuple(rows[row][column]) for column in range(max(rows[row], default=0) + 1)] for row in range(max(rows) + 1)
    ]


def difference(stored, found):
    """Return what differs between two pictures: characters first, then styles of equal rows."""
    before, now = cells(stored), cells(found)
    words = [["".join(cell[0] for cell in row).rstrip() for row in each] for each in (before, now)]
    lines = list(unified_diff(*words, "stored", "found", lineterm="", n=0))
    for number, (old, new) in enumerate(zip(before, now, strict=False)):
        if words[0][number] != words[1][number]:
            continue
        changes = [(a[1:], b[1:]) if a[1:] != b[1:] else None for a, b in zip(old, new, strict=False)]
        for change, part in groupby(range(len(changes)), key=lambda column: changes[column]):
            if change is not None:
                where = "".join(new[column][0] for column in part)
                lines.append(f"line {number + 1}, {where!r}: was {''.join(change[0])}, is {''.join(change[1])}")
    return lines


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.NAME)
async def test_screen(tab, size, tmp_path):
    app = app_on()
    async with app.run_test(size=size) as pilot:
        await pilot.press(tab.DIGIT)
        wide = WIDE_WORDS.get(tab.NAME, ()) if size == SIZES[-1] else ()
        await until(pilot, "palette", *WORDS[tab.NAME], *wide)
        found, shown = svg(app), text(app)
    assert all(len(row) <= size[0] for row in shown.splitlines())
    file = SCREENS / f"{tab.NAME}-{size[0]}x{size[1]}.svg"
    if not file.exists():
        file.write_text(found)
        pytest.fail(f"{file} was missing and is written now: look at it.")
    changed = difference(file.read_text(), found)
    if changed:
        new = tmp_path / file.name
        new.write_text(found)
        listed = "\n".join(changed)
        pytest.fail(f"{file.name} looks different. If it should, delete the stored file; see {new}\n{listed}")


def test_every_stored_picture_belongs_to_a_tab():
    assert {file.stem.rpartition("-")[0] for file in SCREENS.iterdir()} == {tab.NAME for tab in TABS}


@pytest.mark.asyncio
async def test_a_difference_names_characters_and_styles():
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "palette", *WORDS["home"])
        one = svg(app)
        app.say("Saved.", "done")
        await until(pilot, "Saved.")
        other = svg(app)
    assert difference(one, one) == []
    assert "+ ✓ Saved." in difference(one, other)
    colour = next(style for _, style, _ in cells(one)[0] if style)
    assert any(
        "' Mosaic '" in line and "#abcdef" in line for line in difference(one, one.replace(colour, "fill: #abcdef"))
    )
