"""Observation and action spaces as JSON documents that can be stored, compared and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import DTypeLike, NDArray

from mosaic.core.errors import FormatError
from mosaic.core.ids import AgentID, JsonObject
from mosaic.envs.env import EnvSpec

Document: TypeAlias = Mapping[str, Any]  # as `space_to_json` wrote it; checked where it is read
_Bound: TypeAlias = float | str | list[float | str]

_MOST_NAMED = 4  # differences in one message


def spec_spaces(spec: EnvSpec, agents: Iterable[AgentID] | None = None) -> dict[AgentID, JsonObject]:
    """Return both spaces of these agents, of all if None; empty for an env that cannot name its agents ahead."""
    return {
        agent: {
            "observation": space_to_json(spec.observation_spaces[agent]),
            "action": space_to_json(spec.action_spaces[agent]),
        }
        for agent in (spec.possible_agents if agents is None else agents)
    }


def space_to_json(space: Space[object]) -> JsonObject:
    """Return a document that is equal for equal spaces; the order of a Dict counts, since it decides the layout."""
    match space:
        case spaces.Discrete():
            return {"space": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            counts, start = space.nvec.tolist(), np.asarray(space.start).tolist()
            return {"space": "MultiDiscrete", "nvec": counts, "start": start, "dtype": str(space.dtype)}
        case spaces.MultiBinary():
            return {"space": "MultiBinary", "shape": list(space.shape)}
        case spaces.Box():
            bounds = {"low": _bound(space.low), "high": _bound(space.high)}
            return {"space": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case spaces.Dict():
            return {"space": "Dict", "parts": [[key, space_to_json(part)] for key, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"space": "Tuple", "parts": [[i, space_to_json(part)] for i, part in enumerate(space.spaces)]}
        case spaces.Text():
            lengths = [space.min_length, space.max_length]
            return {"space": "Text", "lengths": lengths, "characters": "".join(sorted(space.character_set))}
    return {"space": type(space).__name__, "text": repr(space)}


def space_from_json(document: Document) -> Space[object]:
    """Return the space that `space_to_json` described."""
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise FormatError(f"This does not describe a space ({error!r}): {document!r}.") from error


def space_differences(here: Document, there: Document, name: str) -> list[str]:
    """List what differs, part by part, as sentences about the space `name`; empty for equal spaces."""
    found = list(_differences(here, there, name))
    if len(found) > _MOST_NAMED:
        return [*found[:_MOST_NAMED], f"and {len(found) - _MOST_NAMED} more differences"]
    return found


def describe_space(document: Document) -> str:
    match document["space"]:
        case "Discrete":
            start = f", start={document['start']}" if document["start"] else ""
            return f"Discrete({document['n']}{start})"
        case "MultiDiscrete":
            return f"MultiDiscrete({document['nvec']})"
        case "MultiBinary":
            return f"MultiBinary({document['shape']})"
        case "Box":
            low, high = (_short(document[key]) for key in ("low", "high"))
            return f"Box({low}, {high}, {tuple(document['shape'])}, {document['dtype']})"
        case "Dict":
            return f"Dict({', '.join(str(key) for key, _ in document['parts'])})"
        case "Tuple":
            return f"Tuple of {len(document['parts'])}"
    return str(document.get("text", document["space"]))


def _differences(here: Document, there: Document, name: str) -> Iterator[str]:
    if here == there:
        return
    if here["space"] != there["space"] or here["space"] not in ("Dict", "Tuple"):
        yield f"{name} is {describe_space(here)} here and {describe_space(there)} in training{_where(here, there)}"
        return
    ours, theirs = dict(map(tuple, here["parts"])), dict(map(tuple, there["parts"]))
    for key in {**theirs, **ours}:
        place = f"{name}[{key!r}]"
        if key not in ours:
            yield f"{place} is missing here ({describe_space(theirs[key])} in training)"
        elif key not in theirs:
            yield f"{place} is {describe_space(ours[key])} here and was not there in training"
        else:
            yield from _differences(ours[key], theirs[key], place)
    if ours == theirs:
        yield f"{name} has its parts in the order {list(ours)} here and {list(theirs)} in training"


def _where(here: Document, there: Document) -> str:
    """Name the first differing bound of two boxes of one shape, which their short texts may not show."""
    if here["space"] != "Box" or there["space"] != "Box" or here["shape"] != there["shape"]:
        return ""
    for key in ("low", "high"):
        ours, theirs = (np.broadcast_to(_array(d[key]), _flat_shape(d)) for d in (here, there))
        place = next(iter(np.flatnonzero(ours != theirs)), None)
        if place is not None and isinstance(here[key], list) | isinstance(there[key], list):
            return f" ({key}[{place}] is {ours[place]:g} here and {theirs[place]:g} in training)"
    return ""


def _read(document: Document) -> Space[object]:
    match document["space"]:
        case "Discrete":
            return spaces.Discrete(document["n"], start=document["start"])
        case "MultiDiscrete":
            counts, start = np.array(document["nvec"]), np.array(document["start"])
            return spaces.MultiDiscrete(counts, dtype=document["dtype"], start=start)
        case "MultiBinary":
            shape = document["shape"]
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
        case "Box":
            dtype, shape = np.dtype(document["dtype"]), tuple(document["shape"])
            low, high = (
                np.broadcast_to(_array(document[key], dtype), _flat_shape(document)).reshape(shape)
                for key in ("low", "high")
            )
            return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)
        case "Dict":
            return spaces.Dict([(key, _read(part)) for key, part in document["parts"]])
        case "Tuple":
            return spaces.Tuple([_read(part) for _, part in document["parts"]])
        case "Text":
            least, most = document["lengths"]
            return spaces.Text(most, min_length=least, charset=document["characters"])
    raise FormatError(f"A space of the kind {document['space']} cannot be read back: {document.get('text', '')}.")


def _bound(bound: NDArray[np.floating | np.integer]) -> _Bound:
    """Return one number if all are equal, else the numbers in C order; infinities as text, since JSON lacks them."""
    flat = np.ravel(bound)
    if flat.size and (flat == flat[0]).all():
        return _number(flat[0])
    return [_number(each) for each in flat]


def _number(value: np.floating | np.integer) -> float | str:
    plain: float = value.item()
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain


def _array(bound: _Bound, dtype: DTypeLike = np.float64) -> NDArray[np.float64]:
    values = bound if isinstance(bound, list) else [bound]
    return np.array([float(each) if isinstance(each, str) else each for each in values]).astype(dtype)


def _flat_shape(document: Document) -> tuple[int, ...]:
    return (int(np.prod(document["shape"], dtype=np.int64)),)


def _short(bound: _Bound) -> str:
    if not isinstance(bound, list):
        return f"{float(bound):g}"
    shown = [f"{float(each):g}" for each in bound[:4]]
    return f"[{', '.join(shown)}{', …' if len(bound) > len(shown) else ''}]"
