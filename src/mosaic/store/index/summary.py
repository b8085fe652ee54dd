"""Summary of one run, as listed in the index."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic.core.ids import EnvID
from mosaic.store.index.last_metrics import last_metrics
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import RunState, State, read_state


@dataclass(frozen=True, slots=True)
class RunSummary:
    run_id: str
    name: str
    tags: tuple[str, ...]
    state: State
    env: EnvID
    worker: str | None
    algorithm: str | None
    env_steps: int
    episode_reward_mean: float | None
    queued_at: float
    started: float | None  # seconds since 1970, like all times here
    ended: float | None
    group: str
    seed: int
    imported: bool


def summarise(folder: RunFolder, state: RunState | None = None) -> RunSummary:
    """Summarise a run from its folder alone; `state` replaces the actual state."""
    state = state or read_state(folder)
    config = folder.read_config()
    metrics = last_metrics(folder.metrics)
    return RunSummary(
        run_id=folder.run_id,
        name=config.name,
        tags=config.tags,
        state=state.state,
        env=config.environment.id,
        worker=config.training.worker,
        algorithm=config.training.algorithm,
        env_steps=metrics.env_steps,
        episode_reward_mean=metrics.episode_reward_mean,
        queued_at=state.queued_at,
        started=state.started,
        ended=state.ended,
        group=state.group,
        seed=config.seed,
        imported=folder.is_imported(),
    )
