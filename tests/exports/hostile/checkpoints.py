"""Hostile checkpoints of Mosaic's own format, in the words of each worker."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tests.exports.hostile.forged import (
    CANARY,
    DEEP,
    LAKE,
    POLE,
    SPACES,
    Forge,
    architecture,
    as_json,
    checkpoint,
    entries,
    facts,
    link,
    native,
    network,
    packed,
    put,
    remembering,
    reshaped,
    scaled,
    sparse,
    tensor_file,
    zipped,
)

NAN = np.full((4, 2), np.nan, np.float32)
ONE, NOT_A_NUMBER = np.float32(1).tobytes(), np.float32(np.nan).tobytes()
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def tensor(name: str, **changes: Any) -> bytes:
    return reshaped(lambda header: header[name].update(changes))


WEIGHTS: dict[str, tuple[Forge, str]] = {
    "empty": (native(b""), "is not a safetensors file"),
    "truncated": (native(network()[:-9]), "is not a safetensors file"),
    "giant header": (native(tensor_file(b"{}", size=1 << 62)), "is not a safetensors file"),
    "header longer than the file": (native(tensor_file(b"{}", size=9999)), "is not a safetensors file"),
    "header not JSON": (native(tensor_file(b"{'a'")), "is not a safetensors file"),
    "deep header": (native(tensor_file(DEEP)), "is not a safetensors file"),
    "overlapping offsets": (native(tensor_file({"a": F32, "b": F32}, bytes(8))), "is not a safetensors file"),
    "offsets beyond the end": (native(tensor("policy.0.bias", data_offsets=[0, 1 << 40])), "is not a safetensors file"),
    "shape larger than its bytes": (native(tensor("policy.0.bias", shape=[1 << 40])), "is not a safetensors file"),
    "negative shape": (native(tensor("policy.0.bias", shape=[-2])), "is not a safetensors file"),
    "unknown type": (native(tensor("policy.0.bias", dtype="PICKLE")), "is not a safetensors file"),
    "pickle for weights": (native(CANARY), "is not a safetensors file"),
    "zip for weights": (native(zipped({"data.pkl": CANARY})), "is not a safetensors file"),
    "metadata not JSON": (native(facts("{")), "is not a safetensors file of Mosaic"),
    "metadata deep": (native(facts(DEEP.decode())), "is not a safetensors file of Mosaic"),
    "metadata a list": (native(facts("[]")), "does not hold the weights of a network"),
    "metadata of another format": (
        native(facts('{"format": "mosaic-sb3-1"}')),
        "does not hold the weights of a network",
    ),
    "no architecture": (native(facts('{"format": "mosaic-network-1"}')), "not the architecture of a network"),
    "NaN weights": (native(network().replace(ONE, NOT_A_NUMBER)), "not finite: 8 of 8"),
    "integers for weights": (native(tensor("policy.0.bias", dtype="I32")), "but the file holds int32"),
    "wrong shape": (native(architecture(hidden=[3])), "weights, but the architecture has"),
    "giant layers": (native(architecture(hidden=[10**15])), "weights, but the architecture has"),
    "giant memory": (native(remembering(10**6)), "its architecture needs 3,000,000,000,000 or more"),
    "negative width": (native(architecture(observation=-4)), "must be at least 1"),
    "scaler of another width": (native(scaled(np.zeros(3, np.float32))), "does not fit a network that reads 4 numbers"),
}


OUTSIDE = "../outside.safetensors"
WHOLE = {"policy_0.safetensors": network(), "facts.json": as_json({"networks": {}})}
CHECKPOINTS: dict[str, tuple[Forge, str]] = {
    "facts not JSON": (native(network(), b"{"), "facts.json"),
    "facts deep": (native(network(), DEEP), "facts.json"),
    "facts a list": (native(network(), []), "facts.json"),
    "facts name code": (native(network(), {"networks": {"policy_0.safetensors": "evil.py:Net"}}), "evil.py:Net"),
    "no facts": (checkpoint({"policy_0.safetensors": network()}), "facts.json"),
    "no weights": (checkpoint({"facts.json": b"{}"}), "has no safetensors file for its policy 'learner'"),
    "manifest not JSON": (native(network(), after=put("manifest.json", b"{")), "its manifest.json is damaged"),
    "manifest a list": (native(network(), after=put("manifest.json", b"[]")), "its manifest.json is damaged"),
    "manifest deep": (native(network(), after=put("manifest.json", DEEP)), "its manifest.json is damaged"),
    "manifest of 8 GiB": (native(network(), after=sparse("manifest.json")), "it is larger than 64 MiB"),
    "manifest changed": (native(network(), after=put("manifest.json", b'{"digest": "", "seal": ""}')), "has changed"),
    "version of the future": (native(network(), version=9), "its manifest.json is invalid"),
    "negative steps": (native(network(), env_steps=-1), "its manifest.json is invalid"),
    "wrong hash": (native(network(), after=put("facts.json", b"{}")), "'facts.json' has changed since"),
    "missing file": (native(network(), after=lambda folder: (folder / "facts.json").unlink()), "is missing"),
    "a pickle beside it": (native(network(), after=put("algorithm.pkl", CANARY)), "does not belong to it"),
    "linked file": (native(network(), after=link("policy_0.safetensors")), "is not a plain file"),
    "linked folder": (native(network(), after=lambda each: (each / "more").symlink_to("/etc")), "is not a plain file"),
    "pipe": (native(network(), after=lambda folder: os.mkfifo(folder / "pipe")), "is not a plain file"),
    "weights outside": (checkpoint(WHOLE, named=(OUTSIDE,)), f"names the file '{OUTSIDE}'"),
    "absolute weights": (checkpoint(WHOLE, named=("/etc/passwd",)), "names the file '/etc/passwd'"),
    "a listed file outside": (
        checkpoint(WHOLE, named=(), files={**entries(WHOLE), OUTSIDE: {"size": 1, "sha256": ""}}),
        f"its file '{OUTSIDE}' is missing",
    ),
    "no policies": (native(network(), policies={}), "no policy for agent"),
    "unknown worker": (native(network(), worker="evil"), "There is no worker"),
    "env without a name": (native(network(), environment={"family": 7}), "does not describe its environment"),
    "env that is code": (native(network(), environment={"env_id": "python:evil.py:Env"}, spaces={}), "evil.py"),
    "spaces of nothing": (native(network(), spaces={"agent_0": {}}), "does not describe its spaces"),
    "spaces that are numbers": (native(network(), spaces={"agent_0": 7}), "does not describe its spaces"),
}


def rllib(document: object, **files: bytes) -> Forge:
    text = document if isinstance(document, bytes) else as_json(document)
    return checkpoint({"policies.json": text, "policy_0.safetensors": network(), **files}, "rllib")


def module(**changes: Any) -> dict[str, Any]:
    known = {"file": "policy_0.safetensors", "dense": True, "agents": ["agent_0"], "algorithm": "ppo", "masked": False}
    whole = {"model_config": {}, "picture_size": 0, "normalize_actions": False, "clip_actions": False}
    return {"format": "mosaic-rllib-1", "policies": {"learner": {**known, **whole, **changes}}}


def code(**changes: Any) -> dict[str, Any]:
    return {"rl_module": None, "env_to_module": None, "module_to_env": None, "connectors": None, **changes}


def sb3(weights: bytes) -> Forge:
    return checkpoint({"policy.safetensors": weights}, "sb3")


def sb3_facts(**changes: Any) -> dict[str, Any]:
    known = {"algorithm": "ppo", "activation": "Tanh", **SPACES[POLE], **changes}
    return {"format": "mosaic-sb3-1", "policy": known}


def table(values: Any, document: object = None) -> Forge:
    text = document if isinstance(document, bytes) else as_json({"bins": None} if document is None else document)
    data = values if isinstance(values, bytes) else packed({"values": values}, "{}")
    return checkpoint({"table.safetensors": data, "facts.json": text}, "tabular", LAKE)


WORKERS: dict[str, tuple[Forge, str]] = {
    "rllib: not JSON": (rllib(b"{"), "policies.json"),
    "rllib: a list": (rllib([]), "policies.json"),
    "rllib: deep": (rllib(DEEP), "policies.json"),
    "rllib: no policies": (rllib({"format": "mosaic-rllib-1"}), "policies.json"),
    "rllib: policy without facts": (rllib({"format": "mosaic-rllib-1", "policies": {"learner": {}}}), "policies.json"),
    "rllib: weights outside": (rllib(module(file=OUTSIDE)), f"names the file '{OUTSIDE}'"),
    "rllib: code": (rllib(module(code=code(rl_module="evil.py:Module"))), "evil.py:Module"),
    "rllib: pickled connectors": (rllib(module(code=code(connectors="c.pkl")), **{"c.pkl": CANARY}), "c.pkl"),
    "sb3: NaN": (sb3(packed({"action_net.weight": NAN}, sb3_facts())), "not finite"),
    "sb3: unknown algorithm": (sb3(packed({}, sb3_facts(algorithm="evil"))), "'evil'"),
    "sb3: no description": (sb3(packed({}, {"format": "mosaic-sb3-1"})), "does not describe its policy"),
    "sb3: metadata deep": (sb3(packed({}, DEEP.decode())), "is not a safetensors file of Mosaic"),
    "sb3: no layers": (sb3(packed({"action_net.bias": np.zeros(2, np.float32)}, sb3_facts())), "have no tensor"),
    "table: few states": (table(np.zeros((3, 4))), "3 states"),
    "table: few actions": (table(np.zeros((16, 2))), "2 actions"),
    "table: a vector": (table(np.zeros(16)), "is not a table"),
    "table: NaN": (table(np.full((16, 4), np.nan)), "64 of 64 values of the table are NaN"),
    "table: text": (table(b"many"), "is not a safetensors file"),
    "table: without values": (table(packed({"x": np.zeros(1)}, "{}")), "values"),
    "table: facts a list": (table(np.zeros((16, 4)), []), "facts.json"),
    "table: facts deep": (table(np.zeros((16, 4)), DEEP), "facts.json"),
}
