"""Routes for matches (open, watch, play, download the episode) and for replays of recorded episodes."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket

from mosaic.config.sections import Section
from mosaic.runners.record import episode_to_json
from mosaic.server.play.match import Match
from mosaic.server.play.messages import Agent, Policy, read_request
from mosaic.server.play.registry import Matches
from mosaic.server.play.replay_views import (
    ANSWER_WITHIN_S,
    EpisodeRow,
    ReplayAsked,
    ReplayRow,
    ReportRow,
    episode_rows,
    open_replay,
    replay_row,
    report_rows,
)
from mosaic.server.play.requests import (
    MoveRequest,
    Position,
    RestartRequest,
    UndoRequest,
    WaitSeconds,
    make_move,
    see_position,
)
from mosaic.server.play.requests import restart as restart_episode
from mosaic.server.play.requests import undo as undo_move
from mosaic.server.play.socket import attend, read_claims
from mosaic.server.play.state import view_of
from mosaic.server.schemas import ResponseModel


class MatchRow(ResponseModel):
    match_id: str
    env: str
    phase: str
    step: int
    episode: int
    viewers: int
    started: float
    agents: dict[str, str] = Field(description="Agent → policy that acts for it now.")


class OpenedMatch(MatchRow):
    owner_key: str = Field(
        description="Secret of the match's owner, which lets a viewer give agents to other policies."
    )


class PlayOnRequest(Section):
    """Position of a replay to play on from, and who plays."""

    step: int = Field(ge=0, description="Env steps of the record to take first.")
    agents: dict[Agent, Policy] = Field(
        min_length=1, max_length=1000, description="Agent or pattern → policy; `human` is a person in a browser."
    )


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(matches: Matches) -> APIRouter:
    router = APIRouter(tags=["matches"])

    @router.post("/matches", status_code=201)
    def open_match(body: Annotated[bytes, Depends(_body)]) -> OpenedMatch:
        """Open a match and wait until its first position is ready."""
        return _opened(matches.open(read_request(body)))

    @router.get("/matches")
    def list_matches() -> list[MatchRow]:
        """List the matches, newest first, without those whose env is still being created."""
        return [_row(match) for match in matches.all() if match.is_open]

    @router.get("/matches/{match_id}")
    def show_match(match_id: str) -> dict[str, object]:
        """Return the state, as a spectator sees it."""
        return {**view_of(matches.find(match_id).state)}

    @router.delete("/matches/{match_id}", status_code=204)
    def end_match(match_id: str) -> None:
        """End the match."""
        matches.find(match_id).end("it was ended by a request.")

    @router.get("/matches/{match_id}/position")
    def position(match_id: str, agent: str | None = None, wait_s: Annotated[WaitSeconds, Query()] = 30.0) -> Position:
        """Return the position as text with the legal actions by name, once it is the turn of `agent`; without one, of
        any human agent that no viewer claims.
        """
        return see_position(matches.find(match_id), agent, wait_s)

    @router.post("/matches/{match_id}/moves")
    def move(match_id: str, asked: MoveRequest) -> Position:
        """Make a move and wait for the replies of the other agents."""
        return make_move(matches.find(match_id), asked)

    @router.post("/matches/{match_id}/restart")
    def restart(match_id: str, asked: RestartRequest) -> Position:
        """Begin the next episode."""
        return restart_episode(matches.find(match_id), asked)

    @router.post("/matches/{match_id}/undo")
    def undo(match_id: str, asked: UndoRequest) -> Position:
        """Take back a person's last move and the replies of policies to it. The record notes it."""
        return undo_move(matches.find(match_id), asked)

    @router.get("/matches/{match_id}/episode")
    def match_episode(match_id: str) -> Response:
        """Return the episode so far, as a file that `mosaic replay` reads."""
        episode = matches.find(match_id).current_episode().result(ANSWER_WITHIN_S)
        return _file(json.dumps(episode_to_json(episode)), f"{match_id}.episode.json")

    @router.websocket("/matches/{match_id}/stream")
    async def stream(
        socket: WebSocket, match_id: str, agent: Annotated[list[str] | None, Query()] = None, has_key: bool = False
    ) -> None:
        """Show the match to one viewer and take its moves. `agent`: the only agents it acts for; without, every human
        agent that no other viewer claims. `has_key`: it acts for the agents whose keys it shows.
        """
        match = await run_in_threadpool(matches.find, match_id)  # it may have to be restored
        await attend(socket, match, read_claims(agent or [], match, has_key=has_key), matches.check_policy)

    @router.get("/episodes")
    def list_episodes() -> list[EpisodeRow]:
        """List recorded matches, newest first."""
        return episode_rows(matches.kept)

    @router.get("/episodes/{name}")
    def episode_file(name: str) -> Response:
        """Return the record of a finished episode."""
        path = matches.kept.file(name)
        return _file(path.read_text(encoding="utf-8"), path.name)

    @router.post("/replays", status_code=201)
    def start_replay(asked: ReplayAsked) -> ReplayRow:
        """Replay a recorded episode by its name, a match's episode, or an uploaded one."""
        return replay_row(open_replay(matches, asked))

    @router.get("/replays/{replay_id}")
    def show_replay(replay_id: str) -> ReplayRow:
        """Show the moves and returns of a replay, and how much of it is drawn."""
        return replay_row(matches.find_replay(replay_id))

    @router.post("/replays/{replay_id}/matches", status_code=201)
    def play_on(replay_id: str, asked: PlayOnRequest) -> OpenedMatch:
        """Open a match that begins with the first steps of a recorded episode."""
        return _opened(matches.play_on(matches.find_replay(replay_id), asked.step, asked.agents))

    @router.get("/replays/{replay_id}/reports")
    def replay_reports(replay_id: str) -> list[ReportRow]:
        """Return what policies reported about their decisions, such as the transcripts of language models."""
        return report_rows(matches.find_replay(replay_id))

    @router.get("/replays/{replay_id}/tables/{step}")
    def replay_table(replay_id: str, step: int, agent: str | None = None) -> dict[str, object]:
        """Return the card table at a step: all of it, or what `agent` could see."""
        return {"table": matches.find_replay(replay_id).table(step, agent)}

    @router.get("/replays/{replay_id}/pictures/{step}")
    def replay_picture(replay_id: str, step: int) -> Response:
        """Return the picture of a step; waits until it is drawn."""
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


def _opened(match: Match) -> OpenedMatch:
    return OpenedMatch(**_row(match).model_dump(), owner_key=match.state.access.owner_key)


def _file(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="application/json", headers=headers)
