"""Demonstrations of a server, with the same verbs as `KeptDemos` for those of this machine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError
from mosaic.core.files import write_atomic
from mosaic.runners.record import episode_to_json
from mosaic.server.client.client import Client
from mosaic.store.demos.demonstration import check_demo_name
from mosaic.store.demos.summary import DemoDetails, DemoRow


class _DemoList(BaseModel):
    demonstrations: list[DemoRow]
    problems: list[str]


class RemoteDemos:
    """Demonstrations of one server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def rows(self) -> tuple[list[DemoRow], list[str]]:
        found = self._client.ask(_DemoList, "GET", "/demos")
        return found.demonstrations, found.problems

    def details(self, name: str) -> DemoDetails:
        return self._client.ask(DemoDetails, "GET", _path(name))

    def drop(self, name: str, episodes: Collection[int] = (), last: int | None = None) -> DemoDetails:
        asked = {"episodes": sorted(episodes)} if episodes else {"last": last}
        return self._client.ask(DemoDetails, "POST", _path(name, "drop"), json=asked)

    def trim(self, name: str, episode: int | None, first: int, last: int | None) -> DemoDetails:
        asked = {"episode": episode, "first": first, "last": last}
        return self._client.ask(DemoDetails, "POST", _path(name, "trim"), json=asked)

    def filter(self, name: str, agent: str | None, least: float | None, most: float | None) -> DemoDetails:
        asked = {"agent": agent, "min_return": least, "max_return": most}
        return self._client.ask(DemoDetails, "POST", _path(name, "filter"), json=asked)

    def delete(self, name: str) -> None:
        self._client.send("DELETE", _path(name))

    def export(self, name: str, target: Path) -> Path:
        if target.exists():
            raise InputError(f"'{target}' already exists. Choose another file.")
        write_atomic(target, self._client.send("GET", _path(name, "archive")).content)
        return target

    def add_archive(self, name: str | None, path: Path) -> DemoDetails:
        name = check_demo_name(name or path.stem)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise InputError(f"There is no file '{path}'.") from error
        return self._client.ask(DemoDetails, "POST", _path(name, "archive"), content=content)

    def add_episode(self, name: str, episode: Episode) -> DemoDetails:
        return self._client.ask(DemoDetails, "POST", _path(name, "episodes"), json=episode_to_json(episode))


def _path(*parts: str) -> str:
    return "/demos/" + "/".join(quote(part, safe="") for part in parts)
