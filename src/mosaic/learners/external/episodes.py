"""Episodes of external envs: what their agents saw, decided and earned, until something is learned from it.

The programs begin and end episodes when they like, any number at once. An episode that breaks off is dropped with all
that nothing has been learned from yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import shown
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.learner_view import Others
from mosaic.envs.vector.encoding import ActionCode, Row, RowCode, action_code, action_rows, leaves, row_code
from mosaic.policies.serving.messages import CallError, EpisodeID
from mosaic.telemetry.events.info_numbers import numbers_in


class OpenDecision(NamedTuple):
    """Decision that an agent must make, with its observation."""

    policy: int
    obs: Row  # as wide as the widest agent's
    mask: NDArray[np.uint8]


@dataclass(slots=True)
class RecordedDecision:
    """One agent's decision, with the rewards until its next one."""

    policy: int
    obs: Row  # as the policy saw it
    mask: NDArray[np.uint8]
    act: Row
    logp: float = 0.0
    value: float = 0.0
    reward: float = 0.0
    logged: bool = False  # its program, or a person, chose it


@dataclass(slots=True)
class AgentTrajectory:
    """Decisions of one agent in one episode that nothing was learned from yet."""

    agent: int  # among the learners
    policy: int
    decisions: list[RecordedDecision] = field(default_factory=list)
    decided: bool = False
    paid: float = 0.0  # since its first decision
    discounted: float = 0.0  # running discounted return of what was taken
    ended: bool = False
    final: Row | None = None  # the last observation, if it was truncated
    numbers: Mapping[str, float] = field(default_factory=dict)  # of its last info

    def add(self, decision: RecordedDecision) -> None:
        self.decisions.append(decision)
        self.decided = True

    def take(self) -> Fragment | None:
        """Return the decisions whose outcome is known, and forget them."""
        count = len(self.decisions) if self.ended else len(self.decisions) - 1
        if count < 1:
            return None
        taken, self.decisions = self.decisions[:count], self.decisions[count:]
        return Fragment(self, taken, None if self.ended else self.decisions[0])


class Fragment(NamedTuple):
    """Successive decisions of one agent whose outcome is known, and the next one; None if the agent ended."""

    of: AgentTrajectory
    decisions: Sequence[RecordedDecision]
    following: RecordedDecision | None


@dataclass(slots=True)
class ExternalEpisode:
    place: int  # among those that run: the number of the controllers of agents that do not learn
    learns: bool
    trajectories: tuple[AgentTrajectory, ...]  # of each learner
    steps: int = 0
    taken: int = 0  # steps that were learned from
    over: bool = False

    @property
    def open_steps(self) -> int:
        """Steps whose outcome is known and that nothing was learned from."""
        return max(0, self.steps - (not self.over) - self.taken)


class Taken(NamedTuple):
    """Experience that is ready to learn from, and the finished episodes."""

    fragments: list[Fragment]
    ended: list[ExternalEpisode]
    env_steps: int


class _AgentCode(NamedTuple):
    number: int
    seen: RowCode
    acts: ActionCode
    observed: Space[object]
    acting: Space[object]


class AgentRows:
    """Rows of the learners' observations, masks and actions."""

    def __init__(self, spec: EnvSpec, learners: Sequence[AgentID]) -> None:
        observed, acting = spec.observation_spaces, spec.action_spaces
        self.codes = {
            name: _AgentCode(number, row_code(observed[name]), action_code(acting[name]), observed[name], acting[name])
            for number, name in enumerate(learners)
        }
        self._width = max(code.seen.width for code in self.codes.values())
        self._choices = max(code.acts.head.width for code in self.codes.values())
        self._parts = max(code.acts.head.parts for code in self.codes.values())

    def observation(self, agent: AgentID, observation: Observation) -> Row:
        """Return the row of an observation; raise CallError where nothing can be learned from it."""
        self._check(agent, observation)
        code = self.codes[agent]
        row = np.zeros(self._width, np.float32)
        code.seen.write(observation, row[: code.seen.width])
        return row

    def check(self, turn: Turn) -> None:
        """Raise CallError where nothing can be learned from a learner's observation."""
        for agent, seen in (*turn.observations.items(), *turn.final_observations.items()):
            if agent in self.codes and not turn.terminated.get(agent):
                self._check(agent, seen)

    def _check(self, agent: AgentID, observation: Observation) -> None:
        problem = _problem(self.codes[agent].observed, observation)
        if problem:
            raise CallError("wrong_value", f"observation.{agent}: {problem}.", agent=agent)

    def mask(self, agent: AgentID, mask: Mask | None) -> NDArray[np.uint8]:
        width = self.codes[agent].acts.head.width
        row = np.zeros(self._choices, np.uint8)
        row[:width] = 1 if mask is None else mask
        return row

    def act(self, agent: AgentID, action: Action) -> Row:
        """Return the row of an action."""
        code = self.codes[agent]
        row = np.zeros(self._parts, np.float32)
        row[: code.acts.head.parts] = action_rows(code.acting, np.asarray(action)[None])[0]
        return row

    def action(self, agent: AgentID, act: Row) -> Action:
        acts = self.codes[agent].acts
        return acts.action(act[: acts.head.parts])


def _problem(space: Space[object], value: Observation) -> str | None:
    """Return why nothing can be learned from a value of the right types and shapes; a Box's bounds are often wrong."""
    for leaf in leaves(space):
        part = value
        for key in leaf.path:
            part = part[key]
        where = f"{'.'.join(map(str, leaf.path))}: " if leaf.path else ""
        if isinstance(leaf.space, spaces.Box):
            if not np.isfinite(part).all():
                return f"{where}a number that is not finite"
        elif not leaf.space.contains(part):
            return f"{where}{shown(part)} is not in {leaf.space}"
    return None


class ExternalEpisodes:
    """Running episodes of all programs.

    `decide` chooses for all agents that must act at once. `policies` returns the policy of each learner in the next
    episode. `others` plays the agents that do not learn.
    """

    def __init__(
        self,
        rows: AgentRows,
        decide: Callable[[Sequence[OpenDecision]], list[RecordedDecision]],
        policies: Callable[[], Sequence[int]],
        *,
        whole: bool,
        others: Others | None = None,
    ) -> None:
        """`whole` takes an episode once it is over; otherwise every decision as soon as its outcome is known."""
        self._rows, self._decide, self._policies, self._others = rows, decide, policies, others
        self.whole = whole
        self._running: dict[EpisodeID, ExternalEpisode] = {}
        self._over: list[ExternalEpisode] = []

    def __len__(self) -> int:
        return len(self._running)

    @property
    def open_steps(self) -> int:
        """Env steps that `take` would return."""
        running = () if self.whole else self._running.values()
        return sum(episode.open_steps for episode in (*self._over, *running) if episode.learns)

    @property
    def longest(self) -> int:
        """Steps of the longest running episode that nothing was learned from."""
        return max((episode.open_steps for episode in self._running.values() if episode.learns), default=0)

    def start(self, episode_id: EpisodeID, seed: int, *, learns: bool) -> None:
        taken = {episode.place for episode in self._running.values()}
        place = next(number for number in range(len(taken) + 1) if number not in taken)
        policies = self._policies()
        if self._others is not None:
            self._others.begin(place, seed)
        trajectories = tuple(AgentTrajectory(agent, policy) for agent, policy in enumerate(policies))
        self._running[episode_id] = ExternalEpisode(place, learns, trajectories)

    def act(self, asked: Sequence[tuple[EpisodeID, Turn]]) -> list[dict[AgentID, Action] | CallError]:
        """Return the actions of all agents that must act, or why there are none, for each episode."""
        answers: list[dict[AgentID, Action] | CallError] = []
        rows: list[tuple[dict[AgentID, Action], AgentID, AgentTrajectory, OpenDecision]] = []
        for episode_id, turn in asked:
            try:
                episode = self._get(episode_id)
                seen = self._see(episode, turn)
            except CallError as error:
                answers.append(error)
                continue
            answer = self._played(episode, turn)
            answers.append(answer)
            rows += [(answer, agent, trajectory, each) for agent, trajectory, each in seen]
        decisions = self._decide([each for *_, each in rows]) if rows else []
        for (answer, agent, trajectory, _), decision in zip(rows, decisions, strict=True):
            trajectory.add(decision)
            answer[agent] = self._rows.action(agent, decision.act)
        return answers

    def log(self, episode_id: EpisodeID, turn: Turn, actions: Mapping[AgentID, Action]) -> None:
        """Add what agents did for which their program, or a person, decided."""
        for agent, trajectory, seen in self._see(self._running[episode_id], turn):
            act = self._rows.act(agent, actions[agent])
            trajectory.add(RecordedDecision(seen.policy, seen.obs, seen.mask, act, logged=True))

    def end(self, episode_id: EpisodeID, turn: Turn) -> None:
        episode = self._running.pop(episode_id)
        self._book(episode, turn, self._finals(turn))
        episode.over = True
        if episode.learns and episode.steps:
            self._over.append(episode)

    def drop(self, episode_id: EpisodeID) -> None:
        """Forget an episode that broke off: it does not count, and nothing more is learned from it."""
        self._running.pop(episode_id, None)

    def take(self) -> Taken:
        """Return all that can be learned from, and forget it."""
        ended, self._over = self._over, []
        running = [] if self.whole else [episode for episode in self._running.values() if episode.learns]
        fragments: list[Fragment] = []
        env_steps = 0
        for episode in (*ended, *running):
            steps = episode.open_steps
            episode.taken += steps
            env_steps += steps
            fragments += [found for each in episode.trajectories if (found := each.take()) is not None]
        return Taken(fragments, ended, env_steps)

    def _get(self, episode_id: EpisodeID) -> ExternalEpisode:
        if episode_id not in self._running:  # its program is gone
            raise CallError("episode_lost", f"The episode '{episode_id}' is over. Start another one.")
        return self._running[episode_id]

    def _see(self, episode: ExternalEpisode, turn: Turn) -> list[tuple[AgentID, AgentTrajectory, OpenDecision]]:
        """Book what happened until this Turn, and return what the learners see that must act now.

        Raise CallError, and book nothing, where nothing can be learned from one of their observations.
        """
        finals = self._finals(turn)
        seen = []
        for agent in self._learners(turn.observations):
            trajectory = episode.trajectories[self._rows.codes[agent].number]
            row = self._rows.observation(agent, turn.observations[agent])
            mask = self._rows.mask(agent, turn.action_masks.get(agent))
            seen.append((agent, trajectory, OpenDecision(trajectory.policy, row, mask)))
        self._book(episode, turn, finals)
        episode.steps += 1
        return seen

    def _finals(self, turn: Turn) -> dict[AgentID, Row]:
        """Return the rows of the last observations of truncated agents."""
        cut = [agent for agent in self._learners(turn.final_observations) if not turn.terminated[agent]]
        return {agent: self._rows.observation(agent, turn.final_observations[agent]) for agent in cut}

    def _book(self, episode: ExternalEpisode, turn: Turn, finals: Mapping[AgentID, Row]) -> None:
        """Add rewards to the last decisions, and mark the agents that ended."""
        for agent in self._learners(turn.rewards):
            trajectory = episode.trajectories[self._rows.codes[agent].number]
            if trajectory.decisions:  # a reward before the first decision was not earned by one
                trajectory.decisions[-1].reward += turn.rewards[agent]
                trajectory.paid += turn.rewards[agent]
            if agent in turn.final_observations:
                trajectory.ended, trajectory.final = True, finals.get(agent)
            if agent in turn.infos:
                trajectory.numbers = numbers_in(turn.infos[agent])

    def _played(self, episode: ExternalEpisode, turn: Turn) -> dict[AgentID, Action]:
        """Return the actions of the agents that do not learn."""
        if self._others is None or self._rows.codes.keys() >= turn.observations.keys():
            return {}
        return dict(self._others.act(episode.place, turn))

    def _learners(self, named: Mapping[AgentID, object]) -> list[AgentID]:
        return [agent for agent in named if agent in self._rows.codes]
