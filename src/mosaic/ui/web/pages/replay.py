"""Replay page: recorded episodes, and one of them with a time slider."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import events, ui

from mosaic.ui.web.api import ask, ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import ago, env_title
from mosaic.ui.web.components.widgets import box, complain, empty, line_link, panel, raw
from mosaic.ui.web.pages.play_choices import labels_of, policies_for

_ICONS = ("play", "pause", "step", "alert")


class ReplayBoard(ui.element, component="../static/replay.js"):
    """Pictures of a recorded episode and a slider."""

    def __init__(self, replay_id: str, title: str, policies: list[str], labels: dict[str, str]) -> None:
        super().__init__()
        self.props.update(replay_id=replay_id, title=title, policies=policies, labels=labels)
        self.props["icons"] = {name: icon(name) for name in _ICONS}


async def page(
    frame: PageLayout, name: str = "", match: str = "", replay: str = "", demo: str = "", number: int = 0
) -> None:
    """Show the recorded episode `name`, the match `match` so far, the open replay, or a demonstration's episode."""
    frame.title(("Play", "/play"), "Replay")
    with box("m-page"):
        place = box()
    if replay:
        reply = await ask(f"/replays/{replay}", method="GET")
    elif name or match:
        reply = await ask("/replays", {"name": name} if name else {"match_id": match})
    elif demo:
        reply = await ask("/replays", {"demo": demo, "number": number})
    else:
        await _list(place)
        return
    if place.is_deleted:
        return
    with place:
        if not reply.ok:
            with panel("This episode cannot be replayed"):
                raw(escape(reply.error), "m-lead")
            return
        title = env_title(str(reply.document["env"]))
        frame.title(("Play", "/play"), ("Replay", "/replay"), title)
        rows = frame.facts.rows()
        offers = policies_for(str(reply.document["env"]), rows)
        labels = labels_of([*offers, *reply.document["policies"].values()], rows)
        ReplayBoard(str(reply.document["replay_id"]), title, offers, labels)


async def _list(place: ui.element) -> None:
    reply = await ask("/episodes", method="GET")
    if place.is_deleted:
        return
    if not reply.ok:
        complain(reply.error)
        return
    with place, box("m-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
        with panel("Recorded episodes", body="m-body tight"):
            for row in reply.document:
                episode_link(row)
            if not reply.document:
                empty('None yet. Switch on "Keep the episodes" in a match.')
        with panel("Your own file"):
            raw("An episode file from <code>mosaic play --record</code> or downloaded from a match.", "m-note")
            ui.upload(on_upload=_upload, auto_upload=True, max_files=1, label="Choose an episode file").classes("fill")


def episode_link(row: Mapping[str, Any]) -> None:
    """Show a recorded episode; its name begins with the env and the time, and is shown in full on hover."""
    name = str(row["name"])
    env = re.sub(r"-\d{8}-\d{6}-.*$", "", name)
    words = f"{row['bytes'] / 1000:.0f} kB · {ago(row['time'], time.time())}"
    line_link(env_title(env), words, f"/replay?{urlencode({'name': name})}", hover=name)


async def _upload(event: events.UploadEventArguments) -> None:
    try:
        episode = json.loads(await event.file.text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        complain(f"'{event.file.name}' is not an episode file: {error}.")
        return
    reply = await ask_or_complain("/replays", {"episode": episode})
    if reply is not None:
        ui.navigate.to(f"/replay?{urlencode({'replay': reply.document['replay_id']})}")
