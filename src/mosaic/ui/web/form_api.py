"""Form API: what a training form outside of the browser needs from the server: facts about an env, and a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body, FastAPI, Query

from mosaic.config.loading import dump_run_config
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.server.errors import REFUSALS
from mosaic.server.schemas import CheckedRun
from mosaic.ui.web.data.env_info import EnvOffer, usual_algorithms

if TYPE_CHECKING:
    from mosaic.ui.web.data.facts import Facts

LONGEST_ENV = 500


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
