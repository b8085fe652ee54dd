"""A run's log holds what concerns the user, and only known remarks are left out of it."""

from __future__ import annotations

import logging

import pytest

from mosaic.workers.rllib.reporting.log_filter import REMARKS, keep_quiet


@pytest.fixture(autouse=True)
def _as_before():
    yield
    for name, remark in REMARKS.items():
        logging.getLogger(name).removeFilter(remark)


def test_a_remark_is_left_out_and_everything_else_is_kept():
    keep_quiet()
    keep_quiet()
    for name, remark in REMARKS.items():
        logger = logging.getLogger(name)
        assert logger.filters.count(remark) == 1
        said = logging.LogRecord(name, logging.WARNING, "", 0, f"about {remark.text} and so on", None, None)
        other = logging.LogRecord(name, logging.ERROR, "", 0, "an env runner %s is lost", (3,), None)
        assert not logger.filter(said)
        assert logger.filter(other)
