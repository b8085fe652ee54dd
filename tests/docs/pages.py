"""Pages of the documentation, their code blocks, and the commands in them.

A page has one form of code block: a fence of three backticks at the start of a line, followed by a language of
`LANGUAGES` and nothing else. Anything else is an error, so that no block escapes the tests.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "deploy")
ALL_PAGES = sorted([*ROOT.glob("*.md"), *(found for folder in FOLDERS for found in ROOT.glob(f"{folder}/**/*.md"))])
PAGES = [page for page in ALL_PAGES if "reference" not in page.parts and page.name != "CHANGELOG.md"]
COMMANDS = ("", "sh")
DATA = ("ini", "json", "toml", "yaml")
LANGUAGES = {*COMMANDS, *DATA, "python", "text"}
_FENCE = re.compile(r"[\s>]*(`{3,}|~{3,})")
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)


class Block(NamedTuple):
    """A code block: its language, its text, and the number of its first line in the page."""

    language: str
    text: str
    line: int


@cache
def script(name: str) -> dict[str, Any]:
    """Return the names that a file of scripts/ defines."""
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


def name_of(page: Path) -> str:
    """Return a page's path below docs/, or below the root where it is elsewhere."""
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def blocks(text: str, name: str) -> list[Block]:
    """Return the code blocks of a page; refuse a fence of any other form."""
    found, language, inside, start = [], "", None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if not _FENCE.match(line):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            language, inside, start = line.removeprefix("```"), [], number + 1
            if not line.startswith("```") or language not in LANGUAGES:
                known = ", ".join(sorted(LANGUAGES - {""}))
                raise ValueError(
                    f"{name}:{number}: {line!r} is not a fence of these tests: ``` and nothing, or {known}"
                )
        elif line == "```":
            found.append(Block(language, "".join(f"{each}\n" for each in inside), start))
            inside = None
        else:
            raise ValueError(f"{name}:{number}: {line!r} does not end the block of line {start}: ```")
    if inside is not None:
        raise ValueError(f"{name}: the block of line {start} does not end")
    return found


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """Return the code blocks of a page in these languages."""
    found = blocks(page.read_text(encoding="utf-8"), name_of(page))
    return [block for block in found if block.language in languages]


def commands(page: Path) -> list[str]:
    """Return the command lines of a page's code blocks, without comments; continued lines are joined."""
    return [line for block in blocks_of(page, *COMMANDS) for line in command_lines(block, name_of(page))]


def command_lines(block: Block, name: str) -> Iterator[str]:
    """Yield the command lines of one block; refuse a line that is not one of a shell."""
    for line in block.text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ValueError(f"{name}: the block of line {block.line} is not of commands: {line!r}: {error}") from error
        if words:
            yield shlex.join(words)


def inline_code(text: str) -> list[str]:
    """Return what is written in backticks outside code blocks, each on one line; escaped bars are those of tables."""
    lines, inside = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        lines.append("" if inside or _FENCE.match(line) else line)
    return [" ".join(code.split()).replace("\\|", "|") for _, code in _INLINE.findall("\n".join(lines))]
