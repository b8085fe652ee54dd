"""Learners that use every sample equally often, regardless of how many agents a policy has.

Policies with unequal amounts of experience take part in unequally many updates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY, Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.minibatch_utils import MiniBatchCyclicIterator
from ray.rllib.utils.torch_utils import explained_variance
from ray.rllib.utils.typing import TensorType
from torch import Tensor

from mosaic.learners.trained_policies import BatchRule
from mosaic.workers.rllib.config.algorithms import default_learner
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.learner.modules import Batch
from mosaic.workers.rllib.learner.shared_modules import SharingLearner, parts_in_common


def parts_of(rows: float, minibatch: int | None, most: int) -> int:
    """Return the minibatches of one pass, as near to the requested size as an even division gets; at most `most`."""
    if minibatch is None:
        return min(1, most)
    return min(max(1, round(rows / minibatch)), most)


def cuts(units: int, parts: int, grain: int = 1) -> list[tuple[int, int]]:
    """Cut 0 … units into even parts that begin at multiples of `grain`."""
    whole = units // grain
    bounds = [whole * part // parts * grain for part in range(parts)] + [units]
    return list(pairwise(bounds))


def rounds(minibatches: Mapping[str, int]) -> list[Sequence[str]]:
    """Return the policies in each update, given their numbers of minibatches.

    Those with fewer are spread evenly, and all are in the last update: RLlib reports the losses of that one alone.
    """
    longest = max(minibatches.values(), default=0)
    updates: list[list[str]] = [[] for _ in range(longest)]
    for name, count in minibatches.items():
        for k in range(count):
            updates[(k + 1) * longest // count - 1].append(name)
    return list(updates)


Piece: TypeAlias = SingleAgentEpisode | MultiAgentEpisode
_SMOOTHING, _EPSILON = 0.99, 1e-5  # of RMSprop, as in the paper's code and in SB3


class A2CTorchLearner(PPOTorchLearner):
    """A2C, which RLlib has dropped: its PPO without ratio and clipping, with RMSprop."""

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Batch, fwd_out: Batch) -> TensorType:
        module: Any = self.module[module_id].unwrapped()
        mean = _mean_over(batch.get(Columns.LOSS_MASK))
        choice = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        targets = batch[Postprocessing.VALUE_TARGETS]

        policy_loss = -mean(choice.logp(batch[Columns.ACTIONS]) * batch[Postprocessing.ADVANTAGES])
        value_loss = mean((values - targets) ** 2)
        entropy = mean(choice.entropy())
        told = {
            POLICY_LOSS_KEY: policy_loss,
            VF_LOSS_KEY: value_loss,
            ENTROPY_KEY: entropy,
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: explained_variance(targets, values),
        }
        self.metrics.log_dict(told, key=module_id, window=1)
        bonus = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        return policy_loss + config.vf_loss_coeff * value_loss - bonus * entropy

    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        assert config is not None
        params = self.get_parameters(self.module[module_id])
        optimizer = torch.optim.RMSprop(params, alpha=_SMOOTHING, eps=_EPSILON)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr)


def _mean_over(mask: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Return a mean over experience only.

    RLlib adds a step to each piece of an episode, for its last value; that step is not experience.
    """
    if mask is None:
        return torch.mean
    return lambda data: data[mask].sum() / mask.sum()


class TrainedOnly(TorchLearner):
    """Learner that drops untrained modules before it builds batches.

    RLlib does so only afterwards, and cannot build batches if the learner does not have the network at all: snapshots
    of a league live in env runners only.
    """

    def _make_batch_if_necessary(self, training_data: TrainingData) -> MultiAgentBatch:
        if training_data.episodes is not None:
            kept = [part for episode in training_data.episodes if (part := _part(episode, self._learns)) is not None]
            training_data = replace(training_data, episodes=kept)
        batch: MultiAgentBatch = super()._make_batch_if_necessary(training_data)  # type: ignore[no-untyped-call]
        return batch

    def _create_iterator_if_necessary(self, **asked: Any) -> Iterable[MultiAgentBatch]:
        chosen: Iterable[MultiAgentBatch] = super()._create_iterator_if_necessary(**asked)
        rule = self.config.policies_to_train
        if isinstance(chosen, dict) and isinstance(rule, BatchRule):  # RLlib's answer if no policy is left
            raise rule.nothing_chosen()
        return chosen

    def _learns(self, module_id: str | None) -> bool:
        if module_id is None:
            return True
        return module_id in self.module and bool(self.should_module_be_updated(module_id))  # type: ignore[no-untyped-call]


def _part(episode: Piece, learns: Callable[[str | None], bool]) -> Piece | None:
    """Return the trained part of an episode, or None if nothing is left.

    The episode itself stays whole: env runners count its returns.
    """
    if not isinstance(episode, MultiAgentEpisode):
        return episode if learns(episode.module_id) else None
    kept = {agent: own for agent, own in episode.agent_episodes.items() if learns(own.module_id)}
    if len(kept) == len(episode.agent_episodes):
        return episode
    if not kept:
        return None
    part = copy(episode)
    part.agent_episodes = kept
    return part


_IN_FRAGMENTS = ("appo", "impala")  # V-trace cuts a batch into pieces of the rollout's length


class BalancedMinibatches:
    """Minibatches with each policy's samples `epochs` times.

    RLlib would cycle through all until the largest is done.
    """

    def __init__(
        self, batch: MultiAgentBatch, parts: Mapping[str, int], epochs: int, *, shuffle: bool, grain: int = 1
    ) -> None:
        self._batch, self._parts, self._epochs = batch, parts, epochs
        self._shuffle, self._grain = shuffle, grain

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        streams = {name: self._stream(name) for name, parts in self._parts.items() if parts}
        for names in rounds({name: self._parts[name] * self._epochs for name in streams}):
            yield MultiAgentBatch({name: next(streams[name]) for name in names}, len(self._batch))

    def _stream(self, name: str) -> Iterator[Any]:
        rows = self._batch.policy_batches[name]
        for _ in range(self._epochs):
            if self._shuffle:
                rows.shuffle()
            for start, end in cuts(units_of(rows), self._parts[name], self._grain):
                yield rows[start:end]


class Balanced(TorchLearner):
    """Mixin that cuts batches with `BalancedMinibatches`."""

    def _create_iterator_if_necessary(self, **asked: Any) -> Iterable[MultiAgentBatch]:
        chosen = super()._create_iterator_if_necessary(**asked)
        if not isinstance(chosen, MiniBatchCyclicIterator):
            return chosen  # one update with everything: no sample is used twice
        batch, epochs = chosen._batch, chosen._num_epochs
        grain = self.config.get_rollout_fragment_length() if self._in_fragments else 1
        parts = self._parts(batch, asked.get("minibatch_size"), grain)
        return BalancedMinibatches(batch, parts, epochs, shuffle=chosen._shuffle_batch_per_epoch, grain=grain)

    @property
    def _in_fragments(self) -> bool:
        return self.config.algo_class is not None and self.config.algo_class.__name__.lower() in _IN_FRAGMENTS

    def _parts(self, batch: MultiAgentBatch, minibatch: int | None, grain: int) -> dict[str, int]:
        """Return the minibatches of each policy.

        They are the same in all learner processes, since these step together; a policy of which one process has no
        samples is skipped.
        """
        names = sorted(self.module.keys()) if self.distributed else list(batch.policy_batches)
        own = {name: batch.policy_batches.get(name) for name in names}
        rows = torch.tensor([float(len(part)) if part is not None else 0.0 for part in own.values()])
        most = torch.tensor([float(units_of(part) // grain or 1) if part is not None else 0.0 for part in own.values()])
        if self.distributed:
            rows, most = rows.to(self.device), most.to(self.device)
            torch.distributed.all_reduce(rows)
            torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MIN)
            rows /= torch.distributed.get_world_size()
        return {
            name: parts_of(count, minibatch, int(limit))
            for name, count, limit in zip(names, rows.tolist(), most.tolist(), strict=True)
        }


def units_of(rows: SampleBatch) -> int:
    """Return the number of units that can be cut: steps, or whole sequences if a network has memory."""
    return len(rows[SampleBatch.SEQ_LENS]) if rows._slice_seq_lens_in_B else len(rows)


class AllPairs(TorchLearner):
    """Mixin for TQC, whose loss compares all pairs of quantiles: torch would take that for a mistake in shapes."""

    def compute_loss_for_module(self, **given: Any) -> TensorType:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using a target size")
            return super().compute_loss_for_module(**given)  # type: ignore[safe-super]


def learner_class(setup: RllibSetup, own: type[TorchLearner] | None = None) -> type[Learner]:
    """Return RLlib's learner for the algorithm, or the user's `own`, with the mixins that the run needs."""
    parts: list[type[Any]] = []
    if not setup.single or setup.roles.trained_by_batch is not None:
        parts.append(TrainedOnly)
    if not setup.single:
        if setup.options.balanced:
            parts.append(Balanced)
        if parts_in_common(setup):
            parts.append(SharingLearner)
    if setup.algorithm == "tqc" and own is None:
        parts.append(AllPairs)
    return composed((*parts, own or own_learner(setup.algorithm)))


@cache
def composed(parts: tuple[type[Any], ...]) -> type[Learner]:
    """Return one class, with the same name in every process."""
    if len(parts) == 1:
        return cast("type[Learner]", parts[0])
    return cast("type[Learner]", type("".join(part.__name__ for part in parts), parts, {"__module__": __name__}))


def own_learner(algorithm: str) -> type[TorchLearner]:
    return A2CTorchLearner if algorithm == "a2c" else default_learner(algorithm)
