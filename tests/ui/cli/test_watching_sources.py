"""The choice between sources of a run's pictures on the command line."""

from types import SimpleNamespace

import pytest

from mosaic.core.errors import InputError
from mosaic.ui.cli.commands.watch import _source, sources_note


def run_with(sources, env_steps=10):
    return SimpleNamespace(id="walk", show=lambda: SimpleNamespace(sources=sources, env_steps=env_steps))


def test_a_source_is_taken_by_its_name_or_number():
    two = run_with(("env-runner-1", "env-runner-2"))
    assert [_source(two, asked) for asked in ("2", "env runner 2", "evaluation")] == [
        "env-runner-2",
        "env-runner-2",
        "evaluation",
    ]
    assert _source(run_with((), env_steps=None), "2") == "env-runner-2"  # a run that has just begun


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ((), "The run walk has one source of pictures, or none, not '3'. Leave --source out."),
        (("env-runner-1",), "There is no source of pictures named '3'. Did you mean"),
    ],
)
def test_a_source_that_is_not_there_is_refused(sources, text):
    with pytest.raises(InputError) as caught:
        _source(run_with(sources), "3")
    assert text.partition(" Did you")[0] in str(caught.value)


def test_the_view_names_the_sources():
    assert sources_note((), None) == ""
    assert sources_note(("env-runner-1", "env-runner-2"), None) == (
        "Pictures: env-runner-1, env-runner-2, evaluation. Shown: whichever is active. Another: --source NAME."
    )
    assert "Shown: evaluation." in sources_note(("env-runner-1", "evaluation"), "evaluation")
