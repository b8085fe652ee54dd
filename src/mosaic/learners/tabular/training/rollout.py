"""Rollout of a learner in a single-agent Python env; it can be left after any step and resumed in another process.

The env is reset with a seed, then continues with its own random stream until it is reseeded. The actions since the last
seeded reset are recorded: they recreate the env's state, which cannot be saved in general.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.envs.env import Env
from mosaic.learners.tabular.experience import ENDED
from mosaic.learners.tabular.options import bad_index, bad_reward, epsilon_after, nothing_legal, overflown
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.env import CodedEnv, Extra

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner

MOST_RECORDED = 1_000_000  # steps since a seeded reset; longer records are not replayed
_NEVER = 1 << 62  # a step that is never reached
_SLICE = 100_000  # steps between two checks of the record's length
RESEED_AFTER = 1_000  # steps: seeding costs as much as several steps, recreating the state as much as these

# Called between two env steps: steps of the episode so far, the first agent's last reward, all agents' returns so far.
Glance: TypeAlias = Callable[[int, float, Mapping[AgentID, float]], None]


class RolloutPosition(NamedTuple):
    """Position of a rollout: what another process needs to resume it."""

    seed: int
    columns: list[int] | None  # actions since the seeded reset; None: too many
    ended: int  # episodes since the seeded reset
    state: int
    column: int  # the next action: it was decided with the last step


class ActionRecord:
    """Actions since a seeded reset; with the seed they recreate the env's state."""

    __slots__ = ("columns", "ended", "seed", "steps")

    def __init__(self, seed: int) -> None:
        self.seed, self.columns = seed, array("q")
        self.steps = self.ended = 0  # steps and episodes since the reset

    @property
    def complete(self) -> bool:
        """Return whether the record has every action: one that grows too long is not replayed."""
        return self.steps == len(self.columns)

    def writer(self) -> Callable[[int], None]:
        return self.columns.append if len(self.columns) < MOST_RECORDED else _forget


class TabularRollout:
    """Rollout; `next_seed()` seeds the env at the start and then after at least `reseed_after` steps (0: never)."""

    def __init__(
        self, learner: TabularLearner, env: Env, next_seed: Callable[[], int], *, reseed_after: int = 0
    ) -> None:
        self.learner, self._coded = learner, CodedEnv(env, learner)
        self._next_seed, self._reseed_after = next_seed, reseed_after
        self.running = False  # an episode
        self.length, self.total = 0, 0.0  # of the running episode
        self._state = self._column = 0
        self._record: ActionRecord | None = None  # None: the next episode is seeded
        self.steps = 0  # total

    def run(
        self,
        steps: float,
        episodes: float,
        statistics: TrainingStatistics,
        glance: Glance | None = None,
        *,
        cut: bool = False,
    ) -> int:
        """Play until this many steps or episodes are done; return the steps.

        With `cut`, an episode that `steps` leaves unfinished is truncated for the table; else the next call continues
        it.
        """
        first, goal = self.steps, self.steps + steps
        last = self.learner.episodes + episodes
        while self.steps < goal and self.learner.episodes < last:
            if not self.running:
                self._begin()
            left = goal - self.steps
            self._play(min(left, _SLICE), last, statistics, glance, cut and left <= _SLICE)
        return self.steps - first

    def _begin(self) -> None:
        coded, record = self._coded, self._record
        if record is None or (self._reseed_after and record.steps >= self._reseed_after):
            self._record = ActionRecord(self._next_seed())
            turn = coded.env.reset(self._record.seed)
        else:
            turn = coded.env.reset()
        self._state = coded.first_row(turn)
        self._column = self.learner.select_action(self._state, coded.mask(turn))
        self.length, self.total, self.running = 0, 0.0, True

    def _play(self, most: float, last: float, statistics: TrainingStatistics, glance: Glance | None, cut: bool) -> None:
        """Play the running episode and those after it, up to the next seeded reset.

        State that changes at every step is in local variables, and the common case comes first: this loop is most of
        the cost of a small env.
        """
        learner, engine, states, record = self.learner, self.learner._engine, self.learner.states, self._record
        assert record is not None, "an episode has begun"
        coded = self._coded
        step, reset, row, decode, masked = coded.step, coded.reset, coded.row, coded.decode, coded.masked
        advance, end, restart = engine.unmasked()
        state, column, total = self._state, self._column, self.total
        write = record.writer()
        reseed_at = self._reseed_after - record.steps if self._reseed_after else math.inf
        leave_at = 0 if masked else min(most, reseed_at)  # at the first episode that ends from here on
        began, limit = -self.length, coded.time_limit  # `began`: steps done before the running episode
        limit_at, cut_at = began + limit if limit else _NEVER, int(most) if cut else _NEVER
        end_at = min(limit_at, cut_at)
        done, counted, before, settled = 0, 0, learner.episodes, False
        rewards, lengths = array("d"), array("q")
        while done < most:
            observation, reward, terminated, truncated, extra = step(column if decode is None else decode(column))
            write(column)
            done += 1
            if type(reward) is not float:
                reward = float(reward)
            total += reward
            if glance is not None:
                glance(done - began, reward, {coded.agent: total})
            try:
                after = row(observation)
            except TypeError:
                after = coded.rows.encode(observation)  # raises an error that explains the problem
            if not 0 <= after < states:
                raise bad_index("state", after, states)
            if not (terminated or truncated or done == end_at):
                if masked:
                    code = engine.learn_and_select(state, column, reward, after, False, False, coded.mask(extra))
                else:
                    code = advance(state, column, reward, after)
                if code < 0:
                    raise self._refusal(state, column, reward, after, extra)
                state, column = after, code
                continue
            if terminated or truncated or done == limit_at:
                rewards.append(total)
                lengths.append(done - began)
                info = extra.infos.get(coded.agent) if masked else extra
                if info:
                    statistics.add_info(info)
            learner.episodes = episodes = learner.episodes + 1
            if settled and done < leave_at and episodes < last:
                observation, _ = reset()
                try:
                    start = row(observation)
                except TypeError:
                    start = coded.rows.encode(observation)
                if not 0 <= start < states:
                    raise bad_index("state", start, states)
                code = restart(state, column, reward, after, not terminated, start)
                if code < 0:
                    raise self._refusal(state, column, reward, after, extra)
                state, column = start, code
            else:
                if masked:
                    mask, ends = coded.mask(extra), bool(terminated)
                    code = engine.learn_and_select(state, column, reward, after, ends, not ends, mask)
                else:
                    code = end(state, column, reward, after, not terminated)
                if code != ENDED:
                    raise self._refusal(state, column, reward, after, extra)
                epsilon = engine.epsilon
                engine.epsilon = epsilon_after(learner.options, epsilon, episodes)
                settled = engine.epsilon == epsilon  # it then stays there under every schedule
                if done >= leave_at or episodes >= last:
                    self.running = False
                    break
                observation, _ = reset()
                state = coded.rows.encode(observation)
                column = engine.select_any(state)
            began, total = done, 0.0
            if limit:
                limit_at = done + limit
                end_at = min(limit_at, cut_at)
            if glance is not None:  # the callback reads where the running episode began
                self.steps, self.length, counted = self.steps + done - counted, 0, done
        self._state, self._column, self.length, self.total = state, column, done - began, total
        self.steps += done - counted
        record.steps += done
        record.ended += learner.episodes - before
        statistics.add_episodes(rewards, lengths)

    def _refusal(self, state: int, column: int, reward: float, after: int, extra: Extra) -> InputError:
        if not math.isfinite(reward):
            return bad_reward(reward)
        mask = self._coded.mask(extra) if self._coded.masked else None
        return overflown(state, column) if mask is None or mask.any() else nothing_legal(after)

    @property
    def episode_began(self) -> int:
        """Number of steps before the running episode."""
        return self.steps - self.length

    def standing(self) -> RolloutPosition | None:
        """Return the position; None before the first step."""
        record = self._record
        if record is None:
            return None
        columns = record.columns.tolist() if record.complete else None
        column = self._column if self.running else ENDED
        return RolloutPosition(record.seed, columns, record.ended, self._state, column)

    def resume(self, standing: RolloutPosition) -> bool:
        """Recreate the env's state from the recorded actions; return whether it matches.

        If not, the next episode begins with a new seed.
        """
        coded = self._coded
        if standing.columns is None or not coded.env.spec.facts.reproducible:
            return False
        record, over = ActionRecord(standing.seed), False
        state, self.length, self.total = coded.first_row(coded.env.reset(standing.seed)), 0, 0.0
        decode = coded.decode or int
        for column in standing.columns:
            if over:
                coded.env.reset()
                record.ended, self.length, self.total = record.ended + 1, 0, 0.0
            observation, reward, terminated, truncated, _ = coded.step(decode(column))
            state, self.length, self.total = coded.rows.encode(observation), self.length + 1, self.total + float(reward)
            over = bool(terminated or truncated or self.length == coded.time_limit)
        record.ended += over
        self.running = standing.column != ENDED
        if over == self.running or record.ended != standing.ended or (self.running and state != standing.state):
            self.running, self._record = False, None
            return False
        record.columns.extend(standing.columns)
        record.steps = len(record.columns)
        self._record, self._state, self._column = record, standing.state, standing.column
        return True


def _forget(column: int) -> None:
    """Drop the action: the record is too long to be replayed."""


def train(
    learner: TabularLearner,
    env: Env,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    glance: Glance | None = None,
) -> TrainingStatistics:
    """Play and learn for this many episodes or steps.

    The first episode is seeded by the learner's seed and the number of its episodes so far, the others continue with
    the env's own stream. An episode that `steps` leaves unfinished is truncated for the table and not part of any mean.
    """
    most_episodes, most_steps = _limits(episodes, steps)
    rollout = TabularRollout(learner, env, lambda: child_seed(learner.seed, "tabular", "train", learner.episodes))
    statistics = TrainingStatistics()
    began = perf_counter()
    done = rollout.run(most_steps, most_episodes, statistics, glance, cut=True)
    statistics.add_time(done, perf_counter() - began)
    return statistics


def _limits(episodes: int | None, steps: int | None) -> tuple[float, float]:
    if (episodes is None) == (steps is None):
        raise InputError("Give either episodes or steps: train(env, episodes=1000) or train(env, steps=100_000).")
    for what, amount in (("episodes", episodes), ("steps", steps)):
        if amount is not None and amount < 0:
            raise InputError(f"{what} is {amount}; it should be at least 0.")
    return math.inf if episodes is None else episodes, math.inf if steps is None else steps
