"""One critic for several policies of the PPO learner: the same weights and Adam moments in each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mosaic.learners.engines.adam import FIRST_DECAY, SECOND_DECAY
from mosaic.learners.rollout.base import RolloutPolicies
from mosaic.models.engine import StateArrays

Report = dict[str, float]
_DECAYS = {"optimiser.first": FIRST_DECAY, "optimiser.second": SECOND_DECAY}


class SharedCritic:
    """Critic that passes from policy to policy while they learn, so that it learns from the rows of all.

    Each policy keeps its actor and a copy of the critic, at the same place of its flat weights as of its moments.
    """

    def __init__(self, policies: RolloutPolicies, places: Mapping[int, slice]) -> None:
        self._policies, self._places = policies, places
        first, *others = places
        for policy in others:
            self._pass_on(first, policy)

    def learn(self, learn_one: Callable[[int], Report], learning: Sequence[int], passes: int) -> dict[int, Report]:
        """Call `learn_one(policy)` for each policy in every pass; return the reports of each, averaged."""
        reports: dict[int, list[Report]] = {policy: [] for policy in learning}
        holder: int | None = None
        for _ in range(passes):
            for policy in learning:
                if holder is not None:
                    self._pass_on(holder, policy)
                reports[policy].append(learn_one(policy))
                holder = policy
        for policy in self._places:
            if holder is not None:
                self._pass_on(holder, policy)
        return {policy: _mean_report(told) for policy, told in reports.items()}

    def _pass_on(self, holder: int, policy: int) -> None:
        """Copy the critic; its moments keep their bias-corrected values, as a policy counts the steps of its actor."""
        if holder == policy:
            return
        policies, given, taken = self._policies, self._places[holder], self._places[policy]
        flat = policies.weights(policy)
        flat[taken] = policies.weights(holder)[given]
        policies.load(policy, flat)
        source, state = policies.training_state(holder), policies.training_state(policy)
        for name, decay in _DECAYS.items():
            state[name][taken] = source[name][given] * _rescaling(source, state, decay)
        policies.load_training_state(policy, state)


def _rescaling(source: StateArrays, target: StateArrays, decay: float) -> np.float32:
    before, after = (float(state["optimiser.count"][0]) for state in (source, target))
    return np.float32((1 - decay**after) / (1 - decay**before) if before else 0.0)


def interleaved(n_epochs: int, *, may_end_early: bool) -> tuple[int, int]:
    """Return the passes over all policies and the epochs of each policy in a pass.

    An update that `target_kl` may end early stays whole: the epochs after its end would begin again.
    """
    return (1, n_epochs) if may_end_early else (n_epochs, 1)


def _mean_report(told: Sequence[Report]) -> Report:
    return {name: float(np.mean([report[name] for report in told])) for name in (told[0] if told else ())}
