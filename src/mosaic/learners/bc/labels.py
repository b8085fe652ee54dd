"""Labelled episodes: what agents saw, what an expert did there or would have done, and how much each step counts.

An expert is a policy that is asked in every state, a person who plays in any screen while it is recorded, or a program
that owns its env (`learners/external/labels.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.learner_view import LearnerView, Others
from mosaic.envs.spaces import objection
from mosaic.envs.vector.encoding import action_code, action_rows, row_code
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.recorded import Recorded, RecordedSteps, check_dataset, encode_steps
from mosaic.models.engine import Bytes, Floats
from mosaic.policies.controller import PolicyController, PolicyError
from mosaic.runners.trajectories import Trajectory

Decide: TypeAlias = Callable[[AgentID, Floats, Bytes, bool], Floats]
"""The learner's action row for an agent's observation, mask and whether it is its first."""
Follow: TypeAlias = Callable[[int], Recorded]
"""Trajectories of a demonstration's episodes from this number on, as many as there are now."""
PERSON_WEIGHTS: Mapping[str, float] = {"human": 1.0, "*": 0.0}
_LOOK_UP_S = 0.5  # between two looks at a demonstration that a person records


class LabelledEpisode(NamedTuple):
    number: int
    env_steps: int
    parts: tuple[tuple[AgentID, RecordedSteps], ...]  # of the agents that acted; steps of weight 0 are not labels
    expert_steps: int  # decisions that the expert made itself


class LabelSource(Protocol):
    """Maker of labelled episodes, one after the other."""

    def play(
        self, number: int, seed: int, beta: float, decide: Decide, between: Callable[[], bool]
    ) -> LabelledEpisode | None:
        """Return the episode; in a share `beta` of the steps an expert that can be asked acts itself.

        `between` is called often; where it returns true there is no episode.
        """
        ...

    def more(self, number: int) -> bool: ...  # whether this episode can be had without waiting for a person

    def close(self) -> None: ...


@dataclass(slots=True)
class LabelledTrajectory:
    """Observations and rewards of one agent in an episode, with the expert's actions."""

    agent: AgentID
    obs: list[Floats] = field(default_factory=list)
    mask: list[Bytes] = field(default_factory=list)  # empty where everything is legal
    label: list[Floats] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)  # 0: not the expert's action
    terminated: bool = False

    def steps(self, episode: int) -> RecordedSteps:
        count = len(self.label)
        ended = np.zeros(count, np.uint8)
        ended[-1] = self.terminated
        return RecordedSteps(
            seen=np.stack(self.obs),
            seen_mask=np.stack(self.mask) if self.mask else np.zeros((0, 0), np.uint8),
            place=np.arange(count),
            act=np.stack(self.label),
            reward=np.array(self.reward, np.float32),
            terminated=ended,
            weight=np.array(self.weight, np.float32),
            trajectory=np.zeros(count, np.int64),
            episode=np.full(count, episode),
        )


class LabelledRollouts:
    """Label source that plays an env: the learner or the expert acts, and the expert labels."""

    def __init__(
        self,
        env: Env,
        learners: tuple[AgentID, ...],
        others: Others | None,
        expert: PolicyController,
        name: PolicyID,
        *,
        masked: bool,
    ) -> None:
        """`name` is the expert's reference; `masked` says whether actions may be illegal."""
        self._view, self._learners = LearnerView(env, learners, others), learners
        self._expert, self._name, self._masked = expert, name, masked
        self._codes = {agent: row_code(env.observation_spaces[agent]) for agent in learners}
        self._actions = {agent: action_code(env.action_spaces[agent]) for agent in learners}
        self._spaces = {agent: env.action_spaces[agent] for agent in learners}
        self._objections = {agent: objection(env.action_spaces[agent]) for agent in learners}

    def play(
        self, number: int, seed: int, beta: float, decide: Decide, between: Callable[[], bool]
    ) -> LabelledEpisode | None:
        view, found = self._view, {agent: LabelledTrajectory(agent) for agent in self._learners}
        coin = np.random.default_rng(child_seed(seed, "mixture"))
        self._expert.begin(self._learners, child_seed(seed, "expert"))
        turn, steps, taken = view.begin(child_seed(seed, "env")), 0, 0
        while turn.observations:
            actions: dict[AgentID, Action] = {}
            for agent in self._learners:
                if agent in turn.observations:
                    label, own = self._ask(found[agent], turn, decide)
                    expert_acts = coin.random() < beta
                    actions[agent] = self._actions[agent].action(label if expert_acts else own)
                    taken += expert_acts
            turn = view.step(actions)
            steps += 1
            _book(found, turn)
            if between():
                return None
        parts = tuple((each.agent, each.steps(number)) for each in found.values() if each.label)
        return LabelledEpisode(number, steps, parts, taken)

    def more(self, number: int) -> bool:
        return True

    def close(self) -> None:
        """Close the expert, which may be a program; the env and the other agents' policies are the vector's."""
        self._expert.close()

    def _ask(self, course: LabelledTrajectory, turn: Turn, decide: Decide) -> tuple[Floats, Floats]:
        """Return what the expert does and what the learner does; the expert's action is added to the labels."""
        agent = course.agent
        seen, mask = np.zeros(self._codes[agent].width, np.float32), turn.action_masks.get(agent)
        self._codes[agent].write(turn.observations[agent], seen)
        advice = self._expert.act(turn.only((agent,)))[agent]
        problem = self._objections[agent](advice, mask)
        if problem:
            raise PolicyError(f"The expert '{self._name}' of {agent} played {problem}.")
        label = action_rows(self._spaces[agent], np.asarray(advice)[None])[0]
        width = self._actions[agent].head.width if self._masked else 0
        legal = np.ones(width, np.uint8) if mask is None else np.asarray(mask, np.uint8).ravel()
        own = decide(agent, seen, legal, not course.label)
        course.obs.append(seen)
        course.label.append(label)
        course.reward.append(0.0)
        course.weight.append(1.0)
        if self._masked:
            course.mask.append(legal)
        return label, own


def _book(found: Mapping[AgentID, LabelledTrajectory], turn: Turn) -> None:
    for agent, reward in turn.rewards.items():
        if agent in found and found[agent].reward:
            found[agent].reward[-1] += reward
    for agent in turn.final_observations:
        if agent in found:
            found[agent].terminated = bool(turn.terminated[agent])


class PersonLabels:
    """Label source that waits for episodes which a person plays in any screen, recorded as a demonstration.

    Episode N of training is episode N of the demonstration, so that a run continues where it was.
    """

    def __init__(
        self, follow: Follow, roles: AgentRoles, spec: EnvSpec, weights: Mapping[str, float], dataset: str
    ) -> None:
        self._follow, self._roles, self._spec, self._dataset = follow, roles, spec, dataset
        self._weights = weights or PERSON_WEIGHTS
        self._waiting: dict[int, list[Trajectory]] = {}
        self._pause = threading.Event()

    def play(
        self, number: int, seed: int, beta: float, decide: Decide, between: Callable[[], bool]
    ) -> LabelledEpisode | None:
        while not self.more(number):
            if between():
                return None
            self._pause.wait(_LOOK_UP_S)
        found = self._waiting.pop(number, [])
        parts = tuple(
            (each.agent, encode_steps([(number, each)], self._weights))
            for each in found
            if each.agent in self._roles.learners and len(each)
        )
        env_steps = len(np.unique(np.concatenate([each.env_steps for each in found]))) if found else 0
        return LabelledEpisode(number, env_steps, parts, sum(int((steps.weight > 0).sum()) for _, steps in parts))

    def more(self, number: int) -> bool:
        if any(each >= number for each in self._waiting):
            return True
        found = self._follow(number)
        for episode, trajectory in found:
            self._waiting.setdefault(episode, []).append(trajectory)
        if found:
            one_each: Sequence[Trajectory] = [*{each.agent: each for _, each in found}.values()]
            check_dataset(one_each, self._roles, self._spec, self._dataset)
        return bool(found)

    def close(self) -> None:
        """Do nothing: the screens own what is played there."""
