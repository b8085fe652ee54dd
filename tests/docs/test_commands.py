"""Commands in the documentation: the command line accepts each of them, in blocks of code and within sentences."""

import re
import shlex
import tomllib
from importlib.util import find_spec
from typing import Any

import pytest
from typer import Exit
from typer.main import get_command

from mosaic.ui.cli.main import UsageError, app
from tests.docs.pages import (
    ALL_PAGES,
    DATA,
    LANGUAGES,
    PAGES,
    ROOT,
    Block,
    blocks,
    blocks_of,
    command_lines,
    commands,
    inline_code,
    name_of,
)

ROOT_COMMAND: Any = get_command(app)
NUMBERS = {"K", "N", "SECONDS"}  # what stands for a number of the reader's
MAKEFILE = (ROOT / "Makefile").read_text()
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in {".py", ".sh", ".mjs", ".toml"})
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def find_command(words):
    """Return the command that words begin with, its name, and the words after it."""
    command, name = ROOT_COMMAND, "mosaic"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, f"there is no command '{name}'"
        command = command.commands[name]
    return command, name, words


def parse(line):
    """Parse a command as the command line would, and carry nothing out."""
    command, name, words = find_command(shlex.split(line)[1:])
    command.make_context(name, words)


def parse_inline(code):
    """Parse a command within a sentence: it may leave out the rest with …, or what it needs, but names what exists."""
    words = ["1" if word in NUMBERS else word for word in shlex.split(re.sub(r"[\[\]]", "", code))[1:]]
    command, name, words = find_command(words)
    if "…" in code:
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = {word for word in words if word.startswith("--")} - known
        assert not unknown, f"'{name}' has no option {unknown}"
        return
    try:
        command.make_context(name, words)
    except Exit:  # of --help and --version
        pass
    except UsageError as error:
        if type(error).__name__ != "MissingParameter":
            raise


def check_program(code):
    """Look for what a command of another program names: targets of make, files, modules, extras."""
    words = shlex.split(code)
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        assert [each for each in targets if not re.search(rf"^{re.escape(each)}:", MAKEFILE, re.M)] == []
    elif words[:2] == ["python", "-m"]:
        assert find_spec(words[2]), f"there is no module {words[2]}"
    elif words[0] in ("python", "sh", "node"):
        program = ROOT / words[1]
        assert program.is_file(), f"there is no file {words[1]}"
        options = [word for word in words[2:] if word.startswith("--")]
        said = program.read_text() + (ROOT / "benchmarks" / "row_table.py").read_text()
        assert [each for each in options if f'"{each}"' not in said] == []
    elif words[0] in ("uvx", "pipx"):
        script, words = next((word, words[place + 1 :]) for place, word in enumerate(words) if "mosaic" in word)
        assert script in PROJECT["scripts"], f"the package has no command '{script}'"
        parse(shlex.join(["mosaic", *words]))
    elif words[:2] == ["pip", "install"]:
        asked = {extra for found in re.findall(r"\[([\w,-]+)\]", code) for extra in found.split(",")}
        assert sorted(asked - PROJECT["optional-dependencies"].keys()) == []


def commands_of_an_example(path):
    """Return the lines of its docstring and comments that are commands; continued lines are joined."""
    joined = re.sub(r"\\{1,2}\n\s*", " ", path.read_text())
    lines = (line.strip().lstrip("#/").strip() for line in joined.splitlines())
    told = [re.sub(r"^(?:[A-Z_]+=\S+\s+)+|\s{2,}#.*", "", line) for line in lines]
    return [line for line in told if line.startswith(("mosaic ", "python ", "sh ", "node examples/", "pip install "))]


def wrong(check, lines):
    found = {}
    for line in lines:
        try:
            check(line)
        except (UsageError, AssertionError) as error:
            found[line] = str(error)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_command_line_accepts_every_command(page):
    assert wrong(parse, [line for line in commands(page) if line.startswith("mosaic ")]) == {}
    named = inline_code(page.read_text())
    assert wrong(parse_inline, [code for code in named if code.startswith("mosaic ")]) == {}
    programs = ("make ", "python ", "pip install ", "uvx ", "pipx ")
    assert wrong(check_program, [code for code in (*named, *commands(page)) if code.startswith(programs)]) == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_examples_begin_with_are_accepted(path):
    """They are typed in the repository's root."""
    told = commands_of_an_example(path)
    files = re.findall(r"[\w./]+\.(?:py|sh|mjs)\b", " ".join(told))
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert wrong(parse, [line for line in told if line.startswith("mosaic ")]) == {}
    assert wrong(check_program, [line for line in told if not line.startswith("mosaic ")]) == {}


def test_commands_of_examples_are_found():
    found = [line for path in EXAMPLES for line in commands_of_an_example(path)]
    assert len(found) > 40
    assert "sh examples/policy_server/episode.sh http://127.0.0.1:8643" in found
    assert any(line.endswith("--set training.policies.slow.network.hidden='[16]'") for line in found)


def test_usages_have_one_pair_of_brackets_around_what_may_be_left_out():
    usages = re.findall(r"^Usage: (mosaic .+)$", (ROOT / "docs" / "reference" / "cli.md").read_text(), re.M)
    assert "mosaic train [OPTIONS] [ENV]" in usages
    assert [usage for usage in usages if "[[" in usage] == []


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(AssertionError, match="there is no command 'trian'"):
        parse("mosaic trian gym/CartPole-v1")
    with pytest.raises(UsageError):
        parse("mosaic train gym/CartPole-v1 --step 5")
    lines = [line for page in PAGES for line in commands(page) if line.startswith("mosaic ")]
    assert len(lines) > 200


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (parse_inline, "mosaic resume latest"),
        (parse_inline, "mosaic train ENV --step 5"),
        (parse_inline, "mosaic evaluate … --films FILE"),
        (parse_inline, "mosaic runs show RUN OTHER"),
        (check_program, "make tests"),
        (check_program, "python benchmarks/pp.py"),
        (check_program, "python benchmarks/ppo.py --fast"),
        (check_program, "python -m mosaic.supervisor"),
        (check_program, "pip install 'mosaic-rl[web,windows]'"),
        (check_program, "uvx mosaic-lr demo"),
        (check_program, "pipx run --spec WHEEL mosaic demos --all"),
    ],
)
def test_a_wrong_command_within_a_sentence_is_noticed(check, code):
    assert list(wrong(check, [code])) == [code]


def test_commands_within_sentences_are_found():
    assert inline_code("a `mosaic\nruns` | `x \\| y`\n```\n`no`\n```\n``b`c``") == ["mosaic runs", "x | y", "b`c"]
    found = [code for page in PAGES for code in inline_code(page.read_text()) if code.startswith("mosaic ")]
    assert len(found) > 150


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_every_fence_is_one_that_the_tests_read(page):
    blocks_of(page, *LANGUAGES)


@pytest.mark.parametrize(
    "text",
    ["```bash\n```\n", "```sh title=a\n```\n", "~~~\n~~~\n", " ```\n ```\n", "> ```\n> ```\n", "````\n````\n", "```\n"],
)
def test_a_fence_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match=r"page.md:1: .* is not a fence|the block of line 2 does not end"):
        blocks(text, "page.md")


def test_a_line_that_is_not_of_a_shell_is_refused():
    with pytest.raises(ValueError, match=r"page.md: the block of line 4 is not of commands: .*it's"):
        list(command_lines(Block("", "mosaic runs\nit's\n", 4), "page.md"))


def test_other_blocks_hold_no_commands():
    starts = ("$ ", "mosaic ", "make ", "pip ", "python ", "uvx ", "pipx ")
    lines = [line for page in PAGES for block in blocks_of(page, "text", *DATA) for line in block.text.splitlines()]
    assert [line for line in lines if line.strip().startswith(starts)] == []
    indented = [line for page in PAGES for line in page.read_text().splitlines() if line.startswith("    ")]
    inside = {line for page in PAGES for block in blocks_of(page, *LANGUAGES) for line in block.text.splitlines()}
    assert [line for line in indented if line.strip().startswith(starts) and line not in inside] == []
