"""Mosaic: any policy can take any agent's place in any environment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mosaic.core.version import VERSION

if TYPE_CHECKING:
    from mosaic.envs.catalog import make_env as make_env
    from mosaic.evaluation.evaluate import evaluate as evaluate
    from mosaic.evaluation.tournament import tournament as tournament
    from mosaic.learners.tabular.learner import TabularLearner as TabularLearner
    from mosaic.policies.loaded import load_policy as load_policy
    from mosaic.policies.mapping import PolicyMapping as PolicyMapping
    from mosaic.runners.local import play_episode as play_episode
    from mosaic.runs.train import train as train
    from mosaic.runs.trainer import Trainer as Trainer

__version__ = VERSION

_HOMES = {
    "make_env": "mosaic.envs.catalog",
    "load_policy": "mosaic.policies.loaded",
    "PolicyMapping": "mosaic.policies.mapping",
    "play_episode": "mosaic.runners.local",
    "evaluate": "mosaic.evaluation.evaluate",
    "tournament": "mosaic.evaluation.tournament",
    "train": "mosaic.runs.train",
    "TabularLearner": "mosaic.learners.tabular.learner",
    "Trainer": "mosaic.runs.trainer",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import mosaic` stays light."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mosaic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
