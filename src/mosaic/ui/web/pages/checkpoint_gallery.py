"""Checkpoints of a run, each with episodes that its policies played, to watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import NamedTuple, cast
from urllib.parse import urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.core.ids import Json, JsonObject
from mosaic.core.plugins import plugins
from mosaic.core.reference import split_reference
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.store.views import CheckpointRow, RunDetails
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import count, number
from mosaic.ui.web.components.widgets import box, button, complain, enable, panel, raw
from mosaic.ui.web.data.drawn_pictures import EPISODE_ADDRESS
from mosaic.ui.web.data.results import EpisodeDocument, EvaluationDocument

_EPISODES = 3
_SHOWN = 6  # checkpoints at first; more on demand
_MOST_EPISODES = 8
_WAIT_S = 1.0


class GalleryEpisode(NamedTuple):
    examination_id: str
    number: int
    result: str  # who won, or else the mean return of the agents
    length: int


def policy_of(run_id: str, checkpoint: CheckpointRow) -> str:
    return f"run:{run_id}@{checkpoint.env_steps}"


def played(jobs: EvaluationJobs, run_id: str) -> dict[str, list[GalleryEpisode]]:
    """Return the recorded episodes of each checkpoint, by its policy."""
    found: dict[str, list[GalleryEpisode]] = {}
    for row in jobs.rows("evaluate"):
        own = {policy for policy in row.request.get("agents", {}).values() if policy.startswith(f"run:{run_id}@")}
        if len(own) == 1 and row.request.get("record", True):
            found.setdefault(own.pop(), []).extend(_episodes(jobs.row(row.examination_id)))
    return found


def fixed_rules(config: Mapping[str, Json]) -> dict[str, str]:
    """Return the agents whose policies did not learn in the run: they play as in training."""
    agents = config.get("agents")
    rules = agents if isinstance(agents, Mapping) else {}
    known = plugins("mosaic.policies")
    return {agent: str(policy) for agent, policy in rules.items() if split_reference(str(policy))[0] in known}


def _episodes(row: ExaminationRow) -> list[GalleryEpisode]:
    if row.result is None:
        return []
    document = cast(EvaluationDocument, row.result)
    results = document["episode_results"]
    if document["distinct_games"] == 1 and len(results) > 1:
        return [
            GalleryEpisode(row.examination_id, 0, f"{len(results)} times: {_result(results[0])}", results[0]["length"])
        ]
    return [
        GalleryEpisode(row.examination_id, index, _result(each), each["length"]) for index, each in enumerate(results)
    ]


def _picture(episode: GalleryEpisode) -> str:
    """Return the image of the last position, drawn when it comes into view."""
    query = escape(urlencode({"examination": episode.examination_id, "index": episode.number}))
    return f'<img src="{EPISODE_ADDRESS}?{query}" alt="" loading="lazy" width="132" height="88">'


def _result(episode: EpisodeDocument) -> str:
    if episode["winner"]:
        return f"{episode['winner']} won"
    returns = [value for value in episode["returns"].values() if value is not None]
    return f"return {number(sum(returns) / len(returns))}" if returns else "no return"


class GalleryPanel:
    """Table of the checkpoints, newest first, with their episodes and a button that plays more."""

    def __init__(self, frame: PageLayout, details: RunDetails) -> None:
        self._jobs, self._run_id = frame.context.examinations, details.run_id
        self._environment: JsonObject = details.config["environment"]
        self._details = details
        self._drawn: tuple[object, ...] = ()
        self._all = False
        with box() as self._whole, panel("Checkpoints", hint="and episodes that they played", body="m-body tight"):
            self._body = box()
        self._whole.set_visibility(False)

    async def update(self, details: RunDetails) -> None:
        self._details = details
        if details.checkpoints:
            await self._show()

    async def _show(self) -> None:
        found = await threads.io_bound(played, self._jobs, self._run_id)
        checkpoints = self._details.checkpoints[::-1]
        if found is None or self._body.is_deleted or (checkpoints, found, self._all) == self._drawn:
            return
        self._drawn = (checkpoints, found, self._all)
        self._whole.set_visibility(True)
        self._body.clear()
        with self._body:
            for checkpoint in checkpoints if self._all else checkpoints[:_SHOWN]:
                self._row(checkpoint, found.get(policy_of(self._run_id, checkpoint), []))
            if len(checkpoints) > _SHOWN and not self._all:
                with box("r-more"):
                    button(f"Show all {len(checkpoints)} checkpoints", self._show_all, kind="ghost small")

    async def _show_all(self) -> None:
        self._all = True
        await self._show()

    def _row(self, checkpoint: CheckpointRow, episodes: Sequence[GalleryEpisode]) -> None:
        best = '<span class="m-tag accent">best</span>' if checkpoint.best else ""
        score = (
            f"rating {checkpoint.rating:,.0f}"
            if checkpoint.rating is not None
            else f"return {number(checkpoint.reward)}"
        )
        with box("r-saved"):
            raw(f'<b class="strong">{count(checkpoint.env_steps)}</b>{best}', "row")
            raw(escape(score) if (checkpoint.rating, checkpoint.reward) != (None, None) else "", "muted small")
            with box("row wrap r-episodes"):
                for each in episodes[:_MOST_EPISODES]:
                    words = f"{each.result} in {each.length} steps"
                    watch = raw(f"{_picture(each)}<span>{escape(words)}</span>", "r-episode", "button")
                    watch.props("type=button").props["aria-label"] = f"Watch an episode: {words}"
                    watch.on("click", partial(self._watch, each), [])
            play = button(f"Play {_EPISODES} episodes", glyph="plus", kind="small")
            play.on("click", lambda: self._play(checkpoint, play), [])

    async def _play(self, checkpoint: CheckpointRow, pressed: ui.html) -> None:
        """Let the checkpoint act for all agents in a few new episodes, and show them when they are over."""
        enable(pressed, False)
        request = {
            "environment": self._environment,
            "agents": {**fixed_rules(self._details.config), "*": policy_of(self._run_id, checkpoint)},
            "episodes": _EPISODES,
            "seed": len(self._jobs.rows("evaluate")),  # other episodes than before
        }
        reply = await ask_or_complain("/evaluate", request)
        if reply is None:
            enable(pressed, True)
            return
        examination_id = str(reply.document["examination_id"])

        async def look() -> None:
            row = await threads.io_bound(self._jobs.row, examination_id)
            if row is None or row.ended is None:
                return
            clock.cancel()
            if row.error:
                complain(row.error)
            self._drawn = ()
            await self._show()

        with self._whole:
            clock = ui.timer(_WAIT_S, look)

    async def _watch(self, episode: GalleryEpisode) -> None:
        reply = await ask_or_complain(f"/evaluate/{episode.examination_id}/episodes/{episode.number}/replay")
        if reply is not None:
            ui.navigate.to(f"/replay?replay={reply.document['replay_id']}")
