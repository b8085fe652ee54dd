"""Routes for evaluations and tournaments: start one, follow its progress, read its result, replay an episode."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from mosaic.config.file_formats import read_json
from mosaic.core.errors import FormatError
from mosaic.runners.record import load_episode
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.evaluations.ratings import EnvRatings, read_ratings
from mosaic.server.evaluations.request import MODELS, Kind, parse_request
from mosaic.server.play.registry import Matches
from mosaic.server.schemas import ResponseModel


class OpenedReplay(ResponseModel):
    replay_id: str = Field(description="Of /replays/{replay_id}.")


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(examinations: EvaluationJobs, matches: Matches) -> APIRouter:
    router = APIRouter(tags=["evaluation"])
    for kind in MODELS:
        _add(router, kind, examinations, matches)

    @router.get("/ladder")
    def ladder(env: Annotated[str, Query(min_length=1, max_length=500)]) -> EnvRatings:
        """Rate policies and people by all tournaments, evaluations and recorded matches of an env on this server."""
        return read_ratings(env, examinations, matches.kept.all())

    return router


def _add(router: APIRouter, kind: Kind, examinations: EvaluationJobs, matches: Matches) -> None:
    path = f"/{kind}"

    @router.post(path, status_code=201, operation_id=f"begin_{kind}", openapi_extra=_describe(kind))
    def begin(body: Annotated[bytes, Depends(_body)]) -> ExaminationRow:
        """Start in the background and return at once; poll for the progress."""
        return examinations.begin(kind, _read(kind, body))

    @router.get(path, operation_id=f"list_{kind}")
    def list_them() -> list[ExaminationRow]:
        """List all, newest first, without their results."""
        return examinations.rows(kind)

    @router.get(f"{path}/{{examination_id}}", operation_id=f"show_{kind}")
    def show(examination_id: str) -> ExaminationRow:
        """Show the progress and the results so far."""
        return examinations.row(examination_id)

    @router.post(f"{path}/{{examination_id}}/stop", operation_id=f"stop_{kind}")
    def stop(examination_id: str) -> ExaminationRow:
        """End it without a result."""
        return examinations.stop(examination_id)

    @router.get(f"{path}/{{examination_id}}/episodes/{{index}}", operation_id=f"episode_of_{kind}")
    def episode(examination_id: str, index: int) -> Response:
        """Return the record of one episode, as a file that `mosaic replay` reads."""
        text = examinations.episode_file(examination_id, index).read_text(encoding="utf-8")
        name = f"{examination_id}-{index:06d}.episode.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="application/json", headers=headers)

    @router.post(f"{path}/{{examination_id}}/episodes/{{index}}/replay", status_code=201, operation_id=f"replay_{kind}")
    def replay(examination_id: str, index: int) -> OpenedReplay:
        """Start drawing one episode."""
        opened = matches.replay(load_episode(examinations.episode_file(examination_id, index)))
        return OpenedReplay(replay_id=opened.id)


def _read(kind: Kind, body: bytes) -> Any:
    try:
        data = read_json(body.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"The body is not a JSON document: {error}.") from error
    if not isinstance(data, dict):
        raise FormatError("The body is not a JSON object with 'environment' and policies.")
    return parse_request(kind, data)


@cache
def _describe(kind: Kind) -> dict[str, object]:
    schema = MODELS[kind].model_json_schema()
    defs = schema.pop("$defs", {})
    schema["properties"]["environment"] = defs["EnvironmentConfig"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
