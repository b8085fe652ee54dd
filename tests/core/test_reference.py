"""The grammar of policy and wrapper references."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.reference import Options, parse_options, split_reference


class Engine(Options):
    path: str = "stockfish"
    depth: int | None = Field(None, ge=1)
    elo: int | None = None


def parse(reference, first=None):
    return parse_options(reference, split_reference(reference)[1], Engine, first)


def test_options_are_typed():
    assert parse("e:depth=3,elo=1500") == Engine(depth=3, elo=1500)


def test_a_leading_path_needs_no_name():
    assert parse("e:/usr/games/a=b,depth=2", first="path") == Engine(path="/usr/games/a=b", depth=2)
    assert parse("e:depth=2,path=x", first="path") == Engine(path="x", depth=2)


def test_a_leading_path_may_contain_commas():
    assert parse("e:/runs/lr=0.1,1/a,b", first="path") == Engine(path="/runs/lr=0.1,1/a,b")
    assert parse("e:saved,1,depth=2,elo=3", first="path") == Engine(path="saved,1", depth=2, elo=3)
    with pytest.raises(InputError, match=r"there is no option 'dept'\. Did you mean 'depth'"):
        parse("e:saved,1,dept=2", first="path")
    with pytest.raises(InputError, match="'x' in 'e:elo=1,x' is not KEY=VALUE"):
        parse("e:elo=1,x", first="path")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("e:dept=3", "'e:dept=3': there is no option 'dept'. Did you mean 'depth'? Options: path, depth, elo."),
        ("e:depth=0", "'e:depth=0': depth: it should be at least 1 (got '0')."),
        ("e:depth=many", "'e:depth=many': depth: it should be a whole number (got 'many')."),
        ("e:depth", "'depth' in 'e:depth' is not KEY=VALUE. Options: path, depth, elo."),
        ("e:depth=1,depth=2", "'depth' is duplicated"),
    ],
)
def test_bad_options_say_what_exists(reference, text):
    with pytest.raises(InputError) as caught:
        parse(reference)
    assert str(caught.value).startswith(text)


@given(st.text(max_size=40))
def test_no_text_breaks_the_parser(text):
    with contextlib.suppress(MosaicError):
        parse("e:" + text, first="path")
