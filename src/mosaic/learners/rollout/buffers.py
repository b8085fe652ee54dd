"""Rollout buffers: rows of experience, their trajectories and outcomes."""

# compiled code uses this file

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorEnv, VectorShape
from mosaic.learners.ppo.gae import advantages, rows_of
from mosaic.learners.rollout.arrays import Track, make_track
from mosaic.models.engine import Experience
from mosaic.models.packed_rows import RowPacking, Rows, zero_rows

NO_POLICY = -1


class Rollout(NamedTuple):
    """Rows of experience, as `Experience` describes them."""

    obs: Rows
    critic_obs: Rows
    mask: NDArray[np.uint8]
    act: NDArray[np.float32]
    logp: NDArray[np.float32]
    val: NDArray[np.float32]
    adv: NDArray[np.float32]
    ret: NDArray[np.float32]


def make_rollout(shape: VectorShape, steps: int, critic: int, packing: RowPacking | None) -> Rollout:
    """Allocate a rollout with a centralised critic's row of width `critic` (0: none) and packed observations."""
    rows = steps * shape.slots
    joined = packing.repeated(critic // packing.width) if packing and critic else None
    return Rollout(
        obs=zero_rows(rows, shape.width, packing),
        critic_obs=zero_rows(rows, critic, joined),
        mask=np.ones((rows, shape.mask_width) if shape.masked else (0, 0), np.uint8),
        act=np.zeros((rows, shape.parts), np.float32),
        logp=np.zeros(rows, np.float32),
        val=np.zeros(rows, np.float32),
        adv=np.zeros(rows, np.float32),
        ret=np.zeros(rows, np.float32),
    )


ExperienceT = TypeVar("ExperienceT", bound=Experience)


class RolloutBuffer(Generic[ExperienceT]):
    """Rows of one rollout with their trajectories (`track`), from which advantages and returns follow."""

    def __init__(self, rows: ExperienceT, shape: VectorShape, steps: int) -> None:
        self.rows = rows
        self.track: Track = make_track(shape, steps)
        self.steps, self._agents = steps, len(shape.agents)
        self._known = np.zeros(steps * shape.slots, np.uint8)  # rows whose outcome is known
        self._idx = np.zeros(steps * shape.slots, np.int64)

    def estimate_advantages(
        self, gamma: NDArray[np.float32], gae_lambda: NDArray[np.float32], reward_scale: NDArray[np.float32]
    ) -> None:
        """Compute advantages and returns; `gamma` and `gae_lambda` are of each policy that learns."""
        rows = self.rows
        advantages(self.track, self._agents, gamma, gae_lambda, reward_scale, rows.adv, rows.ret, self._known)

    def rows_of(self, policy: int) -> NDArray[np.int64]:
        """Return the indices of a policy's decisions with a known outcome, until the next call."""
        return self._idx[: rows_of(self.track.policy_of, self._known, policy, self._idx)]


class SequenceBuffer(RolloutBuffer[Rollout]):
    """Rollout buffer with the (env, agent) of each row and the starts of episodes, which nets with memory need."""

    def __init__(self, rows: Rollout, shape: VectorShape, steps: int) -> None:
        super().__init__(rows, shape, steps)
        self.first = np.ones(steps * shape.slots, np.uint8)
        self.owner = np.zeros(steps * shape.slots, np.int64)
        self.fresh = np.ones(shape.rows, np.uint8)  # agents that have not yet decided in this episode
        self._first_row_of_slot = np.arange(shape.slots) // shape.slots_per_env * len(shape.agents)

    def owners(self, vector: VectorEnv) -> NDArray[np.int64]:
        """Return the (env, agent) of each slot now."""
        return self._first_row_of_slot + vector.who

    def begin_step(self, time: int, vector: VectorEnv) -> slice:
        """Record which agents act; return the rows of this step."""
        slots = vector.shape.slots
        rows = slice(time * slots, (time + 1) * slots)
        self.track.who[time] = vector.who
        self.track.active[time] = vector.active
        self.owner[rows] = self.owners(vector)
        self.first[rows] = self.fresh[self.owner[rows]]
        return rows

    def end_decisions(self, rows: slice, acting: NDArray[np.bool_] | None = None) -> None:
        """Record that the agents of these rows have decided in their episode; `acting` leaves out inactive slots."""
        owner = self.owner[rows]
        self.fresh[owner if acting is None else owner[acting]] = 0

    def end_episodes(self, time: int) -> None:
        ended = self.track.ended[time]
        if ended.any():
            self.fresh[ended > 0] = 1

    def leave_out(self, time: int) -> None:
        """Mark the rest of the rollout as steps without decisions: the values after it apply at once."""
        track = self.track
        track.active[time : self.steps] = 0
        track.policy_of[time:] = NO_POLICY
        track.reward[time:] = 0
        track.ended[time:] = 0
        self.owner[time * track.policy_of.shape[1] :] = NO_POLICY
