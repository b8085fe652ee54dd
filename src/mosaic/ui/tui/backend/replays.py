"""Recorded episodes for the terminal app, and their replays: those of this machine, or of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from mosaic.server.client.replays import ProcessReplay, ReplayLink, ServerReplay
from mosaic.server.play.replay_views import EpisodeRow, ReplayAsked

if TYPE_CHECKING:
    from mosaic.server.client.client import Client

_EPISODES = TypeAdapter(list[EpisodeRow])


class LocalReplays:
    def __init__(self, home: Path) -> None:
        self._home = home

    def episodes(self) -> list[EpisodeRow]:
        from mosaic.server.play.keeping import KeptEpisodes
        from mosaic.server.play.replay_views import episode_rows

        return episode_rows(KeptEpisodes(self._home))

    def open(self, asked: ReplayAsked) -> ReplayLink:
        return ProcessReplay(asked)


class RemoteReplays:
    def __init__(self, client: Client) -> None:
        self._client = client

    def episodes(self) -> list[EpisodeRow]:
        return _EPISODES.validate_json(self._client.send("GET", "/episodes").content)

    def open(self, asked: ReplayAsked) -> ReplayLink:
        return ServerReplay(self._client, asked)
