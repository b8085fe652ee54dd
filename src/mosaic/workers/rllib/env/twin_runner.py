"""Env runner for compiled envs with several agents: all envs are stepped at once, and cut into episodes afterwards.

RLlib's own runner spends most of its time on dictionaries of single numbers, one for each agent and step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.utils.metrics import (
    ENV_STEP_TIMER,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
    RLMODULE_INFERENCE_TIMER,
)

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.seeding import SEED_LIMIT, child_seed
from mosaic.envs.compiled.vector import CompiledVector, make_compiled_vector
from mosaic.workers.rllib.env.twin_episodes import TwinStep, episode_of, pieces_of
from mosaic.workers.rllib.env.twin_view import Rows, RunningTwinEpisode, TwinView, make_views


class TwinEnvRunner(MultiAgentEnvRunner):
    """Env runner for modules without memory and envs whose agents act and end together, as `runner_class` checks."""

    env: SyncVectorMultiAgentEnv
    _ongoing_episodes: list[RunningTwinEpisode]  # type: ignore[assignment]  # RLlib's own are created when they are cut out

    def make_env(self) -> None:
        environment = EnvironmentConfig.model_validate(self.config.env_config["environment"])
        self.num_envs = int(self.config.num_envs_per_env_runner)
        vector = make_compiled_vector(environment, self.num_envs)
        assert vector is not None
        self._vector: CompiledVector = vector
        views = make_views(self.config.env_config, vector)
        self._view: TwinView = views[0]
        self.env = SyncVectorMultiAgentEnv(env_fns=[lambda view=view: view for view in views])  # type: ignore[misc]
        self._needs_initial_reset = True
        self._steps: list[TwinStep] = []
        self._callback("on_environment_created", env_context=self.config.env_config)

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[MultiAgentEpisode]:
        if force_reset or num_episodes is not None or self._needs_initial_reset:
            self._begin()
        self._needs_initial_reset = num_episodes is not None
        ended = sampled = 0
        per_step = self.num_envs * (1 if self.config.count_steps_by == "env_steps" else len(self._view.names))
        while ended < num_episodes if num_episodes is not None else sampled < num_timesteps:  # type: ignore[operator]
            step = self._step(explore, random_actions)
            self._steps.append(step)
            ended += int(step.over.sum())
            sampled += per_step
            for index in range(self.num_envs):
                self._episode_callback("on_episode_step", index, self._ongoing_episodes[index])
        return self._cut(keep=num_timesteps is not None)

    def _begin(self) -> None:
        seed = int(np.random.default_rng().integers(SEED_LIMIT)) if self._seed is None else self._seed
        self._vector.reset(child_seed(seed, "runner", int(self.worker_index or 0)))
        self._shown = self._observed()
        self._steps.clear()
        self._ongoing_episodes_for_metrics.clear()
        self._ongoing_episodes = [self._running(index, uuid4().hex, 0) for index in range(self.num_envs)]
        self._groups = self._view.groups(self._module_of)

    def _module_of(self, agent: AgentID) -> str:
        mapping: Any = self.config.policy_mapping_fn
        return str(mapping(agent, None))

    def _step(self, explore: bool, random_actions: bool) -> TwinStep:
        vector, shown = self._vector, self._shown
        actions = np.empty(shown.shape[:2], np.int64)
        extras: dict[str, dict[str, NDArray[np.generic]]] = {}
        with self.metrics.log_time(RLMODULE_INFERENCE_TIMER):
            for module, agents in self._groups.items():
                with torch.no_grad():
                    answer = self._decide(module, agents, explore)
                actions[:, agents] = answer.pop(Columns.ACTIONS)
                extras[module] = answer
        if random_actions:
            for number, head in enumerate(vector.shape.heads):
                actions[:, number] = np.random.randint(head.width, size=self.num_envs)
        with self.metrics.log_time(ENV_STEP_TIMER):
            vector.step(actions.reshape(-1, 1).astype(np.float32))
        step = TwinStep(
            shown,
            actions,
            vector.rew.reshape(actions.shape).copy(),
            vector.term.reshape(actions.shape).astype(np.bool_),
            vector.trunc.reshape(actions.shape).astype(np.bool_),
            vector.fin.reshape(shown.shape).copy(),
            extras,
        )
        self._shown = self._observed()
        return step

    def _decide(self, module: str, agents: Sequence[int], explore: bool) -> dict[str, NDArray[np.generic]]:
        """Return actions and all other outputs of the module, each [envs, agents, …]."""
        network: Any = self.module[module]  # type: ignore[index]
        rows = self._view.rows(self._shown, agents)
        batch = {Columns.OBS: _mapped(rows, self._tensor)}
        if explore:
            answer = network.forward_exploration(batch, t=self._lifetime())
            dist = network.get_exploration_action_dist_cls()
        else:
            answer = network.forward_inference(batch)
            dist = network.get_inference_action_dist_cls()
        if Columns.ACTIONS not in answer:
            chances = dist.from_logits(answer[Columns.ACTION_DIST_INPUTS])
            chances = chances if explore else chances.to_deterministic()
            answer[Columns.ACTIONS] = chances.sample()
            answer[Columns.ACTION_LOGP] = chances.logp(answer[Columns.ACTIONS])
        shape = (self.num_envs, len(agents))
        return {
            name: value.cpu().numpy().reshape(*shape, *value.shape[1:])
            for name, value in answer.items()
            if isinstance(value, torch.Tensor)
        }

    def _tensor(self, rows: NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(rows.reshape(-1, rows.shape[-1])).to(self._device)

    def _observed(self) -> NDArray[np.float32]:
        vector = self._vector
        return vector.obs.reshape(self.num_envs, len(self._view.names), -1).copy()

    def _lifetime(self) -> int:
        """Return the approximate env steps of all runners, for exploration schedules."""
        runners = self.config.num_env_runners or 1
        return (self.num_env_steps_sampled_lifetime // runners + len(self._steps) * self.num_envs) * runners

    def _cut(self, *, keep: bool) -> list[MultiAgentEpisode]:
        """Return everything sampled as RLlib's episodes, ended ones first; the others continue if `keep` is set."""
        now = time.perf_counter()
        found: list[MultiAgentEpisode] = []
        for piece in pieces_of(self._steps, self._shown):
            running = self._ongoing_episodes[piece.env]
            episode: Any = episode_of(piece, running.name, running.started, self._view, self._groups)
            episode._start_time = episode._last_step_time = now
            if piece.over:
                found.append(episode)
                self._done_episodes_for_metrics.append(episode)
                self._episode_callback("on_episode_end", piece.env, episode)
                self._ongoing_episodes[piece.env] = self._running(piece.env, uuid4().hex, 0)
                self._episode_callback("on_episode_start", piece.env, self._ongoing_episodes[piece.env])
            elif keep:
                found.append(episode)
                self._ongoing_episodes_for_metrics[episode.id_].append(episode)
                self._ongoing_episodes[piece.env] = self._running(
                    piece.env, running.name, running.started + piece.length
                )
        self._count(len(self._steps), sum(episode.is_done for episode in found))
        self._steps.clear()
        return sorted(found, key=lambda episode: not episode.is_done)

    def _running(self, env: int, name: str, started: int) -> RunningTwinEpisode:
        return RunningTwinEpisode(name, env, started, self._view.names, self._steps)

    def _count(self, steps: int, episodes: int) -> None:
        sampled = steps * self.num_envs
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=sampled)
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED, sampled, reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, sampled, reduce="lifetime_sum", with_throughput=True)
        self.metrics.log_value(NUM_EPISODES, episodes, reduce="sum")
        self.metrics.log_value(NUM_EPISODES_LIFETIME, episodes, reduce="lifetime_sum")
        for agent in self._view.names:
            self.metrics.log_value((NUM_AGENT_STEPS_SAMPLED, agent), sampled, reduce="sum")
            self.metrics.log_value((NUM_AGENT_STEPS_SAMPLED_LIFETIME, agent), sampled, reduce="lifetime_sum")
        for module, agents in self._groups.items():
            rows = sampled * len(agents)
            self.metrics.log_value((NUM_MODULE_STEPS_SAMPLED, module), rows, reduce="sum")
            self.metrics.log_value((NUM_MODULE_STEPS_SAMPLED_LIFETIME, module), rows, reduce="lifetime_sum")

    def _episode_callback(self, name: str, env: int, episode: MultiAgentEpisode | RunningTwinEpisode) -> None:
        also: dict[str, object] = {"episode": episode, "rl_module": self.module, "env_index": env}
        if name == "on_episode_end":
            also["prev_episode_chunks"] = self._ongoing_episodes_for_metrics[episode.id_]
        self._callback(name, **also)

    def _callback(self, name: str, **also: object) -> None:
        make_callback(
            name,
            callbacks_objects=self._callbacks,
            callbacks_functions=getattr(self.config, f"callbacks_{name}"),
            kwargs={"env_runner": self, "metrics_logger": self.metrics, "env": self.env.unwrapped, **also},
        )


def _mapped(
    value: Rows, change: Callable[[NDArray[np.float32]], torch.Tensor]
) -> torch.Tensor | dict[str, torch.Tensor]:
    return {key: change(part) for key, part in value.items()} if isinstance(value, Mapping) else change(value)
