"""Files for the browser of the terminal app: those of this machine, or of the folders that a server shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.store.atomic import private_folder, write_atomic
from mosaic.store.folders import FilePurpose, FolderRow, Folders
from mosaic.store.store import home

if TYPE_CHECKING:
    from mosaic.server.client.client import Client

_REMEMBERED = "browser.json"


class LocalFiles:
    place = "this machine"

    def show(self, folder: str, purpose: FilePurpose) -> FolderRow:
        return Folders(None).show(folder, purpose)

    def read_config(self, file: str) -> str:
        return Folders(None).read_config(file)


class RemoteFiles:
    def __init__(self, client: Client) -> None:
        self._client, self.place = client, client.url

    def show(self, folder: str, purpose: FilePurpose) -> FolderRow:
        return self._client.ask(FolderRow, "GET", "/files", params={"folder": folder, "purpose": purpose})

    def read_config(self, file: str) -> str:
        return self._client.send("GET", "/files/config", params={"file": file}).text


def last_folder(place: str, purpose: FilePurpose) -> str:
    """Return the folder where something was chosen last; "" where nothing was, or the note of it is damaged."""
    try:
        folder = json.loads(_notes().read_text())[f"{purpose} {place}"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return folder if isinstance(folder, str) else ""


def remember_folder(place: str, purpose: FilePurpose, folder: str) -> None:
    """Note the folder where something was chosen, for the next time."""
    try:
        notes = json.loads(_notes().read_text())
    except (OSError, ValueError):
        notes = {}
    kept = notes if isinstance(notes, dict) else {}
    private_folder(home())
    write_atomic(_notes(), json.dumps({**kept, f"{purpose} {place}": folder}), 0o600)


def _notes() -> Path:
    return home() / _REMEMBERED
