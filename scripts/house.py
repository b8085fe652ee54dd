"""Figures of the source tree and their targets: sizes of files and folders, names, docstrings, types, wording.

python scripts/house.py              # the table
python scripts/house.py --worst      # and the places behind each figure
python scripts/house.py --check      # exit code 1 where a target is missed
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mosaic"
SHORT = 60  # lines
RIDDLE = re.compile(r"(How|What|Which|Who|Whether|Where|When|Why)\b")
PHRASES = {
    "bit by bit": r"bit by bit",
    "is no X": r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b)\w+",
    "made anew": r"\banew\b",
    "go on": r"\b(?:go|goes|going|went|gone) on\b(?! (?:the|a|an)\b)",
    "stands twice": r"\bstands? twice\b",
    "so many": r"\bso many\b",
    "answers": r"\b(?:that|it|which|who|whoever|and|env|policy|server|nothing|what) answers?\b",
    "of one age": r"\bof one age\b",
    "whoever, somebody, nobody": r"\b(?:whoever|somebody|nobody|everybody)\b",
}
DOCUMENTS = (  # beside the pages of docs/, which the tests read one by one
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/decisions/*.md",
    "benchmarks/**/*.md",
    "benchmarks/**/*.py",
    "examples/**/*.py",
    "src/mosaic/ui/web/static/*.js",
)
_FIELDS = ("dataclass",)  # decorators that make annotations of a class its attributes
_KERNELS = ("njit", "jit", "vectorize", "guvectorize", "cfunc", "overload", "intrinsic")


@dataclass(frozen=True)
class Source:
    """One module; it is parsed when a figure needs it."""

    path: Path
    name: str  # dotted
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def docstring(self) -> str:
        """First string of the module: nothing but comments precedes a docstring."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        first = next(token for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL))
        return ast.literal_eval(first.string) if first.type == tokenize.STRING else ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table, and the places to look at to improve it."""

    what: str
    value: float
    low: float
    high: float
    target: str
    unit: str = ""
    places: Sequence[str] = ()

    @property
    def met(self) -> bool:
        return self.low <= self.value <= self.high


def at_most(what: str, value: float, limit: float, unit: str = "", places: Sequence[str] = ()) -> Figure:
    return Figure(what, value, 0, limit, f"≤ {limit:g}{unit}" if limit else "0", unit, places)


def read_sources(package: Path) -> list[Source]:
    """Read all modules of a package except empty `__init__.py` files."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Source(path, name, text))
    return found


def measure(package: Path) -> list[Figure]:
    """Return all rows of the table."""
    sources = read_sources(package)
    modules = [source for source in sources if source.path.name != "__init__.py"]  # a folder has one, whatever it says
    files, total = len(modules), sum(source.lines for source in sources)
    short = [source for source in modules if source.lines < SHORT]
    folders = Counter(source.path.parent for source in modules)
    largest = [f"{count} {folder.relative_to(package.parent)}" for folder, count in folders.most_common(8)]
    lonely = [source for source in neighbours_only(sources) if source in modules]
    homonyms = names_used_twice(sources)
    riddles = [source for source in sources if RIDDLE.match(source.docstring)]
    puzzles = [place for source in sources for place in riddles_inside(source)]
    untyped = [(len(re.findall(r"^.*\bAny\b", source.text, re.M)), source.name) for source in sources]
    lines = median(source.lines for source in modules)
    attributes = sorted(class_attributes(sources), reverse=True)
    parameters = sorted(function_parameters(sources), reverse=True)
    figures = [
        at_most("files", files, 830),
        Figure("median lines per file", lines, 95, 150, "95–150"),
        at_most("files under 60 lines", percent(len(short), files), 22, " %", names(short)),
        at_most("files per folder, median", median(folders.values()), 6),
        at_most("files per folder, most", max(folders.values()), 20, places=largest),
        at_most("files whose only importer is a neighbour", percent(len(lonely), files), 12, " %", names(lonely)),
        at_most("class names used for more than one thing", len(homonyms), 5, places=homonyms),
        at_most(
            "module docstrings that start with a question word",
            percent(len(riddles), len(sources)),
            0,
            " %",
            names(riddles),
        ),
        at_most("docstrings of classes and functions that start with one", len(puzzles), 0, places=puzzles),
        at_most("lines with Any, per 1,000", 1000 * sum(n for n, _ in untyped) / total, 12, places=top(untyped)),
        at_most("attributes of a class, most", attributes[0][0], 15, places=top(attributes, 15)),
        at_most("parameters of a function, most", parameters[0][0], 8, places=top(parameters, 8)),
    ]
    return figures + wording(sources)


def riddles_inside(source: Source) -> list[str]:
    """Find the classes, functions and properties whose docstring starts with a question word."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = (node for node in ast.walk(source.tree) if isinstance(node, kinds))
    return [f"{source.name}.{node.name}" for node in defined if RIDDLE.match(ast.get_docstring(node) or "")]


def neighbours_only(sources: Sequence[Source]) -> list[Source]:
    """Find modules that are imported by exactly one module, which lies in the same folder."""
    by_name = {source.name: source for source in sources}
    importers: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for name in imported(source):
            target = name if name in by_name else name.rpartition(".")[0]
            if target in by_name and target != source.name:
                importers[target].add(source.name)
    alone = ((source, importers[source.name]) for source in sources if len(importers[source.name]) == 1)
    return [source for source, (by,) in alone if by_name[by].path.parent == source.path.parent]


def imported(source: Source) -> Iterator[str]:
    """Yield the dotted names that a module imports, also inside functions."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names_used_twice(sources: Sequence[Source]) -> list[str]:
    """Find public class names that several modules define."""
    homes: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(source.name)
    return [f"{name}: {', '.join(modules)}" for name, modules in sorted(homes.items()) if len(modules) > 1]


def class_attributes(sources: Iterable[Source]) -> Iterator[tuple[int, str]]:
    """Count what methods assign to `self`, and the fields of dataclasses; settings of pydantic models do not count."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                found = {
                    target.attr
                    for target in ast.walk(node)
                    if isinstance(target, ast.Attribute)
                    and isinstance(target.ctx, ast.Store)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                }
                if any(word in ast.unparse(decorator) for decorator in node.decorator_list for word in _FIELDS):
                    found |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
                yield len(found), f"{source.name}.{node.name}"


def function_parameters(sources: Iterable[Source]) -> Iterator[tuple[int, str]]:
    """Count parameters without self and cls, except of numba kernels and of commands, whose parameters are options."""
    for source in sources:
        if ".ui.cli.commands" in source.name:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_kernel(node):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in arguments)
                yield count, f"{source.name}.{node.name}"


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    words = {word for decorator in node.decorator_list for word in re.findall(r"\w+", ast.unparse(decorator))}
    return bool(words & set(_KERNELS))


def phrases_in_documents(root: Path) -> dict[str, int]:
    """Count the phrases to replace in each document, even where a line ends inside them."""
    found: dict[str, int] = {}
    for path in sorted(path for pattern in DOCUMENTS for path in root.glob(pattern)):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for phrase, pattern in PHRASES.items():
            if count := len(re.findall(pattern, text, re.I)):
                found[f"{path.relative_to(root)}: {phrase}"] = count
    return found


def wording(sources: Sequence[Source]) -> list[Figure]:
    """Count the phrases to replace in comments, docstrings and messages."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for source in sources:
        suspect = any(re.search(pattern, source.text, re.I) for pattern in PHRASES.values())
        text = prose(source.text) if suspect else ""
        for phrase, pattern in PHRASES.items():
            found[phrase].append((len(re.findall(pattern, text, re.I)), source.name))
    return [at_most(f'"{phrase}"', sum(n for n, _ in rows), 0, places=top(rows)) for phrase, rows in found.items()]


def prose(code: str) -> str:
    """Return the comments and strings of a module."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return "\n".join(
        token.string for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type in kinds
    )


def percent(part: int, whole: int) -> float:
    return 100 * part / whole


def names(sources: Iterable[Source]) -> list[str]:
    return [source.name for source in sources]


def top(rows: Iterable[tuple[int, str]], above: int = 0) -> list[str]:
    return [f"{count} {name}" for count, name in sorted(rows, reverse=True) if count > above]


def show(figures: Sequence[Figure], worst: int, write: Callable[[str], object] = print) -> None:
    width = max(len(figure.what) for figure in figures)
    for figure in figures:
        value = f"{figure.value:.0f}{figure.unit}"
        write(f"{figure.what:{width}}  {value:>7}   {figure.target:>8}   {'' if figure.met else 'missed'}".rstrip())
        for place in figure.places[:worst]:
            write(f"    {place}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--worst", nargs="?", type=int, const=10, default=0, help="places to name for each figure")
    asked = parser.parse_args(arguments)
    figures = measure(asked.package)
    if asked.package == PACKAGE:
        phrases = phrases_in_documents(ROOT)
        figures.append(at_most("phrases to replace in documents", sum(phrases.values()), 0, places=list(phrases)))
    try:
        show(figures, asked.worst)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has all it wants; Python flushes once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(asked.check and not all(figure.met for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
