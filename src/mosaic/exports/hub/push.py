"""Upload of a bundle to a repository of the hub, in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.errors import FormatError, InputError
from mosaic.exports.hub.client import check_repo, connect, explained
from mosaic.exports.hub.pull import fetch_manifest
from mosaic.store.bundles.bundle import open_bundle
from mosaic.store.bundles.manifest import CARD, MANIFEST

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_OURS = frozenset({".gitattributes", CARD})  # what the hub writes into a new repository


@dataclass(frozen=True, slots=True)
class Pushed:
    """A bundle that is on the hub."""

    repo: str
    url: str
    commit: str
    files: int
    size: int  # bytes


def push(bundle: Path | str, repo: str, *, private: bool = False, overwrite: bool = False) -> Pushed:
    """Upload a bundle, whose every file is checked first.

    A repository that holds files is changed only with `overwrite`: the files of its earlier bundle are replaced.
    """
    name = check_repo(repo)
    made = open_bundle(Path(bundle).expanduser().absolute())
    api = connect()
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    files = sorted([MANIFEST, *made.manifest.files])
    with explained(name, api.endpoint):
        old = _files_there(api, name, overwrite)
        if old is None:
            api.create_repo(name, private=private, repo_type="model", exist_ok=True)
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path_in_repo=each, path_or_fileobj=made.path / each) for each in files
        ]
        operations += [CommitOperationDelete(path_in_repo=each) for each in sorted((old or set()) - set(files))]
        commit = api.create_commit(name, operations, commit_message=f"Bundle of {made.manifest.name}")
    size = made.size + (made.path / MANIFEST).stat().st_size
    return Pushed(name, f"{api.endpoint}/{name}", commit.oid, len(files), size)


def _files_there(api: HfApi, repo: str, overwrite: bool) -> set[str] | None:
    """Return the files of an earlier bundle, to be removed; None if there is no repository yet."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = api.model_info(repo, files_metadata=True)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        return None
    there = {each.rfilename for each in info.siblings or ()}
    if there <= _OURS:
        return set()
    if not overwrite:
        raise InputError(
            f"'{repo}' exists and holds {len(there)} files. Name another repository, or replace the bundle in it with "
            "--force."
        )
    if MANIFEST not in there:
        return set()
    try:
        manifest = fetch_manifest(api, repo, info)
    except FormatError:
        return set()  # files of something else stay
    return there & manifest.files.keys()
