"""Which checkpoints may go when a new one is there."""

from __future__ import annotations

from collections.abc import Iterable

from mosaic.store.checkpoint_record import Checkpoint


def best_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Those that were measured, by what the newest one is measured by; of equals the newest comes first."""
    newest = newest_first(checkpoints)
    alike = [c for c in newest if c.manifest.best_by == newest[0].manifest.best_by]
    rated = [(c.merit, c.rank, c) for c in alike if c.merit is not None]
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
