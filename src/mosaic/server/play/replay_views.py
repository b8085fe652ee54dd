"""Read models of recorded episodes and their replays, and what may be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from mosaic.core.episode import Reported, StepReport
from mosaic.core.errors import InputError
from mosaic.envs.board_cells import layout_json
from mosaic.server.schemas import ResponseModel

if TYPE_CHECKING:
    from mosaic.server.play.episode import Move
    from mosaic.server.play.keeping import KeptEpisodes
    from mosaic.server.play.registry import Matches
    from mosaic.server.play.replays import Replay

ANSWER_WITHIN_S = 90.0  # a policy may think this long before the match handles requests again


class EpisodeRow(ResponseModel):
    name: str
    bytes: int
    time: float = Field(description="When it was recorded, in seconds since 1970.")


class MoveRow(ResponseModel):
    step: int = Field(description="Env step that the move led to.")
    agent: str
    text: str = Field(description="As players write it.")
    places: list[list[float]] = Field(description="Its regions of the picture: left, top, width, height in fractions.")


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
    tables: bool = Field(description="Whether it has card tables.")
    moves: list[str] = Field(description="One text per step.")
    sides: dict[str, str] = Field(description="Side of each agent on a board for two, such as White; else empty.")
    board_moves: list[MoveRow] = Field(description="Moves on a board for two; empty for other envs.")
    layout: dict[str, JsonValue] | None = Field(description="Board of the last position; null for other envs.")
    rewards: list[dict[str, float]]


class TranscriptRow(ResponseModel):
    role: str = Field(description="system, user or assistant.")
    text: str
    note: str = Field(description="Tokens, seconds, why an answer was not accepted.")


class ReportRow(ResponseModel):
    """Report of a policy on one decision."""

    step: int = Field(description="Env step of the decision, counted from 0.")
    agent: str
    numbers: dict[str, bool | int | float | list[bool | int | float]]
    transcript: list[TranscriptRow]


class ReplayAsked(BaseModel):
    """Source of a replay: one of these."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    match_id: str | None = None
    episode: dict[str, object] | None = None
    demo: str | None = Field(None, description="Name of a demonstration.")
    number: int | None = Field(None, ge=0, description="Of the demonstration's episode; the last one if null.")


def episode_rows(kept: KeptEpisodes) -> list[EpisodeRow]:
    """Return the recorded matches, newest first."""
    rows = [(path, path.stat()) for path in kept.all()]
    return [
        EpisodeRow(name=path.name.removesuffix(".episode.json"), bytes=facts.st_size, time=facts.st_mtime)
        for path, facts in rows
    ]


def open_replay(matches: Matches, asked: ReplayAsked) -> Replay:
    """Start the replay of what was asked for."""
    from mosaic.runners.record import episode_from_json

    given = [source for source in ("name", "match_id", "episode", "demo") if getattr(asked, source) is not None]
    if len(given) != 1 or (asked.number is not None and asked.demo is None):
        raise InputError("Name what to replay: one of 'name', 'match_id', 'episode' and 'demo', this with a 'number'.")
    if asked.name is not None:
        return matches.replay_kept(asked.name)
    if asked.match_id is not None:
        return matches.replay(matches.find(asked.match_id).current_episode().result(ANSWER_WITHIN_S))
    if asked.episode is not None:
        return matches.replay(episode_from_json(asked.episode))
    assert asked.demo is not None
    return matches.replay_demo(asked.demo, asked.number)


def replay_row(replay: Replay) -> ReplayRow:
    episode, difference, game = replay.episode, replay.difference, replay.game
    board = game.board
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
        tables=replay.has_tables,
        moves=list(replay.moves),
        sides=dict(game.sides),
        board_moves=[_move_row(move) for move in list(game.moves)],
        layout=None if board is None or not board.cells else layout_json(board),
        rewards=[dict(rewards) for rewards in episode.rewards],
    )


def _move_row(move: Move) -> MoveRow:
    places = [list(rect) for rect in move.places]
    return MoveRow(step=move.step, agent=move.agent, text=move.written, places=places)


def report_rows(replay: Replay) -> list[ReportRow]:
    """Return what policies reported about their decisions, such as the transcripts of language models."""
    return [_report_row(each) for each in replay.episode.reports]


def _report_row(report: StepReport) -> ReportRow:
    said = [TranscriptRow(role=role, text=text, note=note) for role, text, note in report.report.transcript]
    numbers = {name: _listed(given) for name, given in report.report.numbers.items()}
    return ReportRow(step=report.step, agent=report.agent, numbers=numbers, transcript=said)


def _listed(given: Reported) -> bool | int | float | list[bool | int | float]:
    return list(given) if isinstance(given, Sequence) else given
