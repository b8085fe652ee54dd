"""Hostile and damaged zips: a clear message, nothing run, nothing written."""

from __future__ import annotations

import base64
import io
import json
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mosaic import load_policy
from mosaic.core.errors import MosaicError
from mosaic.workers.sb3.checkpoint import zip_file
from tests.workers.sb3.models import CHOICE, VECTOR, Spaces, make_model

Members = dict[str, bytes]


class Canary:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Members:
    folder = tmp_path_factory.mktemp("whole")
    make_model("ppo", VECTOR, CHOICE).save(folder / "model.zip")
    with zipfile.ZipFile(folder / "model.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def weights(members: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    state = dict(torch.load(io.BytesIO(members["policy.pth"]), weights_only=True))
    made = change(state)
    packed = io.BytesIO()
    torch.save(made if isinstance(made, dict) else state, packed)
    return {**members, "policy.pth": packed.getvalue()}


def data(members: Members, **fields: Any) -> Members:
    return {**members, "data": json.dumps({**json.loads(members["data"]), **fields}).encode()}


def refusal(path: Path) -> str:
    """Return the message of the refusal; the folder holds the same files before and after."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(MosaicError) as caught:
        load_policy(f"sb3:{path}", Spaces(VECTOR, CHOICE))
    assert sorted(path.parent.rglob("*")) == before
    return str(caught.value)


def test_pickles_in_the_weights_are_not_run(whole: Members, tmp_path: Path) -> None:
    packed = io.BytesIO()
    torch.save({"action_net.weight": Canary(tmp_path / "touched")}, packed)
    assert "holds more than weights, and is not loaded" in refusal(
        zipped(tmp_path / "a.zip", {**whole, "policy.pth": packed.getvalue()})
    )
    assert "damaged, or of a torch before 1.6" in refusal(
        zipped(tmp_path / "b.zip", {**whole, "policy.pth": pickle.dumps(Canary(tmp_path / "touched"))})
    )


def test_pickles_in_the_data_are_not_run(whole: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    canary = base64.b64encode(pickle.dumps(Canary(tmp_path / "touched"))).decode()
    fields = json.loads(whole["data"])
    poisoned = {
        key: {**value, ":serialized:": canary} if isinstance(value, dict) and ":serialized:" in value else value
        for key, value in fields.items()
    }
    path = zipped(tmp_path / "poisoned.zip", {**whole, "data": json.dumps(poisoned).encode()})
    load_policy(f"sb3:{path}", Spaces(VECTOR, CHOICE)).close()  # plays: its pickles are never looked at
    poisoned["policy_kwargs"] = {":type:": "<class 'dict'>", ":serialized:": canary,
                                 "features_extractor_class": "<class 'evil.Extractor'>"}  # fmt: skip
    path = zipped(tmp_path / "poisoned.zip", {**whole, "data": json.dumps(poisoned).encode()})
    assert "evil.Extractor" in refusal(path)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped", "..\\escaped"])
def test_names_outside_the_zip_are_refused(name: str, whole: Members, tmp_path: Path) -> None:
    assert "outside the zip" in refusal(zipped(tmp_path / "a.zip", {**whole, name: b"x"}))


def test_links_are_refused(whole: Members, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("policy.pth")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data", whole["data"])
        archive.writestr(link, "/etc/passwd")
    assert "has the link 'policy.pth'" in refusal(tmp_path / "a.zip")


def test_bombs_are_refused(whole: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_file, "LARGEST", 1 << 20)
    monkeypatch.setattr(zip_file, "_LARGEST_DATA", 1 << 20)
    zeros = bytes(1 << 21)
    assert "policy.pth unpacks to more than" in refusal(zipped(tmp_path / "a.zip", {**whole, "policy.pth": zeros}))
    assert "data unpacks to more than" in refusal(zipped(tmp_path / "a.zip", {**whole, "data": zeros}))
    nested = io.BytesIO()
    with zipfile.ZipFile(nested, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", zeros)
    assert "policy.pth unpacks to 2,097,152 bytes" in refusal(
        zipped(tmp_path / "a.zip", {**whole, "policy.pth": nested.getvalue()})
    )
    repeated = weights(whole, lambda state: state.update(log_std=torch.zeros(1).expand(1 << 30)))
    assert "the weights in policy.pth take more than" in refusal(zipped(tmp_path / "a.zip", repeated))
    many = {**whole, **{f"member{number}": b"" for number in range(1001)}}
    assert "has 1,00" in refusal(zipped(tmp_path / "a.zip", many))


def test_truncated_and_other_files_are_refused(whole: Members, tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", whole)
    full = path.read_bytes()
    for size in (0, 10, len(full) // 2, len(full) - 1):
        path.write_bytes(full[:size])
        assert "is not a complete zip of Stable-Baselines3" in refusal(path)
    damaged = bytearray(full)
    damaged[len(full) // 3] ^= 0xFF
    path.write_bytes(bytes(damaged))
    assert str(path) in refusal(path)
    assert "0 members named policy.pth" in refusal(zipped(path, {"data": b"{}"}))
    assert "its data is not JSON" in refusal(zipped(path, {**whole, "data": b"[" * 100_000}))
    assert "its data is not a JSON object" in refusal(zipped(path, {**whole, "data": b"[]"}))
    twice = zipped(path, whole)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("data", b"{}")
    assert "2 members named data" in refusal(twice)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "NaN": (lambda state: state["action_net.weight"].view(-1)[0].fill_(torch.nan), "not finite: 1 of"),
    "a layer of another width": (
        lambda state: state.update({"mlp_extractor.policy_net.2.weight": torch.zeros(64, 7)}),
        "Layer 0 gives 64 numbers, but layer 1 reads 7",
    ),
    "a bias of another width": (
        lambda state: state.update({"action_net.bias": torch.zeros(9)}),
        "they are not a layer",
    ),
    "other actions": (
        lambda state: state.update({"action_net.weight": torch.zeros(3, 64), "action_net.bias": torch.zeros(3)}),
        "The weights give 3 numbers; actions of Discrete(4) need 4",
    ),
    "other observations": (
        lambda state: state.update({"mlp_extractor.policy_net.0.weight": torch.zeros(64, 6)}),
        "its first layer reads 6 numbers, but its observations have 5",
    ),
    "a missing tensor": (lambda state: state.pop("action_net.bias"), "have no tensor 'action_net.bias'"),
    "a strange layer": (
        lambda state: state.update({"mlp_extractor.policy_net.x.weight": torch.zeros(1)}),
        "'mlp_extractor.policy_net.x' is not a layer",
    ),
    "no weights": (lambda state: state.clear() or {"a": 1}, "is not a list of named weights"),
    "another policy": (lambda state: state.clear() or {"net.weight": torch.zeros(1)}, "is not a policy of ppo, a2c"),
    "complex numbers": (lambda state: state.update(log_std=torch.zeros(1, dtype=torch.cfloat)), "not a plain array"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_do_not_fit_are_refused(change: str, whole: Members, tmp_path: Path) -> None:
    alter, message = CHANGES[change]
    assert message in refusal(zipped(tmp_path / "a.zip", weights(whole, alter)))


def test_fields_of_another_type_are_refused(whole: Members, tmp_path: Path) -> None:
    for fields, message in (
        ({"policy_kwargs": [1]}, "policy_kwargs is not an object"),
        ({"use_sde": "yes"}, "use_sde should be true or false"),
        ({"exploration_rate": {":type:": "<class 'numpy.float64'>"}}, "exploration_rate is <class 'numpy.float64'>"),
        ({"policy_kwargs": {"clip_mean": "two"}}, "clip_mean should be a number"),
        ({"action_space": {":type:": "<class 'x.Discrete'>", "n": "-3"}}, "a.zip"),
    ):
        assert message in refusal(zipped(tmp_path / "a.zip", data(whole, **fields)))
