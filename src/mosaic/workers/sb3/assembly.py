"""Parts of a run, put together: envs, model, policies that do not train, and normalization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from mosaic.config.run import RunConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.env import EnvSpec
from mosaic.learners.agent_roles import AgentRoles
from mosaic.workers.sb3.buffers import leave_out_idle
from mosaic.workers.sb3.config.algorithms import ALGORITHMS
from mosaic.workers.sb3.config.build import make_idle_model, make_model, model_seed
from mosaic.workers.sb3.config.options import Sb3Options
from mosaic.workers.sb3.env.make import make_vec_env, places_of
from mosaic.workers.sb3.env.slots import SlotVecEnv
from mosaic.workers.sb3.env.tally import TallyVecEnv
from mosaic.workers.sb3.state import Arrays, end_episodes

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_COMPILED = ("state", "ints", "rng", "obs", "mask", "who", "active")


@dataclass(frozen=True, slots=True)
class Assembly:
    policy: PolicyID  # the one that trains
    models: Mapping[PolicyID, BaseAlgorithm]
    agents_of: Mapping[PolicyID, tuple[AgentID, ...]]
    roles: AgentRoles
    tally: TallyVecEnv
    normalizer: VecNormalize | None
    masks: bool  # the algorithm knows action masks
    masked: bool  # the env has some
    said: str  # for people

    @property
    def model(self) -> BaseAlgorithm:
        return self.models[self.policy]

    def scaler(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Return shift and scale of observations; None if they are not normalized."""
        normalizer = self.normalizer
        if normalizer is None or not normalizer.norm_obs:
            return None
        moments: Any = normalizer.obs_rms
        scale = 1 / np.sqrt(moments.var + normalizer.epsilon)
        return moments.mean.ravel().astype(np.float32), scale.ravel().astype(np.float32)


def assemble(
    config: RunConfig, options: Sb3Options, spec: EnvSpec, roles: AgentRoles, before: Assembly | None = None
) -> Assembly:
    """Make everything that a run trains with; with `before`, new envs around the same models."""
    algorithm = config.training.algorithm or next(iter(ALGORITHMS))
    runners, places = config.resources.num_env_runners or 1, places_of(roles, spec)
    made = make_vec_env(config, spec, roles, compiled=options.compiled_env, runners=runners)
    tally = TallyVecEnv(made.env, getattr(options, "stats_window_size", 100))
    names, agent = roles.plan.names, places.learners[0]
    agents_of = {name: roles.plan.agents_of(number, roles.learners) for number, name in enumerate(names)}
    policy = next(name for name in names if agent in agents_of[name])
    env, normalizer = _normalized(tally, options)
    if before is None:
        models = _idle_models(config, options, spec, agents_of, places.frozen)
        models[policy] = make_model(
            algorithm,
            options,
            env,
            agent,
            spec.observation_spaces[agent],
            seed=config.seed,
        )
        if len(places.learners) > 1 and not places.rotating:
            leave_out_idle(models[policy], lambda: tally.source.acted)
    else:
        models = dict(before.models)
        if normalizer is not None and before.normalizer is not None:
            normalizer.obs_rms, normalizer.ret_rms = before.normalizer.obs_rms, before.normalizer.ret_rms
        models[policy].set_env(env)
    if made.others is not None:
        made.others.models = {agent: models[name] for name, agents in agents_of.items() for agent in agents}
    masks = ALGORITHMS[algorithm].masks
    return Assembly(policy, models, agents_of, roles, tally, normalizer, masks, made.masked, made.said)


def _normalized(tally: TallyVecEnv, options: Sb3Options) -> tuple[VecEnv, VecNormalize | None]:
    seen, paid = options.normalize_observations, options.normalize_rewards
    if not seen and not paid:
        return tally, None
    gamma = float(getattr(options, "gamma", 0.99))
    normalizer = VecNormalize(tally, norm_obs=seen, norm_reward=paid, gamma=gamma)
    return normalizer, normalizer


def _idle_models(
    config: RunConfig,
    options: Sb3Options,
    spec: EnvSpec,
    agents_of: Mapping[PolicyID, tuple[AgentID, ...]],
    frozen: tuple[AgentID, ...],
) -> dict[PolicyID, BaseAlgorithm]:
    """Return a new model for each policy that acts and does not train; the same in every attempt of the run."""
    models: dict[PolicyID, BaseAlgorithm] = {}
    for name, agents in agents_of.items():
        if agents[0] in frozen:
            spaces = spec.observation_spaces[agents[0]], spec.action_spaces[agents[0]]
            seed = child_seed(config.seed, "frozen", name)
            models[name] = make_idle_model(config.training.algorithm or "ppo", options, agents[0], spaces, seed=seed)
    return models


def reset_envs(assembly: Assembly, seed: int) -> None:
    """Begin new episodes, as SB3 does before it learns."""
    model: Any = assembly.model
    model.env.seed(model_seed(seed))
    _take(assembly, model.env.reset(), np.ones(model.n_envs, bool))
    if hasattr(model, "_last_lstm_states"):
        for part in (*model._last_lstm_states.pi, *model._last_lstm_states.vf):
            part.zero_()


def _take(assembly: Assembly, observations: Any, starts: NDArray[np.bool_]) -> None:
    model: Any = assembly.model
    model._last_obs, model._last_episode_starts = observations, starts
    if assembly.normalizer is not None:
        model._last_original_obs = assembly.normalizer.get_original_obs()


def env_state(assembly: Assembly) -> Arrays:
    """Return counters and moments, and the whole state of compiled envs; other envs cannot be saved."""
    model: Any = assembly.model
    arrays: Arrays = dict(assembly.tally.state())
    if assembly.normalizer is not None:
        arrays |= _moments(assembly.normalizer)
    vector = _compiled(assembly)
    if vector is not None:
        arrays |= {f"env/{name}": np.array(getattr(vector, name)) for name in _COMPILED}
        arrays["env/starts"] = np.asarray(model._last_episode_starts)
        if hasattr(model, "_last_lstm_states"):
            memory = (*model._last_lstm_states.pi, *model._last_lstm_states.vf)
            arrays |= {f"env/memory/{number}": part.cpu().numpy() for number, part in enumerate(memory)}
    return arrays


def resume_envs(assembly: Assembly, arrays: Arrays, seed: int) -> None:
    """Continue the episodes of compiled envs; others begin new ones, whose seeds no earlier attempt had."""
    model: Any = assembly.model
    vector = _compiled(assembly)
    continues = vector is not None and "env/state" in arrays
    assembly.tally.load(arrays, episodes_continue=continues)
    if assembly.normalizer is not None:
        _load_moments(assembly.normalizer, arrays)
    if vector is None or not continues:
        end_episodes(getattr(model, "replay_buffer", None))
        reset_envs(assembly, child_seed(seed, "resumed at", assembly.tally.env_steps))
        return
    for name in _COMPILED:
        getattr(vector, name)[:] = arrays[f"env/{name}"]
    assert isinstance(assembly.tally.source, SlotVecEnv)
    observations: Any = assembly.tally.source.begin()
    if assembly.normalizer is not None:
        assembly.normalizer.old_obs = observations
        observations = assembly.normalizer.normalize_obs(observations)
    _take(assembly, observations, arrays["env/starts"])
    if hasattr(model, "_last_lstm_states"):
        for number, part in enumerate((*model._last_lstm_states.pi, *model._last_lstm_states.vf)):
            part.copy_(part.new_tensor(arrays[f"env/memory/{number}"]))


def _compiled(assembly: Assembly) -> CompiledVector | None:
    vector = getattr(assembly.tally.source, "vector", None)
    return vector if isinstance(vector, CompiledVector) else None


def _moments(normalizer: VecNormalize) -> Arrays:
    arrays: Arrays = {"normalize/returns": normalizer.returns}
    for name in ("obs_rms", "ret_rms"):
        moments = getattr(normalizer, name, None)
        if moments is not None:
            for part in ("mean", "var", "count"):
                arrays[f"normalize/{name}/{part}"] = np.asarray(getattr(moments, part))
    return arrays


def _load_moments(normalizer: VecNormalize, arrays: Arrays) -> None:
    normalizer.returns = arrays["normalize/returns"]
    for name in ("obs_rms", "ret_rms"):
        if f"normalize/{name}/mean" in arrays:
            moments = getattr(normalizer, name)
            moments.mean, moments.var = arrays[f"normalize/{name}/mean"], arrays[f"normalize/{name}/var"]
            moments.count = arrays[f"normalize/{name}/count"].item()
