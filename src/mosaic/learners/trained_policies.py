"""Choice of the policies that train: a list of names, or a user's function, of which the signature is checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from mosaic.core.errors import InputError, MosaicError, describe_error, unknown
from mosaic.core.user_code import load_code

Arguments: TypeAlias = Literal["policy", "policy and batch", "either"]
_FORMS = "def f(policy) -> bool, or for RLlib def f(policy, batch) -> bool"


@dataclass(frozen=True, slots=True)
class TrainedPolicies:
    trained: tuple[bool, ...]  # for each policy; all that a function of (policy, batch) may choose
    by_batch: str | None = None  # reference of a function of (policy, batch), which RLlib calls with every batch


def read_trained(
    asked: tuple[str, ...] | str | None, names: Sequence[str], *, honours_batches: bool = False
) -> TrainedPolicies:
    """Read `policies_to_train`; raise InputError for unknown names, and for functions that cannot be honoured.

    `honours_batches`: the worker calls a function of (policy, batch) with every batch.
    """
    if asked is None:
        return TrainedPolicies((True,) * len(names))
    if not isinstance(asked, str):
        for name in asked:
            if name not in names:
                raise unknown("policy that learns", name, names)
        return _checked(tuple(name in asked for name in names), names)
    arguments, decide = _load(asked)
    if arguments == "policy and batch" or (arguments == "either" and honours_batches):
        if not honours_batches:
            raise InputError(
                f"{asked} takes (policy, batch), so it decides for every batch, and this worker decides once, "
                "before training. Write it as a function of the policy's name, def f(policy) -> bool, or train with "
                "--worker rllib."
            )
        return TrainedPolicies((True,) * len(names), by_batch=asked)
    return _checked(tuple(_ask(asked, decide, name) for name in names), names)


def _checked(trained: tuple[bool, ...], names: Sequence[str]) -> TrainedPolicies:
    if not any(trained):
        raise InputError(f"policies_to_train leaves nothing to learn. Policies here: {', '.join(names)}.")
    return TrainedPolicies(trained)


def _load(reference: str) -> tuple[Arguments, Callable[..., object]]:
    """Return the function and what it can be called with."""
    decide = load_code(reference)
    if not callable(decide) or isinstance(decide, type):
        what = f"the class {decide.__name__}" if isinstance(decide, type) else f"a {type(decide).__name__}"
        raise InputError(f"{reference} is {what}, not a function of a policy's name: {_FORMS}.")
    if inspect.iscoroutinefunction(decide) or inspect.isgeneratorfunction(decide):
        raise InputError(f"{reference} returns a coroutine or generator, not true or false: write {_FORMS}.")
    try:
        signature = inspect.signature(decide)
    except ValueError as error:  # some functions written in C have none
        raise InputError(f"{reference} has no inspectable signature: wrap it in {_FORMS}.") from error
    one, two = _takes(signature, 1), _takes(signature, 2)
    if one or two:
        return ("either" if one and two else "policy" if one else "policy and batch"), decide
    raise InputError(
        f"{reference}{signature} cannot be called with a policy's name, nor with (policy, batch): write {_FORMS}."
    )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _ask(reference: str, decide: Callable[..., object], *given: Any) -> bool:
    try:
        answer = decide(*given)
    except Exception as error:
        raise InputError(f"{reference}('{given[0]}') raised {type(error).__name__}: {error}") from error
    return _truth(reference, given[0], answer)


def _truth(reference: str, policy: str, answer: object) -> bool:
    """Return the answer as RLlib understands it: 1 and 0, and arrays and tensors of one element, are answers too.

    None is what a function without `return` answers, and a text such as "no" would be true.
    """
    advice = f"Return True or False: {_FORMS}."
    if answer is None or not hasattr(answer, "__bool__"):
        raise InputError(f"{reference}('{policy}') returned {answer!r} instead of true or false. {advice}")
    try:
        return bool(answer)
    except (TypeError, ValueError, RuntimeError) as error:  # of several elements
        raise InputError(f"{reference}('{policy}') returned {answer!r}: {error} {advice}") from error


def _contents(batch: object) -> str:
    """Describe an RLlib batch: its policies and the columns of each."""
    parts = getattr(batch, "policy_batches", None)
    if not isinstance(parts, Mapping):
        return f"a {type(batch).__name__}"
    columns = "; ".join(f"['{name}'] with {', '.join(map(str, part))}" for name, part in parts.items())
    return f"a {type(batch).__name__}: batch.policy_batches has {columns}"


class BatchRule:
    """Function of (policy, batch) as RLlib calls it, in any process, with its own names of the policies.

    RLlib also asks without a batch, to find out which policies may change at all: all of them.
    """

    def __init__(self, reference: str, policies: dict[str, str]) -> None:
        self.reference, self._policies = reference, policies  # RLlib's name → Mosaic's

    def __call__(self, module: str, batch: object = None) -> bool:
        if batch is None:
            return True
        policy, batch = self._policies.get(module, module), self._named(batch)
        try:
            answer = self._function(policy, batch)
        except Exception as error:
            raise MosaicError(
                f"policies_to_train: {self.reference}('{policy}', batch) raised {describe_error(error)}. The batch is "
                f"{_contents(batch)}. Correct the function and train again. A function of "
                "the policy alone, def f(policy) -> bool, is asked once, before training."
            ) from error
        return _truth(self.reference, policy, answer)

    def _named(self, batch: object) -> object:
        """Return the batch with Mosaic's names of the policies: the function is asked about one of these."""
        parts = getattr(batch, "policy_batches", None)
        if not isinstance(parts, Mapping):
            return batch
        named = copy(batch)
        named.policy_batches = {self._policies.get(name, name): part for name, part in parts.items()}  # type: ignore[attr-defined]
        return named

    def rehearse(self) -> None:
        """Call the function once without a batch, as RLlib may, and raise InputError for an invalid result.

        This happens before anything starts. If the function needs a batch, its results are checked during training.
        """
        answers: dict[str, object] = {}
        with suppress(Exception):
            for policy in self._policies.values():
                answers[policy] = self._function(policy, None)
        for policy, answer in answers.items():
            _truth(self.reference, policy, answer)

    def nothing_chosen(self) -> MosaicError:
        """Return the error for a batch from which no policy learns: RLlib cannot continue from that."""
        names = ", ".join(sorted(self._policies.values()))
        return MosaicError(
            f"{self.reference} chose no policy to train for a batch of {names}: an update needs at least one. "
            "Return true for one of them."
        )

    @cached_property
    def _function(self) -> Callable[..., object]:
        return _load(self.reference)[1]

    def __reduce__(self) -> tuple[type[BatchRule], tuple[str, dict[str, str]]]:
        return BatchRule, (self.reference, self._policies)
