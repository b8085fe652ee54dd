"""Advice in error messages as changes of a draft, so that a form can offer a button instead of words to type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from mosaic.config.sections import PolicyConfiguration
from mosaic.config.yaml import read_scalar
from mosaic.ui.web.data.draft import Draft

Subject: TypeAlias = Literal["policies", "worker", "algo", "set"]
_ADVICE = re.compile(r"--(policies|worker|algo|set) ([\w.]+(?:=[\w.+-]+)?)")
_LABELS = {"policies": "Use {}", "worker": "Use the worker {}", "algo": "Use the algorithm {}"}
_PLACE = re.compile(r"\b(?:training\.)?([a-z_]+)\.([a-z_]\w*)\b")


class ProposedChange(NamedTuple):
    """One change that an error message proposes."""

    subject: Subject
    value: str

    @property
    def label(self) -> str:
        if self.subject == "set":
            place, _, value = self.value.partition("=")
            return f"Set {place.rpartition('.')[2].replace('_', ' ')} to {value}"
        return _LABELS[self.subject].format(self.value.replace("_", " "))

    def apply(self, draft: Draft) -> None:
        """Change the draft; the agents' policies stay as they are."""
        match self.subject:
            case "policies":
                draft.paradigm = cast(PolicyConfiguration, self.value)
            case "worker":
                draft.worker, draft.algorithm = self.value, ""
                draft.params.clear()
            case "algo":
                draft.algorithm = self.value
                draft.params.clear()
            case "set":
                place, _, value = self.value.partition("=")
                *above, name = place.split(".")
                target = draft.params if above[-1] == "params" else draft.sections[above[0]]
                target[name] = read_scalar(value)


def advice_in(error: str, draft: Draft) -> list[ProposedChange]:
    """Return the changes that an error message proposes, each once, without what the draft has already."""
    found: dict[ProposedChange, None] = {}
    for subject, value in _ADVICE.findall(error):
        advice = ProposedChange(subject, value.rstrip("."))
        above = advice.value.partition("=")[0].split(".")[:-1]
        possible = subject != "set" or (
            "=" in value and above and (above[-1] == "params" or above[0] in draft.sections)
        )
        if possible and advice.value not in (draft.worker, draft.algorithm, draft.paradigm):
            found[advice] = None
    return list(found)


def without_advice(error: str, found: Sequence[ProposedChange]) -> str:
    """Return an error message without the sentences that a button for each of these changes replaces."""
    offered = {(advice.subject, advice.value) for advice in found}
    sentences = re.split(r"(?<=\.) (?=[A-Z])", error)
    kept = []
    for sentence in sentences:
        typed = {(subject, value.rstrip(".")) for subject, value in _ADVICE.findall(sentence)}
        if not typed or not typed <= offered:
            kept.append(sentence)
    return " ".join(kept) or error


def places_in(error: str) -> list[tuple[str, str]]:
    """Return the settings that an error message names, as (section, name); options of the algorithm are `params`."""
    return [(section, name) for section, name in _PLACE.findall(error)]
