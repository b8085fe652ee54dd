"""MkDocs hook: files of the repository that pages link to become pages of the site.

A link to a file outside of docs/ leads to a page below `source/` that shows it; a link to a folder leads to a list of
its files. A link to a Python file may name a class, function or test, as in `algorithm.py#PpoLearner.iterate`: it leads
to its line.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS, SOURCE = "docs/", "source/"
LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)
LINE_ANCHOR = re.compile(r'(?:id|name)="(__codelineno-\d+-\d+)"')
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"  # a search finds pages, not each file that uses the word
SEARCH_BOOSTS = {"reference": 2.0, "decisions": 0.5}  # what a search lists first and last
LANGUAGES = {
    ".py": "python",
    ".sh": "sh",
    ".mjs": "js",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".ipynb": "",
    ".gd": "gdscript",
    ".md": "",
}


def on_files(files: Files, config: Any) -> Files:
    """Add a page for all that pages link to and that is not a page of docs/, directly or through such a page."""
    waiting = [target for file in list(files) if file.is_documentation_page() for target in shown(DOCS + file.src_uri)]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            files.append(File.generated(config, page_of(path), content=content(path)))
            waiting += shown(path)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    folder = page.file.src_uri.partition("/")[0]
    if folder in SEARCH_BOOSTS:
        page.meta["search"] = {"boost": SEARCH_BOOSTS[folder]}
    return rewrite(markdown, path_of(page.file.src_uri))


def on_page_content(html: str, page: Any, config: Any, files: Files) -> None:
    """Name the anchors of code lines, which MkDocs does not see, so that links to them can be checked."""
    page.present_anchor_ids = {*(page.present_anchor_ids or ()), *LINE_ANCHOR.findall(html)}


def page_of(path: str) -> str:
    """Return the page that shows a file or folder of the repository, below docs/."""
    if (ROOT / path).is_dir():
        path = f"{path}/index.md"
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return SOURCE + (path if path.endswith(".md") else f"{path}.md")


def path_of(page: str) -> str:
    """Return the file or folder of the repository that a page shows."""
    path = page.removeprefix(SOURCE) if page.startswith(SOURCE) else DOCS + page
    candidates = (path, path.removesuffix(".md"), path.removesuffix("/index.md"))
    return next(each for each in candidates if (ROOT / each).exists())


def content(path: str) -> str:
    if (ROOT / path).is_dir():
        names = sorted(each.name for each in (ROOT / path).iterdir() if each.suffix in LANGUAGES)
        return "\n".join([f"# {path}", "", *(f"- [{name}]({name})" for name in names)])
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return notebook(text)
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f'{NOT_SEARCHED}# {path}\n\n````{language} linenums="1"\n{text}\n````\n'


def notebook(text: str) -> str:
    """Return the cells of a notebook as Markdown."""
    cells = ((cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"])
    return "\n\n".join(source if kind == "markdown" else f"````python\n{source}\n````" for kind, source in cells)


def shown(path: str) -> Iterator[str]:
    """Yield the folders, and the files outside of docs/, that a page of a Markdown file or folder links to."""
    if path.endswith(".md") or (ROOT / path).is_dir():
        for match in LINK.finditer(FENCE.sub("", content(path))):
            target = resolved(path, match[2])
            if (ROOT / target).is_dir() or ((ROOT / target).is_file() and not target.startswith(DOCS)):
                yield target


def resolved(path: str, link: str) -> str:
    folder = path if (ROOT / path).is_dir() else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(folder, link))


def rewrite(markdown: str, path: str) -> str:
    """Make relative links of a page lead to pages of the site."""
    here = posixpath.dirname(page_of(path))

    def replace(match: re.Match[str]) -> str:
        target, fragment = resolved(path, match[2]), match[3] or ""
        if not (ROOT / target).exists():
            return match[0]
        if target.endswith(".py") and fragment:
            fragment = f"#__codelineno-0-{line_of(ROOT / target, fragment.removeprefix('#'))}"
        page = target.removeprefix(DOCS) if target.startswith(DOCS) and (ROOT / target).is_file() else page_of(target)
        return f"{match[1]}{posixpath.relpath(page, here)}{fragment}{match[4]}"

    parts, last = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(replace, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, LINK.sub(replace, markdown[last:])])


def line_of(file: Path, symbol: str) -> int:
    """Return the line of a class, function, method or constant, named as `Class.method`."""
    scope: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    line = 0
    for name in symbol.split("."):
        found = next((node for node in scope if name in names_of(node)), None)
        if found is None:
            raise ValueError(f"{file.relative_to(ROOT)} has no '{symbol}'.")
        scope, line = getattr(found, "body", []), found.lineno
    return line


def names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
