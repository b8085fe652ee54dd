"""Tests of extras that are not installed: they are skipped, and say what they need."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from mosaic.core.errors import MissingExtraError

PACKAGES = ("ray", "sb3_contrib", "stable_baselines3", "torch")


def lacking(error: BaseException | None) -> str | None:
    """Return what is not installed here and caused this error, if that did."""
    while error is not None:
        name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if name in PACKAGES and find_spec(name) is None:
            return f"needs {name}, which is not installed"
        if isinstance(error, MissingExtraError) and not all(map(find_spec, PACKAGES)):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def skip_if_lacking(complaint: str) -> None:
    """Skip a test of a command that was refused because an extra is not installed here."""
    if "pip install 'mosaic-rl[" in complaint and not all(map(find_spec, PACKAGES)):
        pytest.skip(complaint.strip())


class TestFile(pytest.Module):
    """Test module that may import extras which are not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            if (reason := lacking(error)) is None:
                raise
            pytest.skip(reason, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> TestFile:
    made: TestFile = TestFile.from_parent(parent, path=module_path)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test whose fixtures use what is not installed."""
    try:
        yield
    except Exception as error:
        if (reason := lacking(error)) is None:
            raise
        pytest.skip(reason)


pytest_runtest_call = pytest_runtest_setup  # and one that uses it itself
