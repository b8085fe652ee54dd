"""Hostile artefacts that people send each other: bundles, archives of runs, projects, checkpoints of other programs."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

from tests.exports.hostile.forged import (
    ARTEFACT,
    CANARY,
    DEEP,
    Forge,
    as_json,
    bundle,
    entries,
    link,
    network,
    put,
    sparse,
    written,
    zipped,
)

FACTS = as_json({"engine": "numba", "networks": {}, "epsilon": None})
ENTRY = {"size": 1, "sha256": "0" * 64}


def listing(**more: Any) -> Forge:
    """A bundle whose manifest lists more files."""
    held = entries({"weights/policy_0.safetensors": network(), "weights/facts.json": FACTS})
    return bundle(files={**held, **more})


def named(name: str) -> Forge:
    return listing(**{name: ENTRY})


def linked_weights(folder: Path) -> None:
    (folder / "weights").rename(folder.parent / "outside")
    (folder / "weights").symlink_to(folder.parent / "outside")


def graph(model: bytes) -> Forge:
    """A bundle of which only the ONNX file can be played."""
    described = {"worker": "evil", "onnx": [{"file": "onnx/p.onnx", "agents": ["agent_0"], "parity": {}}]}
    return bundle({"onnx/p.onnx": model}, policy=described)


def external_graph() -> bytes:
    from onnx import StringStringEntryProto, TensorProto

    from tests.policies.onnx.graphs import linear

    model: Any = linear(network_weights())
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.external_data.append(StringStringEntryProto(key="location", value="../../etc/passwd"))
    tensor.data_location = TensorProto.EXTERNAL
    data: bytes = model.SerializeToString()
    return data


def network_weights() -> Any:
    import numpy as np

    return np.ones((4, 2), np.float32)


BUNDLES: dict[str, tuple[Forge, str]] = {
    "manifest not JSON": (bundle(after=put("manifest.json", b"{")), "is not JSON"),
    "manifest deep": (bundle(after=put("manifest.json", DEEP)), "is not JSON"),
    "manifest a list": (bundle(after=put("manifest.json", b"[]")), "is not the manifest of a bundle"),
    "manifest of 8 GiB": (bundle(after=sparse("manifest.json")), "is larger than 16 MiB"),
    "manifest of NaN": (bundle(training={"env_steps": float("nan")}), "is damaged"),
    "no manifest": (bundle(after=lambda folder: (folder / "manifest.json").unlink()), "has no manifest.json"),
    "version of the future": (bundle(version=2), "has version 2"),
    "name outside": (named("../evil.md"), "not belong in a bundle"),
    "absolute name": (named("/tmp/evil.md"), "not belong in a bundle"),
    "pickle in the list": (named("weights/policy.pkl"), "not belong in a bundle"),
    "script in the list": (named("setup.py"), "not belong in a bundle"),
    "giant size": (listing(**{"big.onnx": {"size": 1 << 60, "sha256": ""}}), "claims 1,152,921,504,606,846,976 bytes"),
    "negative size": (listing(**{"big.onnx": {"size": -1, "sha256": ""}}), "claims -1 bytes"),
    "many files": (listing(**{f"{number}.md": ENTRY for number in range(600)}), "at most 500"),
    "names alike": (listing(**{"a.md": ENTRY, "A.md": ENTRY}), "differ only in upper and lower case"),
    "missing file": (named("README.md"), "'README.md' is missing"),
    "wrong size": (bundle(after=put("weights/facts.json", b"{}")), "has 2 bytes instead of"),
    "wrong hash": (bundle(after=put("weights/facts.json", bytes(len(FACTS)))), "has changed since it was written"),
    "linked file": (bundle(after=link("weights/facts.json")), "is not a plain file"),
    "linked folder": (bundle(after=linked_weights), "'weights' is a link"),
    "a pickle among the weights": (bundle(after=put("weights/algorithm.pkl", CANARY)), "does not belong to it"),
    "a pipe among the weights": (bundle(after=lambda each: os.mkfifo(each / "weights/pipe")), "is not a plain file"),
    "weights outside": (bundle(policy={"weights": ["../../outside.safetensors"]}), "is not in the list of files"),
    "graph outside": (
        bundle(policy={"onnx": [{"file": "/etc/passwd", "agents": [], "parity": {}}]}),
        "is not in the list of files",
    ),
    "no policies": (bundle(policies={}), "is damaged"),
    "unknown worker": (bundle(policy={"worker": "evil"}), "There is no worker"),
    "graph that is a pickle": (graph(CANARY), "is not a valid ONNX file"),
    "graph with external weights": (lambda here: graph(external_graph())(here), "keeps weights in other files"),
    "facts name code": (
        bundle({"weights/facts.json": as_json({"networks": {"policy_0.safetensors": "evil.py:Net"}})}),
        "evil.py:Net",
    ),
    "env that is code": (bundle(environment={"env_id": "python:evil.py:Env"}, spaces={}), "evil.py"),
    "env without a name": (bundle(environment={"family": 7}), "does not describe its environment"),
    "spaces that are numbers": (bundle(spaces={"agent_0": 7}), "does not describe its spaces"),
    "spaces for ever": (bundle(spaces={"agent_0": {"observation": {"space": "Dict", "parts": 7}}}), "spaces"),
}


def archive(*members: tuple[str, Any, str]) -> Forge:
    """An archive of a run; a member is its name, its content or kind, and where a link leads."""

    def forge(here: Path) -> None:
        with tarfile.open(here / ARTEFACT, "w:gz") as made:
            for name, what, target in members:
                member = tarfile.TarInfo(name)
                content = what if isinstance(what, bytes) and len(what) > 1 else b""
                member.size = len(content)
                if not content:
                    member.type, member.linkname = what, target
                made.addfile(member, io.BytesIO(content))

    return forge


def plain(data: bytes) -> Forge:
    return lambda here: written(here, {ARTEFACT: data})


ARCHIVES: dict[str, tuple[Forge, str]] = {
    "name outside": (archive(("../evil", b"xx", "")), "leads out of the run's folder"),
    "absolute name": (archive(("/tmp/evil", b"xx", "")), "leads out of the run's folder"),
    "link": (archive(("r/link", tarfile.SYMTYPE, "/etc")), "is a link, a device"),
    "hard link": (archive(("r/link", tarfile.LNKTYPE, "/etc/passwd")), "is a link, a device"),
    "device": (archive(("r/null", tarfile.CHRTYPE, "")), "is a link, a device"),
    "settings deep": (archive(("r/config.json", DEEP, "")), "holds no run"),
    "settings not JSON": (archive(("r/config.json", CANARY, "")), "holds no run"),
    "no settings": (archive(("r/run.pkl", CANARY, "")), "holds no run"),
    "pickle": (plain(CANARY), "is not a .tar.gz file"),
    "empty": (plain(b""), "is damaged or not a .tar.gz file"),
}


def project(data: bytes) -> Forge:
    return lambda here: written(here / ARTEFACT, {"mosaic.toml": data})


def project_pipe(here: Path) -> None:
    (here / ARTEFACT).mkdir()
    os.mkfifo(here / ARTEFACT / "mosaic.toml")


def endless_project(here: Path) -> None:
    (here / ARTEFACT).mkdir()
    (here / ARTEFACT / "mosaic.toml").symlink_to("/dev/zero")


PROJECTS: dict[str, tuple[Forge, str]] = {
    "pickle": (project(CANARY), "it is not UTF-8 text"),
    "deep": (project(b"a = " + DEEP), "nested too deeply"),
    "giant": (project(b"#" * (1 << 21)), "has more than 1024 KiB"),
    "pipe": (project_pipe, "is not a regular file"),
    "endless": (endless_project, "is not a regular file"),
    "not TOML": (project(b"name = \n"), "Invalid value"),
    "a list for a name": (project(b"name = [1]\n"), "name"),
    "unknown setting": (project(b'name = "a"\nexec = "touch canary"\n'), "There is no setting 'exec'"),
    "name outside": (project(b'name = "../evil"\n'), "name"),
}


def rllib_folder(data: bytes) -> Forge:
    module = "learner_group/learner/rl_module/default_policy"
    names = (f"{module}/class_and_ctor_args.pkl", f"{module}/module_state.pkl", "algorithm_state.pkl")
    return lambda here: written(here / ARTEFACT, dict.fromkeys(names, data))


def old_stack(here: Path) -> None:
    written(here / ARTEFACT, {"policies/default_policy/policy_state.pkl": CANARY, "algorithm_state.pkl": CANARY})


FOREIGN: dict[str, tuple[Forge, str]] = {
    "rllib: pickles": (rllib_folder(CANARY), "holds pickles, which run code"),
    "rllib: truncated pickles": (rllib_folder(CANARY[:-5]), "holds pickles, which run code"),
    "rllib: old API stack": (old_stack, "with its old API stack"),
    "TorchScript": (
        plain(zipped({"policy/code/__torch__.py": b"def f(): ...", "policy/data.pkl": CANARY})),
        "is not a checkpoint that Mosaic or one of its workers can play",
    ),
    "pickle": (plain(CANARY), "is not a checkpoint that Mosaic or one of its workers can play"),
    "nothing": (lambda here: None, "There is no checkpoint"),
    "pipe": (lambda here: os.mkfifo(here / ARTEFACT), "There is no checkpoint"),
}
