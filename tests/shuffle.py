"""Another order of the tests: `pytest -p tests.shuffle --shuffle 7`. A failure that depends on it shows in one process.

Files come in an order drawn from the seed, and so do the tests of each file: fixtures of files live as long as ever.
"""

from __future__ import annotations

import hashlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, default=1, metavar="SEED", help="seed of the order of files and tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    seed = config.getoption("shuffle")
    items.sort(key=lambda item: place(seed, item.nodeid))


def pytest_report_header(config: pytest.Config) -> str:
    return f"shuffled: --shuffle {config.getoption('shuffle')}"


def place(seed: int, nodeid: str) -> tuple[bytes, bytes]:
    """Return what to sort by: the same for a test whichever others run."""
    return _draw(seed, nodeid.partition("::")[0]), _draw(seed, nodeid)


def _draw(seed: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed} {text}".encode(), digest_size=8).digest()
