"""Download of a bundle: only the files in its manifest, bounded in size, and compared with their hashes.

Anyone may have written the repository. Files are streamed here instead of by huggingface_hub's own download, which
writes whatever a server sends.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.errors import FormatError, InputError
from mosaic.core.files import new_folder, write_new
from mosaic.exports.hub.client import HubError, check_repo, connect, explained, hub_tools
from mosaic.store.bundles.bundle import open_bundle
from mosaic.store.bundles.manifest import LARGEST_MANIFEST, MANIFEST, BundleManifest, parse_manifest
from mosaic.store.checkpoint_record import FileEntry

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

MOST_BYTES = 1 << 33  # of a whole bundle
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Pulled:
    """A bundle that was fetched and checked."""

    repo: str
    commit: str
    path: Path
    manifest: BundleManifest
    left_out: int  # files of the repository that do not belong to the bundle


def pull(
    repo: str,
    out: Path | str,
    *,
    revision: str | None = None,
    on_bytes: Callable[[int, int], None] = lambda done, total: None,
) -> Pulled:
    """Fetch a bundle into a new folder; nothing is left there if anything fails.

    `on_bytes` is called with the bytes fetched so far and those of the whole bundle.
    """
    name = check_repo(repo)
    target = Path(out).expanduser().absolute()
    if target.exists() or target.is_symlink():
        raise InputError(f"'{target}' exists. Name another folder with --out.")
    api = connect()
    with explained(name, api.endpoint):
        info = api.model_info(name, revision=revision, files_metadata=True)
        manifest = fetch_manifest(api, name, info)
        there = {each.rfilename for each in info.siblings or ()}
        missing = sorted(manifest.files.keys() - there)
        if missing:
            raise FormatError(f"'{name}' is not whole: '{missing[0]}' of its manifest is not in the repository.")
        total = sum(entry.size for entry in manifest.files.values())
        if total > MOST_BYTES:
            raise FormatError(f"'{name}' has {total:,} bytes; a bundle has at most {MOST_BYTES:,}.")
        target.parent.mkdir(parents=True, exist_ok=True)
        _require_space(target.parent, total)
        with new_folder(target) as folder:
            done = 0
            for file, entry in manifest.files.items():
                on_bytes(done, total)
                _fetch(api, name, info, file, entry, folder / file)
                done += entry.size
            on_bytes(done, total)
            write_new(folder / MANIFEST, _read(api, name, info, MANIFEST, LARGEST_MANIFEST), 0o644)
            open_bundle(folder)
    return Pulled(name, info.sha or "", target, manifest, len(there - manifest.files.keys() - {MANIFEST}))


def fetch_manifest(api: HfApi, repo: str, info: ModelInfo) -> BundleManifest:
    sizes = {each.rfilename: each.size for each in info.siblings or ()}
    if MANIFEST not in sizes:
        raise FormatError(f"'{repo}' is not a bundle of Mosaic: it has no {MANIFEST}. {_other_policies(repo, sizes)}")
    if (sizes[MANIFEST] or 0) > LARGEST_MANIFEST:
        raise FormatError(f"'{repo}': its {MANIFEST} is larger than {LARGEST_MANIFEST >> 20} MiB.")
    return parse_manifest(_read(api, repo, info, MANIFEST, LARGEST_MANIFEST), f"{MANIFEST} of '{repo}'")


def _other_policies(repo: str, names: Iterable[str]) -> str:
    """Return how to play what other programs put on the hub."""
    for suffix, kind in ((".zip", "sb3"), (".onnx", "onnx")):
        found = sorted(name for name in names if name.endswith(suffix))
        if found:
            words = "might be a policy of Stable-Baselines3" if kind == "sb3" else "might be a policy"
            fetch = shlex.join(["hf", "download", repo, found[0], "--local-dir", "FOLDER"])
            return f"'{found[0]}' {words}. Type: {fetch}, then play it as {kind}:FOLDER/{found[0]}"
    return "Bundles are made by: mosaic push RUN OWNER/NAME"


def _require_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise InputError(f"The bundle has {size:,} bytes, and '{folder}' has room for {free:,}. Name another --out.")


def _fetch(api: HfApi, repo: str, info: ModelInfo, file: str, entry: FileEntry, path: Path) -> None:
    """Stream one file to disk, at most as many bytes as its manifest says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as out:
        for piece in _pieces(api, repo, info, file):
            size += len(piece)
            if size > entry.size:
                break
            digest.update(piece)
            out.write(piece)
    if size < entry.size:
        raise HubError(f"The download of '{file}' was interrupted after {size:,} of {entry.size:,} bytes. Try again.")
    if size > entry.size or digest.hexdigest() != entry.sha256:
        raise FormatError(f"'{file}' of '{repo}' is not what its manifest says: its size or hash differs.")


def _read(api: HfApi, repo: str, info: ModelInfo, file: str, most: int) -> bytes:
    data = bytearray()
    for piece in _pieces(api, repo, info, file):
        data += piece
        if len(data) > most:
            raise FormatError(f"'{file}' of '{repo}' has more than {most:,} bytes.")
    return bytes(data)


def _pieces(api: HfApi, repo: str, info: ModelInfo, file: str) -> Iterator[bytes]:
    """Yield the content of a file at the commit that was looked at, in pieces."""
    from huggingface_hub import get_session, hf_hub_url

    tools = hub_tools()
    url = hf_hub_url(repo, file, revision=info.sha, endpoint=api.endpoint)
    headers = {**tools.build_hf_headers(token=api.token, library_name="mosaic-rl"), "Accept-Encoding": "identity"}
    with get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=30) as response:
        if response.status_code >= 400:
            response.read()
        tools.hf_raise_for_status(response)
        yield from response.iter_raw(_PIECE)
