"""API of the pages: curves of several runs in one response, their statistics, and facts for a training form."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from threading import Thread
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Query, Response
from fastapi.responses import JSONResponse

from mosaic.config.loading import dump_run_config
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.evaluation.across_envs import parse_range
from mosaic.server.context import ServerContext
from mosaic.server.errors import REFUSALS
from mosaic.server.schemas import CheckedRun
from mosaic.telemetry.curves.curves import Axis
from mosaic.ui.series import GROUP, MOST_POINTS, ManySeries, SeriesQuery, catch_up, folders_of, read_series
from mosaic.ui.study import compare_selected, scored_groups
from mosaic.ui.study_files import as_csv, as_png
from mosaic.ui.web.data.env_info import EnvOffer, usual_algorithms
from mosaic.ui.web.data.facts import Facts, settings_of

LONGEST_ENV = 500


def add_series_routes(app: FastAPI, context: ServerContext) -> None:
    @app.get("/series", responses=REFUSALS, tags=["metrics"])
    def series(
        ref: Annotated[list[str], Query(max_length=50)],
        metric: Annotated[list[str], Query(max_length=50)],
        x: Axis = "env_steps",
        points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 500,
        start: Annotated[float | None, Query(allow_inf_nan=False)] = None,
        stop: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    ) -> ManySeries:
        """Return every metric of every run or seed group (`group:NAME`) that has it, where start ≤ x ≤ stop."""
        return read_series(context.store, SeriesQuery(tuple(ref), tuple(metric), x, points, start, stop))

    @app.get("/statistics", response_class=JSONResponse, responses=REFUSALS, tags=["metrics"])
    def statistics(
        run: Annotated[list[str], Query(min_length=1, max_length=1000, description="Runs to compare.")],
        by: Annotated[
            str, Query(max_length=200, description="Setting that distinguishes methods: algorithm, name, …")
        ] = "",
        normalize: Annotated[list[str], Query(max_length=100, description="ENV=LOW:HIGH")] = [],  # noqa: B006
        format: Literal["json", "csv", "png"] = "json",
    ) -> Response:
        """Return statistics of methods over seeds and envs: of the runs' scores, with 95 % bootstrap intervals."""
        store = context.store
        wanted = {store.resolve(ref).run_id for ref in run}
        rows = [row for row in store.index.list() if row.run_id in wanted]
        groups = scored_groups(rows, lambda row: settings_of(store.folder(row.run_id)))
        compared = compare_selected(groups, by, dict(map(parse_range, normalize)))
        if compared.study is None:
            raise InputError(compared.reason)
        match format:
            case "json":
                return JSONResponse(compared.study)
            case "csv":
                return Response(as_csv(compared.study), media_type="text/csv")
            case "png":
                return Response(as_png(compared.study), media_type="image/png")


def read_ahead(context: ServerContext, refs: Sequence[str]) -> None:
    """Read in the background what a page will request soon, while its browser still loads it."""
    folders = [folder for ref in refs for folder in folders_of(context.store, ref)]
    Thread(target=catch_up, args=(folders,)).start()
    if any(ref.startswith(GROUP) for ref in refs):
        Thread(target=import_module, args=("scipy.special",)).start()  # a band needs it, and its import takes long


def add_form_routes(app: FastAPI, facts: Facts) -> None:
    @app.get("/form/env", responses=REFUSALS, tags=["catalog"])
    def env(id: Annotated[str, Query(min_length=1, max_length=LONGEST_ENV)]) -> EnvOffer:
        """Return the agents of an env, their spaces and policies, and the algorithms that workers choose for it."""
        try:
            return EnvOffer(facts.look(id), usual_algorithms(id))
        except UnknownNameError as error:  # of the env, not of this address
            raise InputError(str(error)) from error

    @app.post("/form/check", responses=REFUSALS, tags=["catalog"])
    def check(document: Annotated[dict[str, Any], Body()]) -> CheckedRun:
        """Resolve a configuration as a start would, without starting anything."""
        checked = facts.check(document)
        return CheckedRun(
            config=None if checked.config is None else dump_run_config(checked.config), error=checked.error
        )
