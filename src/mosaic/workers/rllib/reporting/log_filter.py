"""Log filter for RLlib's warnings about interfaces that Mosaic does not use."""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Without:
    """Filter that drops records with a text."""

    text: str

    def filter(self, record: logging.LogRecord) -> bool:
        return self.text not in record.getMessage()


REMARKS = {
    "ray.rllib.algorithms.algorithm_config": _Without("on the new API stack!"),
    "ray._common.deprecation": _Without("`RLModule(config=[RLModuleConfig object])`"),  # RLlib's own call
    "ray.tune.utils.util": _Without("Install gputil"),
}


def keep_quiet() -> None:
    """Install the filters in this process; safe to call repeatedly."""
    for name, remark in REMARKS.items():
        logging.getLogger(name).addFilter(remark)
