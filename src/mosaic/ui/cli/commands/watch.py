"""The `mosaic watch` command: the live curve and pictures of a run or game on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from json import dumps
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import ServerOption

if TYPE_CHECKING:
    from mosaic.core.errors import UnknownNameError
    from mosaic.store.views import RunDetails
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.ui.cli.backend import Backend, BackendRun, BackendSession


def watch(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Run id, a unique prefix of one, a run name, or latest; or the id of an evaluation, game or match.",
        ),
    ],
    server: ServerOption = None,
    once: Annotated[bool, typer.Option("--once", help="Draw the curve once and exit.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.png", help="Save one picture and exit.")
    ] = None,
    env: Annotated[int, typer.Option("--env", min=0, help="Number of the env to show, counted from 0.")] = 0,
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=60, help="Pictures per second.")] = 10.0,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="NAME", help="Source of pictures, if the run has several: env-runner-2, evaluation."
        ),
    ] = None,
) -> None:
    """Watch a run's curve and pictures in the terminal; Ctrl-C leaves it running.

    Active evaluations, tournaments, games and matches can be watched too, by their id.
    """
    from mosaic.core.errors import InputError, UnknownNameError
    from mosaic.store.state import ENDED
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import out

    with open_backend(server) as there:
        try:
            watched = there.run(run)
        except UnknownNameError as error:
            from mosaic.ui.cli.watching import watch_session

            session = _session_instead(there, run, error)
            if source is not None:
                raise InputError(f"{session.id} has one source of pictures. Leave --source out.") from error
            watch_session(session, FrameRequest(rate), once=once, picture=picture)
            return
        shown_source = None if source is None else _source(watched, source)
        if picture is not None:
            _save(watched, picture, FrameRequest(rate, env), shown_source)
            return
        if once or watched.show().state in ENDED:
            _draw(watched, once)
        else:
            _follow(watched, FrameRequest(rate, env), shown_source)
        shown = watched.show()
        out.print(f"{shown.run_id} is {shown.state}" + (f": {shown.reason}" if shown.reason else "."))


def _session_instead(there: Backend, asked: str, error: UnknownNameError) -> BackendSession:
    """Return the live session with this id, or whose id begins with it."""
    rows = [row for row in there.sessions() if row.kind != "run"]
    exact = [row for row in rows if row.id == asked]
    begun = exact or [row for row in rows if row.id.startswith(asked)]
    if len(begun) == 1:
        return there.session(begun[0].id)
    if not rows:
        raise error
    from mosaic.core.errors import UnknownNameError

    played = ", ".join(f"{row.id} ({row.env})" for row in begun or rows)
    raise UnknownNameError(
        f"{str(error).rstrip('.')}. Active sessions, which can be watched by id: {played}."
    ) from error


_SEVERAL = ("rllib",)  # workers with a source of pictures for each env runner


def _source(watched: BackendRun, asked: str) -> str:
    """Return the source that was asked for; a run that has just begun may have none yet."""
    from mosaic.core.errors import InputError
    from mosaic.telemetry.frames.sources import EVALUATION, parse_source

    details = watched.show()
    source = parse_source(asked, details.sources)
    several = details.config["training"]["worker"] in _SEVERAL  # they may not be there yet, or restart
    if not details.sources and details.env_steps and source != EVALUATION and not several:
        raise InputError(
            f"The run {watched.id} has one source of pictures, or none, not '{asked}'. Leave --source out, or type "
            "--source evaluation to see only its evaluations."
        )
    return source


def _save(watched: BackendRun, path: Path, request: FrameRequest, source: str | None) -> None:
    from mosaic.core.errors import InputError
    from mosaic.store.state import ENDED
    from mosaic.telemetry.frames.sources import EVALUATION
    from mosaic.ui.cli.output import Throttle, note
    from mosaic.ui.cli.recording import PATIENCE_S, check_file, save, take

    check_file(path)
    details = watched.show()
    state = details.state
    if state in ENDED:
        from shlex import quote

        from mosaic.config.sections import EnvironmentConfig

        environment = EnvironmentConfig.model_validate(details.config["environment"])
        options = environment.model_dump(mode="json")["options"]
        settings = f" --set {quote(f'environment.options={dumps(options)}')}" if options else ""
        raise InputError(
            f"The run {watched.id} is {state}: it shows no more pictures. Record its policy: "
            f"mosaic evaluate {quote(environment.id)} --agent '*=run:{watched.id}'{settings} --video film.mp4"
        )
    check_drawn(watched.id, details)
    pace, alerts = Throttle(_LIST_EVERY_S, monotonic), PictureAlerts(watched)
    pace.due()  # most pictures are there at once

    def ended() -> bool:
        if not pace.due():
            return False
        now = watched.show()
        alerts.check(now)
        return now.state in ENDED

    patience_s = PATIENCE_S
    if source == EVALUATION:
        note(f"{waiting_for_evaluation(details)}, at most until the run ends. Ctrl-C leaves; the run continues.")
        patience_s = inf
    hint = {"hint": "env runners draw only while they collect experience"} if details.sources else {}
    with closing(watched.pictures(request, source)) as pictures:
        frame = take(pictures, watched.id, patience_s=patience_s, ended=ended, **hint)
        save(path, frame, watched.id)
        note(f"{path}: env {frame.env}, episode {frame.episode:,}, step {frame.step:,} ({pictures.state})")


class PictureAlerts:
    """Alerts of a run's current attempt that say why it draws nothing."""

    def __init__(self, watched: BackendRun) -> None:
        self._watched, self._read = watched, 0

    def check(self, details: RunDetails) -> None:
        """Raise MosaicError with the alert, if the run has raised one."""
        from mosaic.core.errors import MosaicError

        if details.last_seq <= self._read:
            return
        for event in self._watched.events(self._read):
            self._read = event["seq"]
            message = str(event.get("message", ""))
            current = event["attempt"] == len(details.attempts)
            if current and event["kind"] == "alert" and message.startswith(("No pictures", "No more pictures")):
                raise MosaicError(message)
            if self._read >= details.last_seq:
                return


def _draw(watched: BackendRun, once: bool) -> None:
    from mosaic.ui.cli.output import out
    from mosaic.ui.cli.watching import view_of

    view, last_seq = view_of(watched, curve=True), watched.show().last_seq
    for event in watched.events():
        view.add(event)
        if once and event["seq"] >= last_seq:
            break
    out.print(view.render(min(out.width, 100)))


_LEAVE = "Ctrl-C leaves; the run continues."
_LIST_EVERY_S = 2.0


def _follow(watched: BackendRun, request: FrameRequest, source: str | None) -> None:
    from mosaic.telemetry.frames.sources import EVALUATION
    from mosaic.ui.cli.output import Throttle
    from mosaic.ui.cli.pictures import PicturePane
    from mosaic.ui.cli.watching import follow, view_of

    view, pace = view_of(watched, curve=True), Throttle(_LIST_EVERY_S, monotonic)
    view.note = _LEAVE

    def list_sources() -> None:
        if pace.due():
            details = watched.show()
            view.note = " ".join(filter(None, (_LEAVE, sources_note(details.sources, source))))
            if source == EVALUATION:
                pane.waiting = f"{waiting_for_evaluation(details)}."

    with closing(watched.pictures(request, source)) as pictures:
        pane = PicturePane(pictures)
        follow(watched, view, pane=pane, rate_hz=max(4.0, request.rate_hz), after_event=list_sources)


def check_drawn(run_id: str, details: RunDetails) -> None:
    """Raise where a run was told to draw nothing."""
    from mosaic.core.errors import InputError

    if not details.config["telemetry"]["frames"]:
        raise InputError(f"The run {run_id} draws no pictures: it was started with telemetry.frames=false.")


def waiting_for_evaluation(details: RunDetails) -> str:
    """Return a line that says when the next evaluation is; its source of pictures exists only while it lasts."""
    now, every = details.env_steps or 0, details.config["evaluation"]["every_steps"]
    end, so_far = details.config["training"].get("total_timesteps"), f"{now:,} env steps so far"
    if every is None:
        return f"Waiting for the evaluation at the end of training ({so_far}; evaluation.every_steps is not set)"
    due = (now // every + 1) * every
    if end is not None and due >= end:
        return f"Waiting for the evaluation at the end of training, at {end:,} env steps ({so_far})"
    return f"Waiting for the next evaluation, at {due:,} env steps ({so_far})"


def sources_note(sources: Sequence[str], shown: str | None) -> str:
    """Return a line that names the sources of pictures; empty where there is nothing to choose from."""
    if not sources:
        return ""
    from mosaic.telemetry.frames.sources import EVALUATION

    known = ", ".join(dict.fromkeys((*sources, EVALUATION)))  # evaluations come and go
    return f"Pictures: {known}. Shown: {shown or 'the active one'}. Another: --source NAME."
