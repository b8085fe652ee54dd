"""Bytes become lines, and no byte is lost."""

from hypothesis import given
from hypothesis import strategies as st

from mosaic.workers.script.output import LineSplitter, OutputLine

chunks = st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b"a\nb", b"\r\n", b"\xff\xfe\n"]), max_size=12)


def split(parts, longest):
    splitter = LineSplitter(longest)
    return [line for part in parts for line in splitter.feed(part)] + list(splitter.end())


@given(chunks, st.integers(1, 50))
def test_joined_again_the_lines_are_what_came(parts, longest):
    lines = split(parts, longest)
    assert b"".join(line.raw for line in lines) == b"".join(parts)
    assert all(b"\n" not in line.raw[:-1] for line in lines)


@given(chunks, st.integers(1, 50))
def test_a_line_is_whole_exactly_when_it_is_short_enough(parts, longest):
    lines = [line.raw for line in split(parts, longest) if line.whole]
    expected = _by_newline(b"".join(parts))
    assert lines == [line for line in expected if len(line.removesuffix(b"\n")) <= longest]


def _by_newline(data):
    *ended, last = data.split(b"\n")
    return [line + b"\n" for line in ended] + ([last] if last else [])


def test_the_way_it_was_cut_changes_no_whole_line():
    data = b"one\ntwo\n\nthree"
    for size in range(1, len(data)):
        parts = [data[i : i + size] for i in range(0, len(data), size)]
        assert [line.text for line in split(parts, 100)] == ["one", "two", "", "three"]


def test_texts_are_readable_whatever_the_bytes():
    assert OutputLine(b"caf\xc3\xa9\r\n", True).text == "café"
    assert OutputLine(b"\xff\x00ok", True).text == "\ufffd\x00ok"
