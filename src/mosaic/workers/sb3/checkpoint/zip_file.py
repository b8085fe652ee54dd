"""SB3 zips, read without unpickling: weights by torch's safe loader, everything else from JSON."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mosaic.core.errors import FormatError, InputError, MissingExtraError
from mosaic.models.weights_file import check_finite
from mosaic.workers.sb3.checkpoint.facts import Array

POLICY = "policy"  # name of the one policy of a zip
WEIGHTS, DATA = "policy.pth", "data"
LARGEST = 1 << 30  # bytes of an unpacked policy; a forged zip may claim any size
_LARGEST_DATA = 1 << 28
_MOST_MEMBERS = 1000

Fields: TypeAlias = Mapping[str, Any]  # attributes of a model; those that are not JSON have text beside a pickle


class Sb3Zip(NamedTuple):
    """Contents of a zip that SB3 wrote."""

    path: Path
    fields: Fields
    weights: dict[str, Array]


def read_zip(path: Path) -> Sb3Zip:
    """Read a zip; nothing in it is unpickled, run or written to disk."""
    if not path.is_file():
        raise InputError(f"There is no file '{path}'. SB3's model.save() writes one that ends in .zip.")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive)
            data, packed = _read(path, archive, DATA, _LARGEST_DATA), _read(path, archive, WEIGHTS, LARGEST)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"'{path}' is not a complete zip of Stable-Baselines3: {error}.") from error
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"'{path}': its {DATA} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise FormatError(f"'{path}': its {DATA} is not a JSON object.")
    return Sb3Zip(path, fields, _arrays(path, _load(path, WEIGHTS, packed)))


def is_sb3_zip(path: Path) -> bool:
    """Return whether a file is a zip with the members that SB3 writes; none of them is read."""
    if path.suffix != ".zip" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {WEIGHTS, DATA} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return False


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    names = archive.namelist()
    if len(names) > _MOST_MEMBERS:
        raise FormatError(f"'{path}' has {len(names):,} members; SB3 writes fewer than ten.")
    for member in archive.infolist():
        parts = PurePosixPath(member.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts:
            raise FormatError(f"'{path}' has a member named '{member.filename}', outside the zip.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise FormatError(f"'{path}' has the link '{member.filename}'; SB3 writes plain files.")
    for name in (WEIGHTS, DATA):
        if names.count(name) != 1:
            raise FormatError(f"'{path}' has {names.count(name)} members named {name}; a zip of SB3 has one.")


def _read(path: Path, archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Read a member, but no more of it than allowed: its header may lie."""
    with archive.open(name) as member:
        found = member.read(most + 1) if archive.getinfo(name).file_size <= most else b""
    if len(found) > most or archive.getinfo(name).file_size > most:
        raise FormatError(f"'{path}': {name} unpacks to more than {most:,} bytes.")
    return found


def read_tensors(found: Sb3Zip, member: str) -> Any:
    """Return what torch's safe loader finds in another member: the state of an optimizer or learned coefficients."""
    try:
        with zipfile.ZipFile(found.path) as archive:
            if member not in archive.namelist():
                raise InputError(f"'{found.path}' has no member {member}, as a model of this algorithm has.")
            packed = _read(found.path, archive, member, LARGEST)
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"'{found.path}': {member} cannot be read: {error}.") from error
    return _load(found.path, member, packed)


def _load(path: Path, member: str, packed: bytes) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            f"'{path}' holds weights of torch, which is not installed: pip install 'mosaic-rl[torch]'"
        ) from error
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as inner:
            claimed = sum(member.file_size for member in inner.infolist())
        if claimed > LARGEST:
            raise FormatError(f"'{path}': {member} unpacks to {claimed:,} bytes, more than {LARGEST:,}.")
        return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
    except FormatError:
        raise
    except zipfile.BadZipFile as error:
        raise FormatError(
            f"'{path}': {member} is damaged, or of a torch before 1.6: load and save it with a newer one."
        ) from error
    except Exception as error:  # whatever a forged file makes torch raise; weights_only refuses by UnpicklingError
        reason = str(error).partition("\n")[0][:300]
        raise FormatError(f"'{path}': {member} holds more than weights, and is not loaded: {reason}") from error


def _arrays(path: Path, state: Any) -> dict[str, Array]:
    import torch

    tensors = state.items() if isinstance(state, Mapping) else ()
    if not tensors or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in tensors):
        raise FormatError(f"'{path}': {WEIGHTS} is not a list of named weights.")
    # A tensor may repeat one number of its storage: its declared size counts, not its size in the file.
    if sum(tensor.numel() for _, tensor in tensors) * 4 > LARGEST:
        raise FormatError(f"'{path}': the weights in {WEIGHTS} take more than {LARGEST:,} bytes.")
    found: dict[str, Array] = {}
    for name, tensor in tensors:
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise FormatError(f"'{path}': '{name}' is not a plain array of numbers.")
        found[name] = np.array(tensor.float().numpy(), np.float32)
        check_finite(found[name], f"'{path}': the numbers of '{name}'", FormatError)
    return found
