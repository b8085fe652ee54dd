"""Runs that a configuration mentions: whether they exist and may be used, known before the run waits in a queue."""

from __future__ import annotations

from collections.abc import Iterator

from mosaic.config.run import RunConfig
from mosaic.core.errors import unknown
from mosaic.core.reference import parse_options, split_reference
from mosaic.store.archives.trust import require_trust_to_play
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint, list_checkpoints
from mosaic.store.policies.run_policy import RunPolicyOptions, parse_init, parse_run_reference
from mosaic.store.store import Store


def check_mentioned_runs(config: RunConfig, store: Store, *, trust: bool | None = None) -> None:
    """Raise InputError for a run that is not there, and for a policy that needs code of a run that is not trusted.

    A run that has saved nothing yet may still do so in time.
    """
    for reference in _references(config):
        kind, text = split_reference(reference)
        if kind == "run":
            asked = parse_run_reference(parse_options(reference, text, RunPolicyOptions, first="run").run)
            saved = _find(*asked, store)
            if saved is not None:
                policy = asked[2]
                require_trust_to_play(saved, saved.manifest.policies if policy is None else (policy,), trust)
    if config.training.init is not None and split_reference(config.training.init)[0] == "run":
        run, which, policy, _ = parse_init(config.training.init)
        _find(run, which, policy, store)  # its weights are read, and no code that it names


def _find(run: str, which: Which, policy: str | None, store: Store) -> Checkpoint | None:
    folder = store.resolve(run)
    last = max((each.env_steps for each in list_checkpoints(folder)), default=-1)
    if last < 0 or (isinstance(which, int) and which > last):
        return None
    saved = find_checkpoint(folder, which)
    if policy is not None and policy not in saved.manifest.policies:
        raise unknown(f"policy of run '{run}'", policy, saved.manifest.policies)
    return saved


def _references(config: RunConfig) -> Iterator[str]:
    if not isinstance(config.agents, str):  # else code names them
        yield from config.agents.values()
    yield from config.evaluation.opponents
    opponents = config.training.params.get("opponents", ())
    if isinstance(opponents, list | tuple):
        yield from (each for each in opponents if isinstance(each, str))
