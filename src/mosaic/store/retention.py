"""Which checkpoints may go when a new one is there."""

from __future__ import annotations

from collections.abc import Iterable

from mosaic.store.checkpoint_record import Checkpoint


def best_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Those with a reward; of equals the newest comes first."""
    rated = [(c.reward, c.rank, c) for c in checkpoints if c.reward is not None]
    return [c for _, _, c in sorted(rated, key=lambda item: item[:2], reverse=True)]


def newest_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    return sorted(checkpoints, key=lambda c: c.rank, reverse=True)


def dispensable(
    checkpoints: Iterable[Checkpoint], written: Checkpoint, keep_last: int, keep_best: int
) -> list[Checkpoint]:
    """All but the newest and the best; the one just written, the only one surely whole, always stays."""
    everything = list(checkpoints)
    kept = {written.path}
    kept.update(c.path for c in newest_first(everything)[: max(keep_last, 1)])
    kept.update(c.path for c in best_first(everything)[:keep_best])
    return [c for c in everything if c.path not in kept]
