"""Rollout worker on a device: envs, policies and learning as tensors.

Nothing but weights, statistics and the results of episodes leaves the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.tensors.vector import TensorVector
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.rollout.arrays import WINDOW
from mosaic.learners.rollout.base import PolicyInfos, Rates, RolloutSettings, Stopwatch
from mosaic.learners.rollout.tensor_iteration import TensorIteration
from mosaic.learners.rollout.tensor_policies import REPORTED, TensorPolicies
from mosaic.models.engine import LearnSettings, StateArrays

_STATE = "tensors.state"  # names in checkpoints
_KEPT = ("returns", "length", "policy_of", "rated", "recent", "recent_length", "finished")


class TensorRollouts:
    """Rollout worker whose envs are tensors; `learn` does the rollout too, in the same graph."""

    def __init__(
        self,
        vector: TensorVector,
        plan: TrainingPlan,
        policies: TensorPolicies,
        learning: Sequence[LearnSettings],
        settings: RolloutSettings,
    ) -> None:
        self.vector, self.plan, self.policies, self._settings = vector, plan, policies, settings
        self.assignment, self.tally = (
            settings.make_assignment(plan, vector.shape),
            settings.make_tally(plan, vector.shape),
        )
        self.device = TensorIteration(vector, plan, policies, learning, settings)
        self._work: Callable[[], None] | None = None
        self.times = Stopwatch()
        self.env_steps = 0
        vector.reset(child_seed(settings.seed, "envs"))

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: a rollout never returns to Python, and takes milliseconds."""

    def collect(self) -> None:
        """Do nothing: `learn` does the rollout too."""

    def learn(self, rates: Sequence[Rates], reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started, device = perf_counter(), self.device
        for learner, rate in zip(self.policies.learners, rates, strict=True):
            learner.set_rates(rate)
        device.league.prepare(self.assignment, self.policies, device.results)
        if self._work is None:
            self._work = device.captured()
        device.stats.zero_()
        self._work()
        self._read_results()
        stats = device.stats.cpu().numpy()  # waits for the device
        self.env_steps += self._settings.n_steps * self.vector.shape.envs
        self.times.add(learning_s=perf_counter() - started)
        return [_explain(row) for row in stats]

    def _read_results(self) -> None:
        results, tally = self.device.results, self.tally
        tally.recent[:] = results.recent[:, :WINDOW].cpu().numpy()
        tally.recent_length[:] = results.recent_length[:WINDOW].cpu().numpy()
        tally.finished[:] = results.finished.cpu().numpy()
        tally.decisions[0] += self.device.rollout.decider.numel()
        if self.plan.self_play:
            tally.scores[:] += self.device.league.by_snapshot(results.scores.cpu().numpy())
            tally.selfplay[:] += results.selfplay.cpu().numpy()
            results.scores.zero_()
            results.selfplay.zero_()

    def keep_own_critics(self) -> None:
        """Do nothing: policies never share a critic here."""

    def take_infos(self) -> PolicyInfos:
        return []

    def env_state(self) -> StateArrays:
        here, results = self.vector.here, self.device.results
        return {
            _STATE: here.state.cpu().numpy(),
            "tensors.ints": here.ints.cpu().numpy(),
            "tensors.generator": self.vector.generator.get_state().cpu().numpy(),
            **{f"tensors.{name}": getattr(results, name).cpu().numpy() for name in _KEPT},
            "tensors.decisions": self.tally.decisions.copy(),
        }

    def restore_envs(self, state: StateArrays, env_steps: int) -> None:
        """Continue the episodes of a state; without one, or with that of another device, begin new ones."""
        here, results = self.vector.here, self.device.results
        if _STATE not in state or state[_STATE].shape != tuple(here.state.shape):
            self.vector.reset(child_seed(self._settings.seed, "envs", env_steps))
            return
        self.vector.load(state[_STATE], state["tensors.ints"])
        self.device.league.prepare(self.assignment, self.policies, results)  # games continue against them
        for name in _KEPT:
            getattr(results, name).copy_(torch.from_numpy(state[f"tensors.{name}"]))
        self.tally.decisions[:] = state["tensors.decisions"]
        random = torch.from_numpy(state["tensors.generator"])
        if random.shape == self.vector.generator.get_state().shape:  # a CPU's and a GPU's random streams differ
            self.vector.generator.set_state(random)
        else:
            self.vector.generator.manual_seed(child_seed(self._settings.seed, "envs", env_steps))
        tally = self.tally
        tally.finished[:] = results.finished.cpu().numpy()


def _explain(row: NDArray[np.float32]) -> dict[str, float]:
    """Return means over the minibatches; empty where nothing was learned."""
    count = float(row[-1])
    return {name: float(row[place]) / count for place, name in enumerate(REPORTED)} if count else {}
