"""Pages of the documentation, their code blocks, and the commands in them."""

from __future__ import annotations

import re
import runpy
import shlex
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "deploy")
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(found for folder in FOLDERS for found in ROOT.glob(f"{folder}/**/*.md"))]
    if "reference" not in page.parts
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


@cache
def script(name: str) -> dict[str, Any]:
    """Return the names that a file of scripts/ defines."""
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


def commands(page: Path) -> list[str]:
    """Return the command lines of a page's code blocks, without comments; continued lines are joined."""
    found = []
    for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in ("", "sh"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [shlex.join(words) for line in lines if (words := _words(line))]
    return found


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # not a line of a shell: an example of another program's output
        return []
