"""The script that measures the source tree, on a small tree whose figures are known."""

import re
import runpy
from pathlib import Path

import pytest

HOUSE = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "house.py"))
ROOT = HOUSE["ROOT"]
DECISIONS = ROOT / "docs" / "decisions"  # they quote
DOCUMENTS = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("deploy/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
    if page.name != "CHANGELOG.md" and page.parent != DECISIONS
)

LONG = "\n".join(["x = 1"] * 100) + "\n"
FILES = {
    "__init__.py": "",
    "a/one.py": '"""How it is made anew."""\nfrom pkg.a.two import Thing\nimport pkg.b.three\n' + LONG,
    "a/two.py": '"""Noun phrase."""\nclass Thing:\n    def __init__(self):\n        self.x = self.y = self.z = 0\n'
    + LONG,
    "b/three.py": "from typing import Any\n# there is no file, but this is no joke\nclass Thing:\n    pass\n",
    "b/four.py": "@njit\ndef kernel(a, b, c): ...\ndef plain(a, *, b): ...\nclass C:\n    def f(self, a): ...\n" + LONG,
}


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "pkg"


def test_every_figure_of_a_known_tree(package):
    figures = {figure.what: figure for figure in HOUSE["measure"](package)}
    values = {what: figure.value for what, figure in figures.items() if figure.value}
    total = sum(text.count("\n") for text in FILES.values())
    assert values == {
        "files": 4,
        "median lines per file": 103.5,
        "files under 60 lines": 25,  # three.py
        "files per folder, median": 2,
        "files per folder, most": 2,
        "files whose only importer is a neighbour": 25,  # two.py
        "class names used for more than one thing": 1,
        "module docstrings that start with a question word": 25,
        "lines with Any, per 1,000": pytest.approx(1000 / total),
        "attributes of a class, most": 3,
        "parameters of a function, most": 2,  # the kernel's three do not count
        '"made anew"': 1,
        '"is no X"': 1,  # "there is no file" is plain English
    }
    assert figures["class names used for more than one thing"].places == ["Thing: pkg.a.two, pkg.b.three"]


def test_check_fails_where_a_target_is_missed(package, capsys):
    assert HOUSE["main"]([str(package)]) == 0
    assert HOUSE["main"]([str(package), "--check", "--worst"]) == 1
    assert "pkg.a.one" in capsys.readouterr().out
    (package / "a" / "one.py").write_text('"""Noun phrase."""\nfrom pkg.a.two import Thing\n' + LONG)
    (package / "b" / "five.py").write_text('"""Noun phrase."""\nfrom pkg.a.two import Thing\n' + LONG)
    (package / "b" / "three.py").unlink()
    assert HOUSE["main"]([str(package), "--check"]) == 0, capsys.readouterr().out


def test_the_wording_of_the_source_tree():
    sources = HOUSE["read_sources"](HOUSE["ROOT"] / "src" / "mosaic")
    assert [source.name for source in sources if HOUSE["RIDDLE"].match(source.docstring)] == []
    figures = HOUSE["wording"](sources)
    assert len(figures) == len(HOUSE["PHRASES"])
    assert {figure.what: figure.places for figure in figures if figure.value} == {}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_wording_of_the_documents(page):
    text = page.read_text(encoding="utf-8")
    found = {phrase: re.findall(pattern, text, re.I) for phrase, pattern in HOUSE["PHRASES"].items()}
    assert {phrase: words for phrase, words in found.items() if words} == {}
    assert re.findall(r"[^\s|]  +[^\s|#]+", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)) == []


def test_pages_in_folders_are_among_the_documents():
    names = {str(page.relative_to(ROOT)) for page in DOCUMENTS}
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md", "docs/learners/ppo.md"} <= names
    assert {"docs/migrating/sb3.md", "docs/reference/settings.md"} <= names


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_follows_a_block_is_a_sentence_of_its_own(page):
    """No sentence has the commands above it as its subject."""
    lines, inside = page.read_text(encoding="utf-8").splitlines(), False
    after = []
    for number, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside
            after += [] if inside else [next((text for text in lines[number + 1 :] if text), "")]
    assert [text for text in after if text[:1].islower()] == []


def test_no_docstring_and_no_other_document_is_worded_as_a_riddle(tmp_path):
    sources = HOUSE["read_sources"](HOUSE["PACKAGE"])
    assert [place for source in sources for place in HOUSE["riddles_inside"](source)] == []
    assert HOUSE["phrases_in_documents"](HOUSE["ROOT"]) == {}
    (tmp_path / "README.md").write_text("It goes\non, although nobody knows why.\n")
    assert list(HOUSE["phrases_in_documents"](tmp_path)) == ["README.md: go on", "README.md: whoever, somebody, nobody"]
    (tmp_path / "one.py").write_text(
        'class C:\n    """What it is."""\n    def f(self):\n        """Whether it is."""\n'
    )
    (source,) = HOUSE["read_sources"](tmp_path)
    assert HOUSE["riddles_inside"](source) == [f"{tmp_path.name}.one.C", f"{tmp_path.name}.one.f"]


def test_helper_modules_of_tests_have_unique_names():
    """A name that several folders use says nothing in an import, and finds the wrong file in a search."""
    tests = HOUSE["ROOT"] / "tests"
    homes: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("*.py")):
        if path.name not in ("__init__.py", "conftest.py") and not path.name.startswith("test_"):
            homes.setdefault(path.name, []).append(str(path.relative_to(tests)))
    assert [paths for paths in homes.values() if len(paths) > 1] == []
