"""Mosaic: a reinforcement learning workbench in which any policy can play any agent in any environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mosaic.core.version import VERSION

__version__ = VERSION

__all__ = [
    "Episode",
    "EpisodeLostError",
    "Evaluation",
    "InputError",
    "LoadedPolicy",
    "MosaicCallback",
    "MosaicError",
    "MosaicRllibCallback",
    "MosaicTuneCallback",
    "PolicyClient",
    "PolicyMapping",
    "Project",
    "Run",
    "RunFailedError",
    "TabularLearner",
    "Tournament",
    "Trainer",
    "as_pettingzoo",
    "bundle",
    "emit_checkpoint",
    "emit_metric",
    "evaluate",
    "export",
    "live_screen",
    "load_demo",
    "load_policy",
    "make_env",
    "play_episode",
    "plugins",
    "project_here",
    "pull",
    "push",
    "record_demo",
    "save_policy_network",
    "testing",
    "tournament",
    "train",
]

if TYPE_CHECKING:
    from mosaic import plugins, testing
    from mosaic.core.episode import Episode
    from mosaic.core.errors import InputError, MosaicError
    from mosaic.envs.adapters.to_pettingzoo import as_pettingzoo
    from mosaic.envs.catalog import make_env
    from mosaic.evaluation.evaluate import Evaluation, evaluate
    from mosaic.evaluation.standings import Tournament
    from mosaic.evaluation.tournament import tournament
    from mosaic.exports.bundles.make import bundle
    from mosaic.exports.export import export
    from mosaic.exports.hub.pull import pull
    from mosaic.exports.hub.push import push
    from mosaic.learners.tabular.learner import TabularLearner
    from mosaic.models.weights_file import save_policy_network
    from mosaic.policies.loaded import LoadedPolicy, load_policy
    from mosaic.policies.mapping import PolicyMapping
    from mosaic.runners.local import play_episode
    from mosaic.runs.run import Run
    from mosaic.runs.train import RunFailedError, train
    from mosaic.runs.trainer import Trainer
    from mosaic.server.client.policy_channel import EpisodeLostError
    from mosaic.server.client.policy_client import PolicyClient
    from mosaic.store.demos.recording import record_demo
    from mosaic.store.demos.reference import load_demo
    from mosaic.store.live_sessions import live_screen
    from mosaic.store.projects.project import Project, project_here
    from mosaic.telemetry.events.lines import emit_metric
    from mosaic.workers.script.callbacks.rllib import MosaicRllibCallback
    from mosaic.workers.script.callbacks.sb3 import MosaicCallback
    from mosaic.workers.script.callbacks.tune import MosaicTuneCallback
    from mosaic.workers.script.checkpoints import emit_checkpoint
else:
    from mosaic.core.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "mosaic.plugins": (),
            "mosaic.testing": (),
            "mosaic.core.episode": ("Episode",),
            "mosaic.core.errors": ("InputError", "MosaicError"),
            "mosaic.envs.adapters.to_pettingzoo": ("as_pettingzoo",),
            "mosaic.envs.catalog": ("make_env",),
            "mosaic.evaluation.evaluate": ("Evaluation", "evaluate"),
            "mosaic.evaluation.standings": ("Tournament",),
            "mosaic.evaluation.tournament": ("tournament",),
            "mosaic.exports.bundles.make": ("bundle",),
            "mosaic.exports.export": ("export",),
            "mosaic.exports.hub.pull": ("pull",),
            "mosaic.exports.hub.push": ("push",),
            "mosaic.learners.tabular.learner": ("TabularLearner",),
            "mosaic.models.weights_file": ("save_policy_network",),
            "mosaic.policies.loaded": ("LoadedPolicy", "load_policy"),
            "mosaic.policies.mapping": ("PolicyMapping",),
            "mosaic.runners.local": ("play_episode",),
            "mosaic.runs.run": ("Run",),
            "mosaic.runs.train": ("RunFailedError", "train"),
            "mosaic.runs.trainer": ("Trainer",),
            "mosaic.store.demos.recording": ("record_demo",),
            "mosaic.store.demos.reference": ("load_demo",),
            "mosaic.server.client.policy_channel": ("EpisodeLostError",),
            "mosaic.server.client.policy_client": ("PolicyClient",),
            "mosaic.store.live_sessions": ("live_screen",),
            "mosaic.store.projects.project": ("Project", "project_here"),
            "mosaic.telemetry.events.lines": ("emit_metric",),
            "mosaic.workers.script.callbacks.rllib": ("MosaicRllibCallback",),
            "mosaic.workers.script.callbacks.sb3": ("MosaicCallback",),
            "mosaic.workers.script.callbacks.tune": ("MosaicTuneCallback",),
            "mosaic.workers.script.checkpoints": ("emit_checkpoint",),
        },
    )
