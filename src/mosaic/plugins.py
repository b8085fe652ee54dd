"""Public API for authors of environments, policies, wrappers, workers and sinks; everything else may move."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "BASIC",
    "SHAPES_CHECKPOINTS",
    "Action",
    "AgentID",
    "Camera",
    "Checkpoint",
    "ChecksInit",
    "ChecksRuns",
    "ChoosesAlgorithm",
    "CompletesRuns",
    "ControllerOthers",
    "DecisionReport",
    "Env",
    "EnvEntry",
    "EnvFacts",
    "EnvFamily",
    "EnvID",
    "EnvSpec",
    "EnvironmentConfig",
    "Explains",
    "Explanation",
    "ExportablePolicy",
    "ExportsPolicies",
    "ForeignSource",
    "FormatError",
    "GymnasiumEnv",
    "InitSource",
    "InputError",
    "LeaguePlayers",
    "MakesPolicies",
    "Mask",
    "MetricEvent",
    "MissingExtraError",
    "MosaicError",
    "Observation",
    "Options",
    "PolicyController",
    "PolicyEntry",
    "PolicyID",
    "PolicyKind",
    "PolicyNumbers",
    "PolicyOptions",
    "PolicyRequest",
    "ReadsForeignCheckpoints",
    "Remembers",
    "Reports",
    "RunConfig",
    "Sampling",
    "Scene",
    "Screen",
    "Shot",
    "Sink",
    "TranscriptLine",
    "Transform",
    "Turn",
    "UnknownNameError",
    "Worker",
    "WorkerCapabilities",
    "WorkerContext",
    "child_seed",
    "evaluate_learners",
    "find_init",
    "from_pettingzoo",
    "options_schema",
    "policies_by_episode",
    "read_mapping",
    "read_policy_options",
    "require_trust_to_resume",
    "resolve_name",
    "unknown",
]

if TYPE_CHECKING:
    from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
    from mosaic.config.run import RunConfig
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.core.episode import DecisionReport, TranscriptLine
    from mosaic.core.errors import FormatError, InputError, MissingExtraError, MosaicError, UnknownNameError, unknown
    from mosaic.core.ids import AgentID, EnvID, PolicyID
    from mosaic.core.reference import Options
    from mosaic.core.seeding import child_seed
    from mosaic.core.turn import Action, Mask, Observation, Turn
    from mosaic.envs.adapters.gymnasium import GymnasiumEnv
    from mosaic.envs.adapters.pettingzoo import from_pettingzoo
    from mosaic.envs.env import Env, EnvFacts, EnvSpec
    from mosaic.envs.family import EnvEntry, EnvFamily, resolve_name
    from mosaic.envs.wrappers.transform import Transform
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.agent_roles import read_mapping
    from mosaic.policies.controller import (
        Explains,
        Explanation,
        PolicyController,
        PolicyKind,
        PolicyRequest,
        Remembers,
        Reports,
        Sampling,
    )
    from mosaic.runners.fixed_policies import ControllerOthers
    from mosaic.runners.screen import Screen, Shot
    from mosaic.store.archives.trust import require_trust_to_resume
    from mosaic.store.checkpoint_record import Checkpoint, PolicyEntry
    from mosaic.store.policies.foreign_checkpoint import ForeignSource
    from mosaic.store.policies.init_source import InitSource, find_init
    from mosaic.telemetry.events.event import MetricEvent
    from mosaic.telemetry.events.info_numbers import PolicyNumbers
    from mosaic.telemetry.sinks.base import Sink
    from mosaic.workers.api import (
        ChecksInit,
        ChecksRuns,
        ChoosesAlgorithm,
        CompletesRuns,
        ExportsPolicies,
        MakesPolicies,
        PolicyOptions,
        ReadsForeignCheckpoints,
        Worker,
        WorkerCapabilities,
    )
    from mosaic.workers.camera import Camera, Scene
    from mosaic.workers.context import WorkerContext
    from mosaic.workers.evaluation import LeaguePlayers, evaluate_learners, policies_by_episode
    from mosaic.workers.policy_settings import read_policy_options
    from mosaic.workers.registry import options_schema
else:
    from mosaic.core.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "mosaic.config.sections": ("EnvironmentConfig",),
            "mosaic.config.run": ("RunConfig",),
            "mosaic.config.field_types": ("BASIC", "SHAPES_CHECKPOINTS"),
            "mosaic.core.episode": ("DecisionReport", "TranscriptLine"),
            "mosaic.core.errors": (
                "FormatError",
                "InputError",
                "MissingExtraError",
                "MosaicError",
                "UnknownNameError",
                "unknown",
            ),
            "mosaic.core.ids": ("AgentID", "EnvID", "PolicyID"),
            "mosaic.core.reference": ("Options",),
            "mosaic.core.seeding": ("child_seed",),
            "mosaic.core.turn": ("Action", "Mask", "Observation", "Turn"),
            "mosaic.envs.env": ("Env", "EnvFacts", "EnvSpec"),
            "mosaic.envs.family": ("EnvEntry", "EnvFamily", "resolve_name"),
            "mosaic.envs.adapters.gymnasium": ("GymnasiumEnv",),
            "mosaic.envs.adapters.pettingzoo": ("from_pettingzoo",),
            "mosaic.envs.wrappers.transform": ("Transform",),
            "mosaic.learners.agent_roles": ("read_mapping",),
            "mosaic.policies.controller": (
                "Explains",
                "Explanation",
                "PolicyController",
                "PolicyKind",
                "PolicyRequest",
                "Remembers",
                "Reports",
                "Sampling",
            ),
            "mosaic.exports.policy": ("ExportablePolicy",),
            "mosaic.runners.fixed_policies": ("ControllerOthers",),
            "mosaic.runners.screen": ("Screen", "Shot"),
            "mosaic.store.checkpoint_record": ("Checkpoint", "PolicyEntry"),
            "mosaic.store.archives.trust": ("require_trust_to_resume",),
            "mosaic.store.policies.foreign_checkpoint": ("ForeignSource",),
            "mosaic.store.policies.init_source": ("InitSource", "find_init"),
            "mosaic.telemetry.events.event": ("MetricEvent",),
            "mosaic.telemetry.events.info_numbers": ("PolicyNumbers",),
            "mosaic.telemetry.sinks.base": ("Sink",),
            "mosaic.workers.api": (
                "ChecksInit",
                "ChecksRuns",
                "ChoosesAlgorithm",
                "CompletesRuns",
                "ExportsPolicies",
                "MakesPolicies",
                "PolicyOptions",
                "ReadsForeignCheckpoints",
                "Worker",
                "WorkerCapabilities",
            ),
            "mosaic.workers.policy_settings": ("read_policy_options",),
            "mosaic.workers.camera": ("Camera", "Scene"),
            "mosaic.workers.context": ("WorkerContext",),
            "mosaic.workers.evaluation": ("LeaguePlayers", "evaluate_learners", "policies_by_episode"),
            "mosaic.workers.registry": ("options_schema",),
        },
    )
