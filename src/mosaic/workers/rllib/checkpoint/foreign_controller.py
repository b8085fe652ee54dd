"""Controller of an RLModule from a foreign checkpoint, with RLlib's own connectors; it needs RLlib, but not Ray."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.space_json import Document, space_differences, space_to_json
from mosaic.envs.spaces import MASK
from mosaic.policies.controller import PolicyController, PolicyError, PolicyRequest, default_sampling
from mosaic.store.policies.foreign_checkpoint import ForeignSource
from mosaic.workers.rllib.checkpoint.foreign import (
    ForeignModule,
    check_algorithm,
    find_parts,
    load_module,
    modules_by_agent,
)
from mosaic.workers.rllib.reporting.log_filter import keep_quiet


class ForeignController:
    """Controller for agents that one RLModule plays; every agent has its own episode, and so its own memory."""

    def __init__(self, loaded: ForeignModule, request: PolicyRequest, *, best: bool = False) -> None:
        self._loaded, self._request = loaded, request
        self._observed_with_mask = _mask_key(loaded.observation_space)
        self._episodes: dict[AgentID, _Episode] = {}
        self._draws = torch.Generator().manual_seed(request.seed).get_state()
        answer = self._first_answer()
        self._sampling = request.sampling
        if Columns.ACTION_DIST_INPUTS not in answer:
            self._refuse_sampling()
        elif self._sampling is None and not best:
            self._sampling = default_sampling(request.spec, stochastic=True)
        if self._sampling is not None and self._sampling.temperature is not None and not self._chooses():
            raise InputError(f"'{request.reference}' acts by numbers, whose spread has no temperature. Leave it out.")

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._episodes.clear()
        self._draws = torch.Generator().manual_seed(seed).get_state()

    def forget(self, agent: AgentID) -> None:
        self._episodes.pop(agent, None)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {
            agent: self._act(agent, observation, turn.action_masks.get(agent), float(turn.rewards.get(agent, 0.0)))
            for agent, observation in turn.observations.items()
        }

    def close(self) -> None:
        self._episodes.clear()

    def _act(self, agent: AgentID, observation: Observation, mask: Mask | None, reward: float) -> Action:
        episode = self._episodes.setdefault(agent, _Episode(self._loaded))
        episode.observe(self._shown(observation, mask), reward)
        drawn = self._sampling is not None
        with torch.no_grad(), self._own_draws():
            batch = episode.batch(explore=drawn)
            answer = self._loaded.module.forward_inference(batch)
            own = answer if self._loaded.agent is None else next(iter(answer.values()))
            if mask is not None and self._observed_with_mask is None and not mask.all():
                self._forbid(own, batch, mask)
            if self._sampling is not None and self._sampling.temperature is not None:
                own[Columns.ACTION_DIST_INPUTS] = own[Columns.ACTION_DIST_INPUTS] / self._sampling.temperature
            action = episode.decide(answer, explore=drawn)
        return self._in_the_env(action)

    def _first_answer(self) -> Mapping[str, Any]:
        """Return what the module says of some observation, so that whatever does not fit fails before an episode."""
        episode = _Episode(self._loaded)
        space = self._loaded.observation_space
        space.seed(0)
        episode.observe(space.sample(), 0.0)
        try:
            with torch.no_grad():
                answer = self._loaded.module.forward_inference(episode.batch(explore=False))
        except Exception as error:
            raise InputError(f"'{self._request.reference}' cannot be played by its connectors: {error!r}.") from error
        own: Mapping[str, Any] = answer if self._loaded.agent is None else next(iter(answer.values()))
        return own

    def _refuse_sampling(self) -> None:
        if self._sampling is not None:
            raise InputError(
                f"'{self._request.reference}' gives actions without probabilities: leave sample and temperature out."
            )

    def _chooses(self) -> bool:
        return isinstance(self._loaded.action_space, spaces.Discrete | spaces.MultiDiscrete)

    def _shown(self, observation: Observation, mask: Mask | None) -> object:
        if self._observed_with_mask is None:
            return observation
        space: Any = self._loaded.observation_space
        legal = np.ones(space[MASK].shape, space[MASK].dtype) if mask is None else mask.astype(space[MASK].dtype)
        return {self._observed_with_mask: observation, MASK: legal}

    def _forbid(self, answer: dict[str, Any], batch: Any, mask: Mask) -> None:
        """Keep illegal actions from being chosen, for a module that was not shown which are legal."""
        illegal = torch.from_numpy(~mask.astype(bool))
        if Columns.ACTION_DIST_INPUTS in answer:
            inputs = answer[Columns.ACTION_DIST_INPUTS]
            answer[Columns.ACTION_DIST_INPUTS] = torch.where(illegal, torch.finfo(inputs.dtype).min, inputs)
            return
        if not hasattr(self._loaded.single, "compute_q_values"):
            raise PolicyError(f"'{self._request.reference}' does not know which actions are legal here.")
        own = batch if self._loaded.agent is None else next(iter(batch.values()))
        values = next(iter(self._loaded.single.compute_q_values(own).values()))
        answer[Columns.ACTIONS] = torch.where(illegal, -torch.inf, values).argmax(dim=-1)

    def _own_draws(self) -> AbstractContextManager[None]:
        return _Draws(self)

    def _in_the_env(self, action: Any) -> Action:
        space = self._loaded.action_space
        if isinstance(space, spaces.Discrete):
            return int(action)
        found: Action = np.asarray(action, space.dtype) if space.dtype is not None else action
        return found


class _Draws(AbstractContextManager[None]):
    """Random stream of one controller: RLlib's distributions use only torch's global one."""

    def __init__(self, owner: ForeignController) -> None:
        self._owner, self._fork = owner, torch.random.fork_rng(devices=[])

    def __enter__(self) -> None:
        self._fork.__enter__()
        torch.set_rng_state(self._owner._draws)

    def __exit__(self, *error: Any) -> None:
        self._owner._draws = torch.get_rng_state()
        self._fork.__exit__(*error)


class _Episode:
    """One agent's episode in RLlib's records, from which connectors read earlier steps and states."""

    def __init__(self, loaded: ForeignModule) -> None:
        self._loaded, self._shared = loaded, dict[str, Any]()
        self._decided: tuple[Any, dict[str, Any]] | None = None  # action and other outputs of the last step
        seen, done = loaded.to_module.input_observation_space, loaded.to_module.input_action_space
        self._record: Any
        if loaded.agent is None:
            self._record = SingleAgentEpisode(observation_space=seen, action_space=done)
        else:
            module = next(key for key, each in loaded.module.items() if each is loaded.single)
            mapping = lambda agent, episode, **_: module  # noqa: E731
            self._record = MultiAgentEpisode(
                observation_space=seen, action_space=done, agent_to_module_mapping_fn=mapping
            )

    def observe(self, observation: object, reward: float) -> None:
        agent = self._loaded.agent
        if self._decided is None:
            if agent is None:
                self._record.add_env_reset(observation=observation, infos={})
            else:
                self._record.add_env_reset(observations={agent: observation}, infos={})
            return
        action, further = self._decided
        if agent is None:
            self._record.add_env_step(observation, action, reward, {}, extra_model_outputs=further)
        else:
            self._record.add_env_step(
                {agent: observation}, {agent: action}, {agent: reward}, {}, extra_model_outputs={agent: further}
            )

    def batch(self, *, explore: bool) -> Any:
        loaded = self._loaded
        self._shared.pop("vector_env_episodes_map", None)
        return loaded.to_module(
            rl_module=loaded.module, episodes=[self._record], explore=explore, shared_data=self._shared
        )

    def decide(self, answer: Any, *, explore: bool) -> Any:
        """Return the action for the env, and keep what connectors may read in the next step."""
        loaded, agent = self._loaded, self._loaded.agent
        found = loaded.to_env(
            rl_module=loaded.module, batch=answer, episodes=[self._record], explore=explore, shared_data=self._shared
        )
        one = {key: value[0] if agent is None else value[0][agent] for key, value in found.items()}
        action = one.pop(Columns.ACTIONS)
        for_env = one.pop(Columns.ACTIONS_FOR_ENV, action)
        self._decided = action, one
        return for_env


def foreign_controllers(source: ForeignSource, request: PolicyRequest) -> dict[AgentID, PolicyController]:
    """Return a controller for each agent of the request; agents of one module share theirs."""
    keep_quiet()
    parts = find_parts(source.path)
    assert parts is not None, "foreign_policies recognised the folder"
    check_algorithm(parts, source)
    made: dict[AgentID, PolicyController] = {}
    for name, agents in modules_by_agent(parts, source, request.agents).items():
        loaded = load_module(parts, name, agents[0])
        for agent in agents:
            check_spaces(loaded, agent, request)
        made |= dict.fromkeys(agents, ForeignController(loaded, request, best=source.best))
    return made


def check_spaces(loaded: ForeignModule, agent: AgentID, request: PolicyRequest) -> None:
    """Raise InputError, with both spaces, unless the module can see and act here; bounds of observations may differ."""
    spec = request.spec
    key = _mask_key(loaded.observation_space)
    seen: Any = loaded.observation_space
    trained = seen[key] if key is not None else seen
    sees, saw = space_to_json(spec.observation_spaces[agent]), space_to_json(trained)
    does, did = space_to_json(spec.action_spaces[agent]), space_to_json(loaded.action_space)
    found = [] if _without_bounds(sees) == _without_bounds(saw) else space_differences(sees, saw, "its observation")
    found += space_differences(does, did, "its action")
    if found:
        raise InputError(
            f"'{request.reference}' cannot play {spec.env_id} as {agent}, whose spaces differ: {'; '.join(found)}."
        )


def _without_bounds(document: Document) -> Document:
    parts = document.get("parts")
    if parts is not None:
        return {**document, "parts": [[key, _without_bounds(part)] for key, part in parts]}
    return {key: value for key, value in document.items() if key not in ("low", "high")}


def _mask_key(space: Space[object]) -> str | None:
    """Return the key of the observation beside a mask of legal actions; None in a space without one."""
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return None
    others = [key for key in space.spaces if key != MASK]
    return others[0] if len(others) == 1 else None
