"""What the lines of the Universal Chess Interface mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from mosaic.core.errors import InputError
from mosaic.policies.uci.options import EngineOptions

_OPTION = re.compile(r"option\s+name\s+(?P<name>.+?)\s+type\s+(?P<kind>\w+)(?P<rest>.*)")
_BOUNDS = re.compile(r".*\bmin\s+(?P<low>-?\d+).*\bmax\s+(?P<high>-?\d+)")
_HASH_MB = 16  # many engines may run side by side, and short searches fill no more


class Offer(NamedTuple):
    """An option that an engine has; bounds only where it is a whole number."""

    name: str
    low: int | None = None
    high: int | None = None


def parse_offer(line: str) -> Offer | None:
    """`option name UCI_Elo type spin default 1350 min 1350 max 2850`; None for any other line."""
    match = _OPTION.fullmatch(line)
    if match is None:
        return None
    bounds = _BOUNDS.match(match["rest"]) if match["kind"] == "spin" else None
    return Offer(match["name"]) if bounds is None else Offer(match["name"], int(bounds["low"]), int(bounds["high"]))


def parse_best_move(line: str) -> str | None:
    """`bestmove e2e4 ponder e7e5` → `e2e4`; None for any other line."""
    match line.split():
        case ["bestmove", move, *_]:
            return move
        case _:
            return None


def settings(options: EngineOptions, offers: Mapping[str, Offer], reference: str) -> list[str]:
    """The `setoption` lines; an error where the engine cannot do what is asked of it."""
    wanted: dict[str, int | str] = {
        name: value for name, value in (("Threads", 1), ("Hash", _HASH_MB)) if _takes(offers.get(name), value)
    }
    if options.elo is not None:
        wanted["UCI_LimitStrength"] = "true"
        wanted["UCI_Elo"] = _checked("elo", options.elo, offers.get("UCI_Elo"), reference)
    if options.skill is not None:
        wanted["Skill Level"] = _checked("skill", options.skill, offers.get("Skill Level"), reference)
    return [f"setoption name {name} value {value}" for name, value in wanted.items()]


def _takes(offer: Offer | None, value: int) -> bool:
    return offer is not None and offer.low is not None and offer.high is not None and offer.low <= value <= offer.high


def _checked(option: str, value: int, offer: Offer | None, reference: str) -> int:
    if offer is None:
        raise InputError(f"'{reference}': this engine offers no {option}. Leave '{option}={value}' out.")
    if not _takes(offer, value):
        raise InputError(f"'{reference}': this engine's {option} goes from {offer.low} to {offer.high}, not {value}.")
    return value
