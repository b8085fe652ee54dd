"""Are the runs there that a configuration speaks of? One that waits in a queue should not learn it hours later."""

from __future__ import annotations

from collections.abc import Iterator

from mosaic.config.run import RunConfig
from mosaic.core.errors import unknown
from mosaic.core.reference import parse_options, split_reference
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.home import Store
from mosaic.store.run_policy import RunPolicyOptions, parse_init, parse_run_reference


def check_mentioned_runs(config: RunConfig, store: Store) -> None:
    """Raises InputError for one that is not there. One that has saved nothing yet may still do so in time."""
    for reference in _references(config):
        kind, text = split_reference(reference)
        if kind == "run":
            run, _, policy = parse_run_reference(parse_options(reference, text, RunPolicyOptions, first="run").run)
            _check_run(run, policy, store)
    if config.training.init is not None and split_reference(config.training.init)[0] == "run":
        run, _, policy, _ = parse_init(config.training.init)
        _check_run(run, policy, store)


def _check_run(run: str, policy: str | None, store: Store) -> None:
    folder = store.resolve(run)
    saved = find_checkpoint(folder, missing_ok=True) if policy is not None else None
    if saved is not None and policy not in saved.manifest.policies:
        raise unknown(f"policy of run '{run}'", str(policy), saved.manifest.policies)


def _references(config: RunConfig) -> Iterator[str]:
    if not isinstance(config.agents, str):  # else code names them
        yield from config.agents.values()
    yield from config.evaluation.opponents
    opponents = config.training.params.get("opponents", ())
    if isinstance(opponents, list | tuple):
        yield from (each for each in opponents if isinstance(each, str))
