"""How nothing of a search stays alive when nobody drives it any more."""

from __future__ import annotations

import json

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.store.state import LIVE, State

_UNENDED = LIVE | {State.QUEUED}


def clear_search(folder: SearchFolder) -> None:
    """Ends Ray first, which could start further runs; then every run of the search is stopped and saved."""
    if folder.ray.exists():
        from mosaic.runtimes.ray.session import clean_up

        clean_up(json.loads(folder.ray.read_text()))
        folder.ray.unlink()
    alive = [run for run in runs_of(folder) if run.state in _UNENDED]
    for run in alive:
        run.stop(reason="its search ended", wait=False)
    for run in alive:
        run.wait()


def runs_of(folder: SearchFolder) -> list[Run]:
    return Trainer(folder.home).runs(group=folder.search_id)
