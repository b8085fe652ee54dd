"""Controller for policies that act with a user's own RLModule or connectors. It needs torch and RLlib, but not Ray."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.core.user_code import check_code_allowed
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import CodeFacts, PolicyFacts
from mosaic.workers.rllib.checkpoint.policy_view import PolicyView
from mosaic.workers.rllib.config.user_classes import connectors, load_rl_module
from mosaic.workers.rllib.learner.modules import module_class
from mosaic.workers.rllib.reporting.log_filter import keep_quiet

Outputs: TypeAlias = dict[str, Any]  # of a module, for one agent, by column
States: TypeAlias = Mapping[str, Any]  # of connectors, by the name of their class


class UserPolicyController:
    """Controller that acts as an env runner does: connectors, module, connectors.

    Every agent has an episode of its own, from which connectors and memory read what came before.
    """

    def __init__(self, path: Path, facts: PolicyFacts, code: CodeFacts, request: PolicyRequest) -> None:
        sampling = request.sampling
        if sampling is not None and sampling.temperature is not None:
            raise InputError(
                f"'{request.reference}' acts with its user's own classes, which draw actions themselves: use "
                "sample=true instead of a temperature."
            )
        keep_quiet()
        self._explore = sampling is not None
        self._view = PolicyView(path, facts, request)
        seen, acts = self._view.space, self._view.first.action_space
        config = _config(facts, code, seen, acts)
        both = {INPUT_ENV_SINGLE_SPACES: (seen, acts)}
        self._to_module: Any = config.build_env_to_module_connector(spaces=both)
        self._to_env: Any = config.build_module_to_env_connector(spaces=both)
        _restore(path.parent, code, self._to_module, self._to_env)
        own = None if code["rl_module"] is None else load_rl_module(code["rl_module"])
        self._module = module_class(facts["algorithm"], own)(
            observation_space=self._to_module.observation_space,
            action_space=acts,
            inference_only=True,
            model_config=dict(facts["model_config"]),
        )
        self._module.set_state(self._view.weights)
        self._draws = torch.Generator().manual_seed(request.seed).get_state()
        self._episodes: dict[AgentID, SingleAgentEpisode] = {}
        self._last: dict[AgentID, Outputs] = {}

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._episodes.clear()
        self._draws = torch.Generator().manual_seed(seed).get_state()

    def forget(self, agent: AgentID) -> None:
        self._episodes.pop(agent, None)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._act(agent, turn) for agent in turn.observations}

    def close(self) -> None:
        pass

    @torch.no_grad()
    def _act(self, agent: AgentID, turn: Turn) -> Action:
        code = self._view.code_of(agent)
        episode = self._with_new_observation(agent, turn)
        shared: dict[str, Any] = {}
        said = {"episodes": [episode], "explore": self._explore, "rl_module": self._module, "shared_data": shared}
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._draws)
            batch = self._to_module(batch={}, **said)
            forward = self._module.forward_exploration if self._explore else self._module.forward_inference
            outputs = self._to_env(batch=forward(batch), **said)
            self._draws = torch.get_rng_state()
        chosen = {column: values[0] for column, values in outputs.items()}
        action = chosen.pop(Columns.ACTIONS_FOR_ENV, chosen[Columns.ACTIONS])
        self._last[agent] = chosen
        return code.act(action)

    def _with_new_observation(self, agent: AgentID, turn: Turn) -> SingleAgentEpisode:
        shown = self._view.numbers(agent, turn.observations[agent], turn.action_masks.get(agent))
        episode = self._episodes.get(agent)
        if episode is None:
            view = self._view
            episode = SingleAgentEpisode(observation_space=view.space, action_space=view.first.action_space)
            episode.add_env_reset(observation=shown)
            self._episodes[agent] = episode
            return episode
        last = dict(self._last[agent])
        action = last.pop(Columns.ACTIONS)
        reward = float(turn.rewards.get(agent, 0.0))
        episode.add_env_step(observation=shown, action=action, reward=reward, extra_model_outputs=last)
        return episode


def _config(facts: PolicyFacts, code: CodeFacts, seen: Space[object], acts: Space[object]) -> AlgorithmConfig:
    """Return a configuration for one agent, whose pipelines are those of training."""
    config = AlgorithmConfig().environment(
        observation_space=seen,
        action_space=acts,
        normalize_actions=facts["normalize_actions"] and isinstance(acts, spaces.Box),
        clip_actions=facts["clip_actions"],
    )
    config.env_runners(
        env_to_module_connector=connectors("env_to_module", code["env_to_module"], ("env", "spaces", "device")),
        module_to_env_connector=connectors("module_to_env", code["module_to_env"], ("env", "spaces")),
    )
    return config


def connector_states(*pipelines: ConnectorPipelineV2) -> bytes:
    """Return the states of all connectors, pickled: only those who load the user's code anyway read them."""
    states = {type(each).__name__: each.get_state() for pipeline in pipelines for each in pipeline.connectors}
    return pickle.dumps({name: state for name, state in states.items() if state})


def _restore(folder: Path, code: CodeFacts, *pipelines: Any) -> None:
    """Restore the states of connectors, whose pickle is refused where code is: a forged file may name no other code."""
    if code["connectors"] is None:
        return
    check_code_allowed(code["connectors"])
    states: States = pickle.loads((folder / code["connectors"]).read_bytes())
    for pipeline in pipelines:
        for each in pipeline.connectors:
            if type(each).__name__ in states:
                each.set_state(states[type(each).__name__])
