"""World of external envs: the programs that connect, and the places where a learner expects its envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.core.seeding import child_seed
from mosaic.envs.env import EnvSpec
from mosaic.envs.families.external import ExternalOptions, port_of
from mosaic.envs.families.mosaic import read_options
from mosaic.envs.learner_view import Others
from mosaic.envs.vector.in_process import shape_of
from mosaic.envs.vector.layout import VectorShape, vector_arrays
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.external.episodes import AgentRows, ExternalEpisodes, OpenDecision, RecordedDecision
from mosaic.learners.external.port import LearnerPort
from mosaic.learners.external.source import ExternalSource
from mosaic.learners.rollout.arrays import EpisodeTally
from mosaic.learners.rollout.base import Stopwatch
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.runners.fixed_policies import ChangingPolicies, ControllerOthers

_OVER = "the run that trained has ended; it may be resumed, and then the port answers again"


class Listen(Protocol):
    """Server of the protocol on a port, until the context ends; programs' episodes go to `learner`."""

    def __call__(
        self, learner: LearnerPort, spec: EnvSpec, host: str, port: int, limits: EpisodeLimits
    ) -> AbstractContextManager[object]: ...


@dataclass(frozen=True, slots=True)
class ExternalWorld:
    """Connection of a learner to external programs."""

    vector: ExternalVector
    port: LearnerPort
    rows: AgentRows
    policies: Callable[[], Sequence[int]]  # of each learner, in the episode that begins
    whole: bool  # an episode is learned from once it is over
    others: Others | None

    def source(
        self, decide: Callable[[Sequence[OpenDecision]], list[RecordedDecision]], tally: EpisodeTally, times: Stopwatch
    ) -> ExternalSource:
        episodes = ExternalEpisodes(self.rows, decide, self.policies, whole=self.whole, others=self.others)
        return ExternalSource(self.port, episodes, tally, times)


class ExternalVector:
    """Stand-in for the envs of a learner: it has their shape, and `close` ends the connections."""

    def __init__(self, shape: VectorShape, closing: ExitStack) -> None:
        self.shape, self._closing = shape, closing
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = vector_arrays(shape)

    def reset(self, seed: int) -> None:
        """Do nothing: programs begin their episodes themselves."""

    def step(self, act: NDArray[np.float32]) -> None:
        raise MosaicError("External envs are stepped by their own programs.")

    def render(self, index: int) -> NDArray[np.uint8] | None:
        """Return None: programs do not send what their envs look like."""
        return None

    def close(self) -> None:
        self._closing.close()


class _EpisodeNumber:
    """Number of the episode that begins, for policies that change from episode to episode."""

    def __init__(self, first: int) -> None:
        self._number = first - 1

    def begin(self) -> int:
        self._number += 1
        return self._number

    def next(self, env: int) -> int:
        return self._number


def open_world(
    config: RunConfig,
    spec: EnvSpec,
    roles: AgentRoles,
    listen: Listen,
    envs: int,
    *,
    off_policy: bool,
    episodes_before: int,
) -> ExternalWorld:
    """Listen for programs; closing the world's vector ends that.

    `off_policy` says that the learner can use actions that others chose, and can wait for the end of an episode.
    """
    options = read_options(config.environment, ExternalOptions)
    rows, number = AgentRows(spec, roles.learners), _EpisodeNumber(episodes_before)
    with ExitStack() as stack:
        others = None
        if roles.played:
            changing = None
            if roles.played_episodes is not None:
                changing = ChangingPolicies(roles.played_episodes.policy, number)
            seed = child_seed(config.seed, "others")
            policies_of = {agent: policy for agent, policy in roles.played.items() if agent not in roles.people}
            others = ControllerOthers(spec, policies_of, seed, changing=changing, elsewhere=roles.people)
            stack.callback(others.close)

        def policies() -> Sequence[int]:
            episode = number.begin()
            if roles.episodes is None:
                return roles.plan.policy_of
            names = roles.plan.names
            return [names.index(roles.episodes.policy(agent, episode)) for agent in roles.learners]

        learner = LearnerPort(rows.check, learns_from_logs=off_policy, people=roles.people)
        limits = EpisodeLimits(options.max_episodes, options.max_episodes, options.idle_s)
        stack.enter_context(listen(learner, spec, options.host, port_of(config.environment), limits))
        stack.callback(learner.close, _OVER)
        chooses = any(code.acts.head.kind == "categorical" for code in rows.codes.values())
        vector = ExternalVector(shape_of(spec, envs, others, masked=chooses), stack.pop_all())
    whole = off_policy if options.whole_episodes is None else options.whole_episodes
    return ExternalWorld(vector, learner, rows, policies, whole, others)
