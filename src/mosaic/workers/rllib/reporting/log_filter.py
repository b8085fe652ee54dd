"""Which remarks of RLlib are kept out of a run's log: those about interfaces that Mosaic does not use."""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Without:
    """A filter: everything else that the logger says is kept."""

    text: str

    def filter(self, record: logging.LogRecord) -> bool:
        return self.text not in record.getMessage()


REMARKS = {
    "ray.rllib.algorithms.algorithm_config": _Without("on the new API stack!"),
    "ray._common.deprecation": _Without("`RLModule(config=[RLModuleConfig object])`"),  # RLlib calls itself so
    "ray.tune.utils.util": _Without("Install gputil"),
}


def keep_quiet() -> None:
    """In this process; as often as one likes."""
    for name, remark in REMARKS.items():
        logging.getLogger(name).addFilter(remark)
