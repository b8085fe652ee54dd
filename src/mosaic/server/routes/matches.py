"""Routes for matches (open, watch, play, download the episode) and for replays of recorded episodes."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.websockets import WebSocket

from mosaic.core.errors import InputError
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.server.play.match import Match
from mosaic.server.play.messages import read_request
from mosaic.server.play.registry import Matches
from mosaic.server.play.replays import Replay
from mosaic.server.play.socket import attend, read_claims
from mosaic.server.play.state import view_of
from mosaic.server.schemas import ResponseModel

ANSWER_WITHIN_S = 90.0  # a policy may think this long before the match handles requests again


class MatchRow(ResponseModel):
    match_id: str
    env: str
    phase: str
    step: int
    episode: int
    viewers: int
    started: float
    agents: dict[str, str] = Field(description="Agent → policy that acts for it now.")


class EpisodeRow(ResponseModel):
    name: str
    bytes: int
    time: float = Field(description="When it was recorded, in seconds since 1970.")


class ReplayRow(ResponseModel):
    replay_id: str
    env: str
    seed: int
    env_steps: int
    drawn: int = Field(description="Steps whose pictures are ready; asking for a later one waits.")
    every: int = Field(description="Steps per picture.")
    done: bool
    same: bool | None = Field(description="Whether the replay equals the record bit for bit; null while it runs.")
    difference: str
    error: str
    policies: dict[str, str]
    returns: dict[str, float]
    moves: list[str]
    rewards: list[dict[str, float]]


class ReplayAsked(BaseModel):
    """Source of a replay: one of these."""

    name: str | None = None
    match_id: str | None = None
    episode: dict[str, object] | None = None


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(matches: Matches) -> APIRouter:
    router = APIRouter(tags=["matches"])

    @router.post("/matches", status_code=201)
    def open_match(body: Annotated[bytes, Depends(_body)]) -> MatchRow:
        """Open a match and wait until its first position is ready."""
        return _row(matches.open(read_request(body)))

    @router.get("/matches")
    def list_matches() -> list[MatchRow]:
        return [_row(match) for match in matches.all()]

    @router.get("/matches/{match_id}")
    def show_match(match_id: str) -> dict[str, object]:
        """Return the state, as a spectator sees it."""
        return {**view_of(matches.find(match_id).state)}

    @router.delete("/matches/{match_id}", status_code=204)
    def end_match(match_id: str) -> None:
        matches.find(match_id).end("it was ended by a request.")

    @router.get("/matches/{match_id}/episode")
    def match_episode(match_id: str) -> Response:
        """Return the episode so far, as a file that `mosaic replay` reads."""
        episode = matches.find(match_id).current_episode().result(ANSWER_WITHIN_S)
        return _file(json.dumps(episode_to_json(episode)), f"{match_id}.episode.json")

    @router.websocket("/matches/{match_id}/stream")
    async def stream(socket: WebSocket, match_id: str, agent: Annotated[list[str] | None, Query()] = None) -> None:
        """Serve one viewer. `agent`: the only agents it acts for; without, every human agent that no other viewer
        claims.
        """
        match = matches.find(match_id)
        await attend(socket, match, read_claims(agent or [], match), matches.check_policy)

    @router.get("/episodes")
    def list_episodes() -> list[EpisodeRow]:
        """List recorded matches, newest first."""
        rows = [(path, path.stat()) for path in matches.kept()]
        return [
            EpisodeRow(name=path.name.removesuffix(".episode.json"), bytes=facts.st_size, time=facts.st_mtime)
            for path, facts in rows
        ]

    @router.get("/episodes/{name}")
    def episode_file(name: str) -> Response:
        path = matches.kept_file(name)
        return _file(path.read_text(encoding="utf-8"), path.name)

    @router.post("/replays", status_code=201)
    def open_replay(asked: ReplayAsked) -> ReplayRow:
        """Replay a recorded episode by its name, a match's episode, or an uploaded one."""
        return _replay_row(_replay(matches, asked))

    @router.get("/replays/{replay_id}")
    def show_replay(replay_id: str) -> ReplayRow:
        return _replay_row(matches.find_replay(replay_id))

    @router.get("/replays/{replay_id}/pictures/{step}")
    def replay_picture(replay_id: str, step: int) -> Response:
        picture = matches.find_replay(replay_id).picture(step)
        return Response(picture.data, media_type=f"image/{picture.format}", headers={"Cache-Control": "max-age=3600"})

    return router


def _row(match: Match) -> MatchRow:
    state, episode = match.state, match.state.episode
    with state.changed:
        return MatchRow(
            match_id=match.id,
            env=episode.known_spec.env_id,
            phase=episode.phase,
            step=episode.step,
            episode=episode.number,
            viewers=len(state.viewers.all),
            started=match.started,
            agents={agent: state.assignments.policy_of(agent) for agent in episode.agents},
        )


def _replay(matches: Matches, asked: ReplayAsked) -> Replay:
    if asked.name is not None:
        return matches.replay_kept(asked.name)
    if asked.match_id is not None:
        return matches.replay(matches.find(asked.match_id).current_episode().result(ANSWER_WITHIN_S))
    if asked.episode is not None:
        return matches.replay(episode_from_json(asked.episode))
    raise InputError("Name what to replay: 'name', 'match_id' or 'episode'.")


def _replay_row(replay: Replay) -> ReplayRow:
    episode, difference = replay.episode, replay.difference
    return ReplayRow(
        replay_id=replay.id,
        env=replay.environment.id,
        seed=episode.seed,
        env_steps=episode.env_steps,
        drawn=replay.drawn,
        every=replay.every,
        done=replay.done,
        same=None if not replay.done or replay.error else difference is None,
        difference="" if difference is None else f"step {difference.step}: {difference.what}",
        error=replay.error,
        policies=dict(episode.policies),
        returns=episode.returns,
        moves=list(replay.moves),
        rewards=[dict(rewards) for rewards in episode.rewards],
    )


def _file(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="application/json", headers=headers)
