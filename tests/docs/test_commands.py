"""Commands in the documentation: the command line accepts each of them."""

import shlex

import pytest
from typer.main import get_command

from mosaic.ui.cli.main import UsageError, app
from tests.docs.pages import PAGES, ROOT, commands

ROOT_COMMAND = get_command(app)


def parse(line):
    """Parse a command as the command line would, and carry nothing out."""
    words = shlex.split(line)[1:]
    command, name = ROOT_COMMAND, "mosaic"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        assert name in command.commands, f"there is no command '{name}'"
        command = command.commands[name]
    command.make_context(name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_command_line_accepts_every_command(page):
    wrong = {}
    for line in commands(page):
        if line.startswith("mosaic "):
            try:
                parse(line)
            except (UsageError, AssertionError) as error:
                wrong[line] = str(error)
    assert wrong == {}


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(AssertionError, match="there is no command 'trian'"):
        parse("mosaic trian gym/CartPole-v1")
    with pytest.raises(UsageError):
        parse("mosaic train gym/CartPole-v1 --step 5")
    lines = [line for page in PAGES for line in commands(page) if line.startswith("mosaic ")]
    assert len(lines) > 200
