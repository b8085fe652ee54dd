"""Policies being cloned, each with its engine, training steps and held-out steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import Counters
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.recorded import RecordedSteps, check_recorded, recorded_state, split_episodes
from mosaic.learners.rollout.arrays import EpisodeTally
from mosaic.learners.rollout.base import PolicyInfos, RolloutSettings, Stopwatch
from mosaic.learners.rollout.buffers import Rollout
from mosaic.learners.rollout.engine_policies import Trains
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Bytes, Floats, Ints, LearnSettings, StateArrays
from mosaic.models.fused import OBSERVATION_LIMIT
from mosaic.models.packed_rows import PackedRows, RowPacking

_CHUNK = 4096  # rows that are decided on at once


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows of experience with sample weights instead of advantages, and their trajectories."""

    rows: Rollout
    trajectory: Ints
    first: Bytes  # of a trajectory
    learned: Ints  # rows to learn from
    held_out: Ints

    @property
    def labels(self) -> int:
        """Number of rows that count; the others are of weight 0."""
        return len(self.learned) + len(self.held_out)


def label_rows(
    steps: RecordedSteps, share: float, gamma: float, seed: int, packing: RowPacking | None = None
) -> LabelledRows:
    """Return the rows of recorded steps; those of weight 0 are neither learned from nor measured."""
    learned, held_out = split_episodes(steps.episode, share, child_seed(seed, "held_out"))
    obs = steps.obs
    empty = np.zeros(len(steps), np.float32)
    rows = Rollout(
        obs=obs if packing is None else PackedRows(packing, packing.pack(obs)),
        critic_obs=np.zeros((len(steps), 0), np.float32),
        mask=steps.mask,
        act=steps.act,
        logp=empty,
        val=empty,
        adv=steps.weight,
        ret=steps.returns(gamma),
    )
    counts = steps.weight > 0
    return LabelledRows(rows, steps.trajectory, steps.first, learned[counts[learned]], held_out[counts[held_out]])


def no_rows(architecture: Architecture) -> LabelledRows:
    head, nothing = architecture.head, np.zeros(0, np.float32)
    obs, critic = np.zeros((0, architecture.observation), np.float32), np.zeros((0, 0), np.float32)
    mask, act = np.zeros((0, head.width), np.uint8), np.zeros((0, head.parts), np.float32)
    rows = Rollout(obs, critic, mask, act, nothing, nothing, nothing, nothing)
    none = np.zeros(0, np.int64)
    return LabelledRows(rows, none, np.zeros(0, np.uint8), none, none)


def moments_of(obs: Floats) -> RunningMoments:
    """Return mean and variance of all rows, for a normalization that stays as it is."""
    found, wide = RunningMoments.of_width(obs.shape[1]), obs.astype(np.float64)
    found.merge(wide.sum(axis=0), (wide * wide).sum(axis=0), float(len(obs)))
    return found


def normalized(obs: Floats, moments: RunningMoments) -> Floats:
    scaled: Floats = np.clip((obs - moments.shift) * moments.scale, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
    return scaled


class Clone:
    """One policy's engine with the rows that it learns from."""

    def __init__(self, engine: Trains, data: LabelledRows, settings: LearnSettings) -> None:
        self.engine, self.data, self.settings = engine, data, settings
        self._remembers = engine.architecture.memory is not None

    def order(self, generator: np.random.Generator) -> Ints:
        """Return the rows to learn from in a random order; with memory, trajectories stay whole."""
        learned = self.data.learned
        if not self._remembers:
            return generator.permutation(learned)
        number = self.data.trajectory[learned]
        rank = generator.permutation(int(number.max(initial=0)) + 1)
        return learned[np.argsort(rank[number], kind="stable")]

    def learn(self, idx: Ints, learning_rate: float, seed: int) -> dict[str, float]:
        self.engine.seed_shuffles(seed)
        data = self.data
        report = self.engine.learn(data.rows, data.trajectory, data.first, idx, self.settings, learning_rate)
        return {name: report[name] for name in ("value_loss", "entropy", "gradient_norm")} | {
            "loss": report["policy_loss"]
        }

    def measure(self) -> dict[str, float]:
        """Return the loss on the held-out rows, and how often the most probable action is the recorded one.

        Of actions that are numbers, the root of the mean squared error takes the place of this accuracy.
        """
        data, held_out = self.data, self.data.held_out
        if not len(held_out):
            return {}
        losses = self.engine.measure(data.rows, data.trajectory, data.first, held_out, self.settings)
        found = {"held_out_loss": losses["policy_loss"]}
        chosen, recorded = self._chosen(held_out), data.rows.act[held_out]
        if self.engine.architecture.head.kind == "gaussian":
            return found | {"held_out_error": float(np.sqrt(np.square(chosen - recorded).mean()))}
        return found | {"held_out_accuracy": float((chosen == recorded).all(axis=1).mean())}

    def _chosen(self, idx: Ints) -> Floats:
        """Return the most probable actions; a memory sees the trajectory up to each row."""
        data, parts = self.data, self.engine.architecture.head.parts
        chosen = np.zeros((len(data.trajectory), parts), np.float32)
        for rows in _together(data, idx) if self._remembers else np.array_split(idx, -(-len(idx) // _CHUNK)):
            mask = data.rows.mask[rows] if len(data.rows.mask) else data.rows.mask
            act = np.zeros((len(rows), parts), np.float32)
            obs = np.ascontiguousarray(data.rows.obs[rows])
            self.engine.greedy(obs, mask, data.trajectory[rows], data.first[rows], act)
            chosen[rows] = act
        found: Floats = chosen[idx]
        return found


def _together(data: LabelledRows, idx: Ints) -> Sequence[Ints]:
    """Return the first rows of the trajectories that hold a row of `idx`, then their second rows, and so on."""
    wanted = np.flatnonzero(np.isin(data.trajectory, data.trajectory[idx]))
    starts = np.flatnonzero(data.first)
    time = wanted - starts[np.searchsorted(starts, wanted, side="right") - 1]
    return [wanted[time == step] for step in range(int(time.max(initial=-1)) + 1)]


class CloneLearner:
    """Base of learners that clone: policies with an engine each, and one env to look at."""

    league = None

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        clones: Sequence[Clone],
        seed: int,
        scalers: Sequence[RunningMoments | None] = (),
    ) -> None:
        """`clones` and `scalers` have one entry per policy."""
        self.vector, self.plan, self.clones = vector, plan, clones
        self.before = Counters()
        self.tally: EpisodeTally = RolloutSettings(1, seed).make_tally(plan, vector.shape)
        self._seed = seed
        self._recorded = [len(clone.data.trajectory) for clone in clones]  # rows that a checkpoint need not hold
        self._scalers = tuple(scalers) or (None,) * len(clones)
        self._losses: list[dict[str, float]] = [{} for _ in clones]
        self._times = Stopwatch()

    def weights(self, policy: int) -> Floats:
        return self.clones[policy].engine.weights()

    def load(self, policy: int, flat: Floats, seen: RunningMoments | None = None) -> None:
        """Load weights to start from; their normalization must be that of the dataset."""
        if seen is not None:
            raise InputError(
                "That policy was trained with a normalization of its own, and cloning has the dataset's. "
                "Start from one that was trained without normalize_observations."
            )
        self.clones[policy].engine.load(flat)

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        self.clones[policy].engine.load_training_state(state)

    def scaler(self, policy: int) -> RunningMoments | None:
        return self._scalers[policy]

    def training_state(self) -> StateArrays:
        state: StateArrays = {}
        for policy, name in enumerate(self.plan.names):
            own = self.clones[policy].engine.training_state()
            state |= {f"{name}/{key}": value for key, value in own.items()}
            state |= recorded_state(name, self._recorded[policy])
            scaler = self._scalers[policy]
            state |= {} if scaler is None else scaler.to_arrays(f"{name}/seen")
        return state

    def load_training_state(self, weights: Sequence[Floats], state: StateArrays) -> None:
        for policy, name in enumerate(self.plan.names):
            engine, prefix = self.clones[policy].engine, f"{name}/"
            check_recorded(name, self._recorded[policy], state)
            engine.load(weights[policy])
            engine.load_training_state(
                {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            )

    def take_infos(self) -> PolicyInfos:
        return []

    def split(self) -> tuple[float, float, float]:
        return self._times.take()

    def close(self) -> None:
        self.vector.close()
