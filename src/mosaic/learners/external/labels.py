"""Labels of external programs: what they, or a person at them, did (`log_action`) in the episodes they play.

Where a program asks for an action instead (`get_action`), the learner acts, and that step is not a label.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.bc.labels import Decide, LabelledEpisode, LabelledTrajectory
from mosaic.learners.external.episodes import ExternalEpisode, OpenDecision, RecordedDecision, Taken
from mosaic.learners.external.world import ExternalWorld
from mosaic.learners.rollout.base import RolloutSettings, Stopwatch


class ProgramLabels:
    """Label source whose episodes are those of programs, in the order in which they end."""

    def __init__(self, world: ExternalWorld, plan: TrainingPlan, learners: Sequence[AgentID]) -> None:
        shape = world.vector.shape
        self._codes, self._learners, self._masked = world.rows.codes, learners, shape.masked
        self._agent_of = [plan.agents_of(policy, tuple(learners))[0] for policy in range(len(plan.names))]
        self._source = world.source(self._act, RolloutSettings(1, 0).make_tally(plan, shape), Stopwatch())
        self._ended: deque[tuple[ExternalEpisode, list[LabelledTrajectory], int]] = deque()
        self._decide: Decide | None = None

    def play(
        self, number: int, seed: int, beta: float, decide: Decide, between: Callable[[], bool]
    ) -> LabelledEpisode | None:
        """Serve programs until an episode has ended, and return it."""
        self._decide = decide
        while not self._ended:
            if between():
                return None
            self._ended.extend(self._episodes(self._source.wait_for(1, between)))
        episode, found, logged = self._ended.popleft()
        return LabelledEpisode(number, episode.steps, tuple((each.agent, each.steps(number)) for each in found), logged)

    def more(self, number: int) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the vector closes the connections."""

    def _act(self, seen: Sequence[OpenDecision]) -> list[RecordedDecision]:
        """Let the learner act; without memory, every decision is like the first one."""
        assert self._decide is not None, "programs are served while an episode is waited for"
        made = []
        for each in seen:
            agent = self._agent_of[each.policy]
            code = self._codes[agent]
            mask = each.mask[: code.acts.head.width if self._masked else 0]
            act = self._decide(agent, each.obs[: code.seen.width], mask, True)
            made.append(RecordedDecision(each.policy, each.obs, each.mask, act))
        return made

    def _episodes(self, taken: Taken) -> Iterator[tuple[ExternalEpisode, list[LabelledTrajectory], int]]:
        parts = {id(fragment.of): fragment for fragment in taken.fragments}
        for episode in taken.ended:
            found, logged = [], 0
            for trajectory in episode.trajectories:
                if id(trajectory) in parts:
                    decisions = parts[id(trajectory)].decisions
                    found.append(self._labelled(self._learners[trajectory.agent], decisions))
                    found[-1].terminated = trajectory.final is None
                    logged += sum(each.logged for each in decisions)
            yield episode, found, logged

    def _labelled(self, agent: AgentID, decisions: Sequence[RecordedDecision]) -> LabelledTrajectory:
        code = self._codes[agent]
        width, head = code.seen.width, code.acts.head
        return LabelledTrajectory(
            agent,
            obs=[each.obs[:width] for each in decisions],
            mask=[each.mask[: head.width] for each in decisions] if self._masked else [],
            label=[np.asarray(each.act[: head.parts], np.float32) for each in decisions],
            reward=[each.reward for each in decisions],
            weight=[float(each.logged) for each in decisions],
        )
