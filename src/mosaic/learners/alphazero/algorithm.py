"""AlphaZero: play games against itself by search, keep positions in a replay buffer, and learn from them.

Search improves on the network's moves, the network learns the improved moves and how the games ended, and so makes the
next search better. An iteration plays a few moves in every game and takes as many updates as `reuse` asks for. With
several threads it does both at once: games are played with the weights that the last iteration left, and updates learn
from the positions that it stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector, Features, KernelData
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.alphazero.self_play import (
    ENV_STEPS,
    PLIES,
    POSITIONS,
    PROVEN,
    Games,
    PlaySettings,
    Positions,
    begin_games,
    make_games,
    make_positions,
    play_moves,
)
from mosaic.learners.alphazero.update import (
    GRADIENT_NORM,
    POLICY_LOSS,
    ROWS,
    STATS,
    UPDATES,
    VALUE_LOSS,
    Images,
    TargetBatch,
    learn,
    make_batch,
    store,
)
from mosaic.learners.base import WORKER_PREFIX, Counters, LearnerProgress, measure_progress
from mosaic.learners.engines.adam import Optimiser, load_optimiser_state, make_optimiser, optimiser_state
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.rollout.arrays import EpisodeTally, make_tally
from mosaic.learners.rollout.base import PolicyInfos, Stopwatch
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays, check_size
from mosaic.models.fused import Model, Scratch, build_model, make_scratch
from mosaic.models.layout import initial_weights
from mosaic.models.random import random_streams
from mosaic.policies.search.features import (
    image_of_features,
    observation_network,
    read_features,
    read_observations,
    reads_features,
)
from mosaic.policies.search.simulations import halving_schedule
from mosaic.policies.search.tree import Evaluator, Leaves, Tree, make_evaluator, make_leaves, make_rules, make_tree

MOVES = 4  # of every game in an iteration
PARTS = 2  # of the games for each of several threads: one of them learns first and plays fewer


class GamePart(NamedTuple):
    """Games that are played by one thread at a time, as parts of the vector env's arrays, with their trees."""

    data: KernelData
    arrays: VectorArrays
    games: Games
    done: Positions
    tree: Tree
    leaves: Leaves
    net: Evaluator
    tally: EpisodeTally


class Fit(NamedTuple):
    """Network in training: its optimiser, the buffer, and where the next batch goes."""

    optimiser: Optimiser
    model: Model
    buffer: Positions
    images: Images
    dice: NDArray[np.uint64]
    batch: TargetBatch
    scratch: Scratch
    due: NDArray[np.float64]  # [1] updates; a fraction is carried over


class AlphaZeroLearner:
    """Learner of one policy that plays all agents of a compiled game."""

    league = None

    def __init__(
        self,
        vector: CompiledVector,
        plan: TrainingPlan,
        architecture: Architecture,
        options: AlphaZeroOptions,
        seed: int,
        total_env_steps: int | None,
        dtype: type[np.generic],
        features: Features | None = None,
    ) -> None:
        """`architecture` reads the features, if given. `dtype` is the type in which its inputs are kept, exactly."""
        self.vector, self.plan, self.before = vector, plan, Counters()
        self._options, self._total = options, total_env_steps
        self._architecture, self._features = architecture, features
        model, width, actions = build_model(architecture), architecture.observation, architecture.head.width
        self._fit = Fit(
            optimiser=make_optimiser(initial_weights(architecture, child_seed(seed, "weights", 0))),
            model=model,
            buffer=make_positions(options.buffer_size, width, actions, dtype),
            images=images_of(vector, features),
            dice=random_streams(child_seed(seed, "batches"), 1),
            batch=make_batch(options.batch_size, width, actions),
            scratch=make_scratch(model, options.batch_size),
            due=np.zeros(1),
        )
        self._schedule = halving_schedule(options.simulations, actions)
        self._settings = PlaySettings(
            simulations=options.simulations,
            exploration=np.float32(options.c),
            opening_share=np.float32(options.opening_share),
            opening_plies=options.opening_plies,
            random_moves=np.float32(options.random_moves),
            play_out=np.float32(options.play_out),
            result_weight=np.float32(options.result_weight),
            begin=vector.kernel.begin.address,
        )
        self._rules = make_rules(vector.kernel, features)
        self._pool = ThreadPoolExecutor(options.threads) if options.threads > 1 else None
        vector.reset(child_seed(seed, "envs"))
        self._tables = self._make_tables(architecture, seed, dtype)
        self._losses: dict[str, float] = {}
        self._times = Stopwatch()

    def _make_tables(self, architecture: Architecture, seed: int, dtype: type[np.generic]) -> tuple[GamePart, ...]:
        shape, kernel, nodes = self.vector.shape, self.vector.kernel, self._options.simulations + 1
        width, actions = architecture.observation, architecture.head.width
        rng = random_streams(child_seed(seed, "games"), shape.envs)
        weights = self._fit.optimiser.weights
        if self._pool is not None:
            weights = weights.copy()  # updates change the optimiser's while other threads play
        parts = 1 if self._pool is None else min(shape.envs, PARTS * self._options.threads)
        bounds = np.linspace(0, shape.envs, parts + 1).astype(int).tolist()
        made = []
        for first, end in pairwise(bounds):
            count, whole = end - first, self.vector.data
            data = KernelData(whole.facts, whole.state[first:end], whole.ints[first:end], whole.rng[first:end])
            rows = _part(self.vector.arrays, first, end)
            games = make_games(count, width, actions, dtype, rng[first:end].copy())
            leaves = make_leaves(kernel, count, nodes, self._features)
            table = GamePart(
                data,
                rows,
                games,
                make_positions(count * (PLIES + MOVES), width, actions, dtype),
                make_tree(kernel, count, nodes),
                leaves,
                make_evaluator(architecture, weights, count),
                make_tally(kernel.shape(count), 1, 0),
            )
            begin_games(self._rules, data, rows, games, leaves.act, self._settings)
            games.counts[:] = 0
            made.append(table)
        return tuple(made)

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + self._count(ENV_STEPS)

    @property
    def tally(self) -> EpisodeTally:
        return self._tables[0].tally

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: an iteration takes a fraction of a second and is not interrupted."""

    def iterate(self) -> None:
        begun, stats = perf_counter(), np.zeros(STATS)
        if self._pool is None:
            for table in self._tables:
                self._play(table)
            played = perf_counter()
            self._store()
            self._learn(self.learning_rate, stats)
        else:
            self._tables[0].net.weights[:] = self._fit.optimiser.weights  # which all tables share
            learning = self._pool.submit(self._learn, self.learning_rate, stats)  # the longest part: first
            list(self._pool.map(self._play, self._tables))
            played = perf_counter()
            learning.result()
            self._store()
        self._times.add(0.0, played - begun, perf_counter() - played)
        self._losses = self._explain(stats)

    def _store(self) -> None:
        """Move finished positions into the buffer, and count the updates that they make due."""
        new = sum(int(store(self._fit.buffer, table.done)) for table in self._tables)
        if int(self._fit.buffer.at[1]) >= min(self._options.learning_starts, self._options.buffer_size):
            self._fit.due[:] += new * self._options.reuse / self._options.batch_size

    def _play(self, table: GamePart) -> None:
        play_moves(
            self._rules,
            table.data,
            table.arrays,
            table.tree,
            table.leaves,
            table.net,
            table.games,
            table.done,
            table.tally,
            self._settings,
            self._schedule,
            MOVES,
        )

    def _learn(self, rate: float, stats: NDArray[np.float64]) -> None:
        """Take the updates that are due."""
        due = self._fit.due
        updates = int(due[0])
        due -= updates
        learn(
            *self._fit[:-1],
            updates,
            rate,
            self._options.vf_coef,
            self._options.max_grad_norm,
            stats,
        )

    @property
    def learning_rate(self) -> float:
        """Current step size: from the first to the final one along a cosine, or the first if the run has no end."""
        first, final = self._options.learning_rate, self._options.learning_rate_final
        if self._total is None:
            return first
        part = min(1.0, self.env_steps / self._total)
        return final + (first - final) * 0.5 * (1 + math.cos(math.pi * part))

    def _count(self, which: int) -> int:
        return sum(int(table.games.counts[which]) for table in self._tables)

    def _explain(self, stats: NDArray[np.float64]) -> dict[str, float]:
        found = {
            "learning_rate": self.learning_rate,
            "positions": float(self._fit.buffer.at[1]),
            "proven_share": self._count(PROVEN) / max(1, self._count(POSITIONS)),
        }
        if stats[UPDATES]:
            found["policy_loss"] = float(stats[POLICY_LOSS] / stats[ROWS])
            found["value_loss"] = float(stats[VALUE_LOSS] / stats[ROWS])
            found["gradient_norm"] = float(stats[GRADIENT_NORM] / stats[UPDATES])
        return found

    def progress(self) -> LearnerProgress:
        tallies = [table.tally for table in self._tables]
        found = measure_progress(self.env_steps, self.before, tallies, (dict(self._losses),))
        steps = self.before.agent_steps + self._count(ENV_STEPS)  # one agent acts in each step
        return LearnerProgress(found.env_steps, steps, found.episodes, found.returns, found.lengths, found.losses)

    def weights(self, policy: int) -> NDArray[np.float32]:
        """Return the weights of the network that reads observations."""
        flat = self._fit.optimiser.weights
        if self._features is None:
            return flat.copy()
        return read_observations(self._architecture, flat, self._features)

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        if seen is not None:
            raise InputError(
                "That policy was trained on normalised observations, but alphazero does not normalise them."
            )
        if self._features is not None:
            outer = observation_network(self._architecture, self._features)
            if not reads_features(outer, flat, self._features):
                raise InputError(
                    "That network does not read the game's features: start from one that alphazero has trained with "
                    "features=true, or set features=false."
                )
            flat = read_features(outer, flat, self._features)
        check_size(flat, len(self._fit.optimiser.weights))
        self._fit.optimiser.weights[:] = flat

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        load_optimiser_state(self._fit.optimiser, state)

    def scaler(self, policy: int) -> None:
        """Return None: observations are not normalised."""

    def training_state(self) -> StateArrays:
        """Return optimiser, buffer, running games and random streams."""
        name, buffer = self.plan.names[0], self._fit.buffer
        state = {f"{name}/{key}": value for key, value in optimiser_state(self._fit.optimiser).items()}
        used = int(buffer.at[1])
        state |= {
            _key("buffer", "obs"): buffer.obs[:used].copy(),
            _key("buffer", "policy"): buffer.policy[:used].copy(),
            _key("buffer", "value"): buffer.value[:used].copy(),
            _key("buffer", "at"): buffer.at.copy(),
            _key("learner", "dice"): self._fit.dice.copy(),
            _key("learner", "due"): self._fit.due.copy(),
        }
        for number, table in enumerate(self._tables):
            state |= {_key(str(number), key): value.copy() for key, value in _moving(table)}
        return state

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        name = self.plan.names[0]
        self.load(0, weights[0])
        self.load_optimiser(0, {key.removeprefix(f"{name}/"): value for key, value in state.items()})
        if _key("learner", "due") not in state:
            return  # another env: its games begin, and the buffer is empty
        used = int(state[_key("buffer", "at")][1])
        for key, array in (
            ("obs", self._fit.buffer.obs),
            ("policy", self._fit.buffer.policy),
            ("value", self._fit.buffer.value),
        ):
            array[:used] = state[_key("buffer", key)]
        self._fit.buffer.at[:] = state[_key("buffer", "at")]
        self._fit.dice[:], self._fit.due[:] = state[_key("learner", "dice")], state[_key("learner", "due")]
        saved = [number for number in range(self.vector.shape.envs) if _key(str(number), "games.kept") in state]
        moving = [dict(_moving(table)) for table in self._tables]
        for key in moving[0]:  # saved parts may be others: their number depends on the threads
            whole = np.concatenate([state[_key(str(number), key)] for number in saved])
            ends = np.cumsum([len(arrays[key]) for arrays in moving])
            for arrays, games in zip(moving, np.split(whole, ends[:-1]), strict=True):
                arrays[key][:] = games

    def take_infos(self) -> PolicyInfos:
        return []  # compiled envs have none

    def split(self) -> tuple[float, float, float]:
        return self._times.take()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self.vector.close()


def images_of(vector: CompiledVector, features: Features | None) -> Images:
    """Return the images of what the network reads: observations, or features."""
    rules, width = vector.kernel.search, vector.shape.width if features is None else features.width
    symmetries = () if rules is None else rules.symmetries
    actions = vector.kernel.heads[0].width
    rows = [
        each.observation if features is None else image_of_features(features, each.observation) for each in symmetries
    ]
    return Images(
        np.stack([np.arange(width), *rows]).astype(np.int64),
        np.stack([np.arange(actions), *(each.actions for each in symmetries)]).astype(np.int64),
    )


def _moving(table: GamePart) -> list[tuple[str, NDArray[np.generic]]]:
    """Return the arrays of running games that change from move to move, a row for each game or agent."""
    shown = [(f"env.{name}", getattr(table.arrays, name)) for name in ("obs", "mask", "who")]
    states = [(f"env.{name}", getattr(table.data, name)) for name in ("state", "ints", "rng")]
    games = table.games._asdict()
    games.pop("counts")  # a resumed learner counts from 0: earlier steps are in `before`
    return shown + states + [(f"games.{name}", array) for name, array in games.items()]


def _key(part: str, name: str) -> str:
    return f"{WORKER_PREFIX}{part}.{name}"


def _part(arrays: VectorArrays, first: int, end: int) -> VectorArrays:
    """Return the rows of some games, in each of which one of two agents acts at a time."""
    here, rows = slice(first, end), slice(2 * first, 2 * end)
    return VectorArrays(
        arrays.obs[here],
        arrays.mask[here],
        arrays.who[here],
        arrays.active[here],
        arrays.rew[rows],
        arrays.term[rows],
        arrays.trunc[rows],
        arrays.fin[rows],
    )
