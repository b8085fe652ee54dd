"""Adapter of Mosaic's envs to RLlib, showing only the agents that learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeAlias, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Observation
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.wrappers.transform import begin_end
from mosaic.workers.rllib.config.setup import EnvSettings
from mosaic.workers.rllib.env.encoding import PICTURE_SIZE, EncodedView, LearnerStep, is_taken_as_is

_ByAgent: TypeAlias = dict[Any, Any]  # the keys that RLlib and Gymnasium declare differ
_Value = TypeVar("_Value")
EVERYBODY = "__all__"  # RLlib's key for the episode as a whole


class ViewedEnv:
    """Base of both kinds of env: their view."""

    view: EncodedView

    def number_next(self, episode: int) -> None:
        """Set the number of the episode that begins with the next reset."""
        self.view.told.number = episode

    def begin_end(self) -> None:
        """Ask an env that ends elsewhere to end, without waiting for it; `close` does."""
        begin_end(self.view.env)


class LearnersEnv(ViewedEnv, MultiAgentEnv):
    """Env with several agents that learn, in a fixed order.

    RLlib marks every agent of an episode as terminated once all of them have ended, truncated ones too, and then
    nothing is bootstrapped. So agents truncated by the end of the episode are reported by `__all__` alone.

    RLlib also takes an episode for over once all agents that it has seen have ended, although others are still to
    come. So ends are reported one step later where it knows no other agent yet.
    """

    def __init__(self, view: EncodedView) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.view = view
        self.possible_agents = list(view.learners)
        self.agents = list(view.learners)
        self.observation_spaces = {agent: view.observation_spaces[agent] for agent in view.learners}
        self.action_spaces = {agent: view.action_spaces[agent] for agent in view.learners}
        self.observation_space = spaces.Dict(view.observation_spaces)
        self.action_space = spaces.Dict(view.action_spaces)
        self.render_mode = "rgb_array"
        self._begun: set[AgentID] = set()  # agents of this episode whose first observation was reported
        self._late: LearnerStep | None = None  # the ends that are still to be reported

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[_ByAgent, _ByAgent]:
        seen = self.view.begin(seed).seen
        self._begun, self._late = set(seen), None
        return seen, {}

    def step(  # type: ignore[override]  # RLlib's own differs from Gymnasium's
        self, action_dict: _ByAgent
    ) -> tuple[_ByAgent, _ByAgent, _ByAgent, _ByAgent, _ByAgent]:
        outcome = self._reported(self.view.step(action_dict))
        terminated, truncated = ends(outcome)
        return outcome.seen, outcome.rewards, terminated, truncated, outcome.infos

    def _reported(self, outcome: LearnerStep) -> LearnerStep:
        """Return the step as it is reported, with the ends that are due."""
        if self._late is not None:
            outcome = _joined(self._late, outcome, self.view.learners)
            self._late = None
        living = self.view.episode.living
        if not outcome.over and not self._begun & living:
            self._late = _part(outcome, self._begun)._replace(rewards={})
            outcome = _part(outcome, living)
        self._begun |= outcome.seen.keys()
        return outcome

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        return self.view.env.render()

    def close(self) -> None:
        self.view.close()


def _part(step: LearnerStep, agents: Set[AgentID]) -> LearnerStep:
    """Return the step as these agents see it, with the rewards of all."""

    def of(values: Mapping[AgentID, _Value]) -> dict[AgentID, _Value]:
        return {agent: value for agent, value in values.items() if agent in agents}

    return LearnerStep(of(step.seen), step.rewards, of(step.terminated), of(step.truncated), step.over, of(step.infos))


def _joined(late: LearnerStep, step: LearnerStep, order: Sequence[AgentID]) -> LearnerStep:
    seen = late.seen | step.seen
    return LearnerStep(
        {agent: seen[agent] for agent in order if agent in seen},
        step.rewards,
        late.terminated | step.terminated,
        late.truncated | step.truncated,
        step.over,
        late.infos | step.infos,
    )


def ends(outcome: LearnerStep) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return the terminated and truncated flags as RLlib expects them."""
    terminated, truncated = outcome.terminated, outcome.truncated
    if not outcome.over:
        return terminated | {EVERYBODY: False}, truncated | {EVERYBODY: False}
    cut = [agent for agent, flag in truncated.items() if flag and not terminated[agent]]
    if not cut:
        return terminated | {EVERYBODY: True}, {EVERYBODY: False}
    left = {agent: flag for agent, flag in terminated.items() if agent not in cut}
    return left | {EVERYBODY: False}, {EVERYBODY: True}


class LearnerEnv(ViewedEnv, gymnasium.Env[Observation, Action]):
    """Env with one agent that learns, while controllers play the others: RLlib steps single agents much faster."""

    def __init__(self, view: EncodedView) -> None:
        self.metadata = {"render_modes": ["rgb_array"]}
        (self._agent,) = view.learners
        self.view = view
        self.observation_space = view.observation_spaces[self._agent]
        self.action_space = view.action_spaces[self._agent]
        self.render_mode = "rgb_array"

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        return self.view.begin(seed).seen[self._agent], {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, object]]:
        agent = self._agent
        seen, rewards, terminated, truncated, _, infos = self.view.step({agent: action})
        return seen[agent], rewards[agent], terminated[agent], truncated[agent], {**infos.get(agent, {})}

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        return self.view.env.render()

    def close(self) -> None:
        self.view.close()


def make_rllib_env(config: EnvSettings) -> MultiAgentEnv | gymnasium.Env[Observation, Action]:
    """Create an env for RLlib, in any process.

    `environment`: an EnvironmentConfig as plain data; `learners`: agents; `played`: {agent: policy} for the others;
    `changing`: an EpisodeMapping, if these change from episode to episode; and, if they are not the default, `single`
    (RLlib's faster interface for one agent with one policy), `state` (agents also see what a central critic reads),
    `picture_size`, and `seed`, which counts only until a reset brings another: RLlib gives each of a runner's envs its
    own.
    """
    environment = EnvironmentConfig.model_validate(config["environment"])
    learners: Sequence[AgentID] = config["learners"]
    state, single = bool(config.get("state", False)), bool(config.get("single", len(learners) == 1))
    env = make_env(environment)
    if single and type(env) is GymnasiumEnv and env.plain and not state and _as_is(env):
        return _unguarded(env.env)
    view = EncodedView(
        env,
        tuple(learners),
        config.get("played", {}),
        state=state,
        seed=config.get("seed"),
        runner=int(getattr(config, "worker_index", 0) or 0),
        picture_size=config.get("picture_size") or PICTURE_SIZE,
        changing=config.get("changing"),
    )
    return LearnerEnv(view) if single else LearnersEnv(view)


def _unguarded(env: gymnasium.Env[Observation, Action]) -> gymnasium.Env[Observation, Action]:
    """Remove Gymnasium's check of the order of calls: RLlib adds the same again, and each costs time."""
    if isinstance(env, TimeLimit) and type(env.env) is OrderEnforcing:
        env.env = env.env.env
    return env


def _as_is(env: GymnasiumEnv) -> bool:
    return is_taken_as_is(env.env.observation_space, env.env.action_space)
