"""Artefacts as a stranger may write them: every byte is the writer's choice, and the hashes fit where they should."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from mosaic.models.weights_file import save_policy_network

POLE, LAKE = "gym/CartPole-v1", "gym/FrozenLake-v1"
ARTEFACT = "artefact"
Files: TypeAlias = Mapping[str, bytes]
Forge: TypeAlias = Callable[[Path], None]  # it writes ARTEFACT into a folder
LIMITS = [4.800000190734863, "inf", 0.41887903213500977, "inf"]
SPACES = {
    POLE: {
        "observation": {
            "space": "Box",
            "shape": [4],
            "dtype": "float32",
            "low": [-4.800000190734863, "-inf", -0.41887903213500977, "-inf"],
            "high": LIMITS,
        },
        "action": {"space": "Discrete", "n": 2, "start": 0},
    },
    LAKE: {
        "observation": {"space": "Discrete", "n": 16, "start": 0},
        "action": {"space": "Discrete", "n": 4, "start": 0},
    },
}


class Canary:
    """An object whose pickle creates a file when it is loaded."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("canary"),)


CANARY = pickle.dumps(Canary())
DEEP = b"[" * 100_000
CODE = b"from pathlib import Path\n\nPath('canary').touch()\n"


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


@cache
def network() -> bytes:
    """A network of one layer for CartPole."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "network.safetensors")
        save_policy_network(path, [(np.ones((4, 2)), np.zeros(2))])
        return path.read_bytes()


def tensor_file(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    """A safetensors file; `size`: what it claims of its header."""
    text = header if isinstance(header, bytes) else as_json(header)
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def packed(arrays: Mapping[str, Any], facts: object) -> bytes:
    """A valid safetensors file with any metadata of Mosaic."""
    from safetensors.numpy import save

    text = facts if isinstance(facts, str) else json.dumps(facts)
    return save({name: np.asarray(array) for name, array in arrays.items()}, {"mosaic": text})


def reshaped(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The network with another header."""
    size = struct.unpack("<Q", network()[:8])[0]
    header = json.loads(network()[8 : 8 + size])
    change(header)
    return tensor_file(header, network()[8 + size :])


def architecture(**changes: Any) -> bytes:
    """The network with another description of itself."""

    def change(header: dict[str, Any]) -> None:
        facts = json.loads(header["__metadata__"]["mosaic"])
        facts["architecture"] |= changes
        header["__metadata__"]["mosaic"] = json.dumps(facts)

    return reshaped(change)


def scaled(shift: Any) -> bytes:
    """The network with a scaler of observations."""
    from safetensors.numpy import load

    return packed({**load(network()), "extra.shift": shift, "extra.scale": shift}, description())


def remembering(size: int) -> bytes:
    """A network with a memory of any size, and few weights."""
    described = description()
    described["architecture"] |= {"memory": "lstm", "memory_size": size}
    return packed({"weights": np.zeros(15, np.float32)}, described)


def description() -> dict[str, Any]:
    size = struct.unpack("<Q", network()[:8])[0]
    found: dict[str, Any] = json.loads(json.loads(network()[8 : 8 + size])["__metadata__"]["mosaic"])
    return found


def facts(text: str) -> bytes:
    """The network with any text as metadata."""
    return reshaped(lambda header: header.update(__metadata__={"mosaic": text}))


def entries(files: Files) -> dict[str, Any]:
    return {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}


def written(folder: Path, files: Files) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def environment(env: str) -> dict[str, str]:
    family, env_id = env.split("/")
    return {"family": family, "env_id": env_id}


def checkpoint(
    files: Files,
    worker: str = "native",
    env: str = POLE,
    /,
    *,
    after: Callable[[Path], object] | None = None,
    named: tuple[str, ...] | None = None,
    **changes: Any,
) -> Forge:
    """A checkpoint with whole hashes; `after` harms the folder, `named` are the files of its policy."""

    def forge(here: Path) -> None:
        folder = here / ARTEFACT
        written(folder, files)
        policy = {
            "files": list(files if named is None else named),
            "agents": ["*"],
            "worker": None,
            "stochastic": False,
        }
        document = {
            "format": "mosaic.checkpoint",
            "version": 1,
            "origin": "stranger",
            "worker": worker,
            "env_steps": 100,
            "seq": 1,
            "seed": 0,
            "reward": None,
            "rating": None,
            "best_by": "reward",
            "policies": {"learner": policy},
            "environment": environment(env),
            "spaces": {"agent_0": SPACES[env]},
            "versions": {},
            "pickles": False,
            "files": entries(files),
            **changes,
        }
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        signed = {**document, "digest": hashlib.sha256(canonical).hexdigest(), "seal": ""}
        (folder / "manifest.json").write_bytes(as_json(signed))
        if after is not None:
            after(folder)

    return forge


def native(weights: bytes, facts: object = None, **also: Any) -> Forge:
    settled = {"engine": "numba", "networks": {}, "epsilon": None} if facts is None else facts
    text = settled if isinstance(settled, bytes) else as_json(settled)
    return checkpoint({"policy_0.safetensors": weights, "facts.json": text}, **also)


def bundle(
    files: Files | None = None, /, *, after: Callable[[Path], object] | None = None, policy: Any = None, **changes: Any
) -> Forge:
    """A bundle of a native policy, with whole hashes."""
    held = {
        "weights/policy_0.safetensors": network(),
        "weights/facts.json": as_json({"engine": "numba", "networks": {}, "epsilon": None}),
        **(files or {}),
    }
    own = {"worker": "native", "agents": ["*"], "weights": ["policy_0.safetensors", "facts.json"], **(policy or {})}
    document = {
        "format": "mosaic.bundle",
        "version": 1,
        "run": "stranger",
        "name": "first",
        "environment": environment(POLE),
        "spaces": {"agent_0": SPACES[POLE]},
        "policies": {"learner": own},
        "training": {"env_steps": 1},
        "versions": {},
        "files": entries(held),
        **changes,
    }

    def forge(here: Path) -> None:
        written(here / ARTEFACT, held)
        (here / ARTEFACT / "manifest.json").write_bytes(as_json(document))
        if after is not None:
            after(here / ARTEFACT)

    return forge


def zipped(files: Files) -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def link(name: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (folder / name).rename(folder.parent / "outside")
        (folder / name).symlink_to(folder.parent / "outside")

    return harm


def sparse(name: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(1 << 33)

    return harm


def put(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: written(folder, {name: data})
