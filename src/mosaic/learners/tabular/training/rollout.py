"""Rollout of a learner in a single-agent Python env; it can be left after any step and resumed in another process.

The env is reset with a seed, then continues with its own random stream until it is reseeded. The actions since the last
seeded reset are recorded: they recreate the env's state, which cannot be saved in general.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from operator import index as as_int
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import gymnasium
from gymnasium.spaces import Discrete
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.codes import SpaceCode, flatten_mask, space_code
from mosaic.envs.env import Env
from mosaic.envs.wrappers.limits import TimeLimit as OwnTimeLimit
from mosaic.envs.wrappers.transform import Named
from mosaic.learners.tabular.experience import ENDED
from mosaic.learners.tabular.options import bad_index, bad_reward, checked_mask, epsilon_after, nothing_legal, overflown
from mosaic.learners.tabular.statistics import CUSTOM_METRICS, TrainingStatistics

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner

MOST_RECORDED = 1_000_000  # steps since a seeded reset; longer records are not replayed
_NEVER = 1 << 62  # a step that is never reached
_SLICE = 100_000  # steps between two checks of the record's length
RESEED_AFTER = 1_000  # steps: seeding costs as much as several steps, recreating the state as much as these

# Called between two env steps: steps of the episode so far, the first agent's last reward, all agents' returns so far.
Glance: TypeAlias = Callable[[int, float, Mapping[AgentID, float]], None]
Answer: TypeAlias = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info or turn


class RolloutPosition(NamedTuple):
    """Position of a rollout: what another process needs to resume it."""

    seed: int
    columns: list[int] | None  # actions since the seeded reset; None: too many
    ended: int  # episodes since the seeded reset
    state: int
    column: int  # the next action: it was decided with the last step


class TabularRollout:
    """Rollout; `next_seed()` seeds the env at the start and then after at least `reseed_after` steps (0: never)."""

    def __init__(
        self, learner: TabularLearner, env: Env, next_seed: Callable[[], int], *, reseed_after: int = 0
    ) -> None:
        self.learner, self.env = learner, env
        self.agent, self._rows, self._columns = agent_codes(learner, env)
        self._next_seed, self._reseed_after = next_seed, reseed_after
        self._row = as_int if _counts_from_0(self._rows) else self._rows.encode
        self._decode: Callable[[int], Any] | None = None if _counts_from_0(self._columns) else self._columns.decode
        self._step, self._reset, self._masked, self._time_limit = _step_functions(env, self.agent)
        self.running = False  # an episode
        self.length, self.total = 0, 0.0  # of the running episode
        self._state = self._column = 0
        self._seed, self._recorded, self._ended = 0, array("q"), 0
        self._since_seed = -1  # steps; -1: the next episode is seeded
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
        if self._since_seed < 0 or (self._reseed_after and self._since_seed >= self._reseed_after):
            self._seed = self._next_seed()
            turn = self._restart(self._seed)
        else:
            turn = self.env.reset()
        mask = self._mask(turn.action_masks.get(self.agent))
        state = self._rows.encode(turn.observations[self.agent])
        self._column = self.learner.select_action(state, mask)
        self._state, self.length, self.total, self.running = state, 0, 0.0, True

    def _restart(self, seed: int) -> Turn:
        self._recorded, self._ended, self._since_seed = array("q"), 0, 0
        return self.env.reset(seed)

    def _play(self, most: float, last: float, statistics: TrainingStatistics, glance: Glance | None, cut: bool) -> None:
        """Play the running episode and those after it, up to the next seeded reset.

        State that changes at every step is in local variables, and the common case comes first: this loop is most of
        the cost of a small env.
        """
        learner, engine, states = self.learner, self.learner._engine, self.learner.states
        step, reset, row, decode, masked = self._step, self._reset, self._row, self._decode, self._masked
        advance, end, restart = engine.unmasked()
        state, column, total = self._state, self._column, self.total
        record = self._recorded.append if len(self._recorded) < MOST_RECORDED else _forget
        reseed_at = self._reseed_after - self._since_seed if self._reseed_after else math.inf
        leave_at = 0 if masked else min(most, reseed_at)  # at the first episode that ends from here on
        began, limit = -self.length, self._time_limit  # `began`: steps done before the running episode
        limit_at, cut_at = began + limit if limit else _NEVER, int(most) if cut else _NEVER
        end_at = min(limit_at, cut_at)
        done, counted, before, settled = 0, 0, learner.episodes, False
        rewards, lengths = array("d"), array("q")
        while done < most:
            observation, reward, terminated, truncated, extra = step(column if decode is None else decode(column))
            record(column)
            done += 1
            if type(reward) is not float:
                reward = float(reward)
            total += reward
            if glance is not None:
                glance(done - began, reward, {self.agent: total})
            try:
                after = row(observation)
            except TypeError:
                after = self._rows.encode(observation)  # raises an error that explains the problem
            if not 0 <= after < states:
                raise bad_index("state", after, states)
            if not (terminated or truncated or done == end_at):
                if masked:
                    code = engine.learn_and_select(state, column, reward, after, False, False, self._turn_mask(extra))
                else:
                    code = advance(state, column, reward, after)
                if code < 0:
                    raise self._refusal(state, column, reward, after, extra)
                state, column = after, code
                continue
            if terminated or truncated or done == limit_at:
                rewards.append(total)
                lengths.append(done - began)
                info = extra.infos.get(self.agent) if masked else extra
                if info and CUSTOM_METRICS in info:
                    statistics.add_metrics(info[CUSTOM_METRICS])
            learner.episodes = episodes = learner.episodes + 1
            if settled and done < leave_at and episodes < last:
                observation, _ = reset()
                try:
                    start = row(observation)
                except TypeError:
                    start = self._rows.encode(observation)
                if not 0 <= start < states:
                    raise bad_index("state", start, states)
                code = restart(state, column, reward, after, not terminated, start)
                if code < 0:
                    raise self._refusal(state, column, reward, after, extra)
                state, column = start, code
            else:
                if masked:
                    mask, ends = self._turn_mask(extra), bool(terminated)
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
                state = self._rows.encode(observation)
                column = engine.select_any(state)
            began, total = done, 0.0
            if limit:
                limit_at = done + limit
                end_at = min(limit_at, cut_at)
            if glance is not None:  # the callback reads where the running episode began
                self.steps, self.length, counted = self.steps + done - counted, 0, done
        self._state, self._column, self.length, self.total = state, column, done - began, total
        self.steps += done - counted
        self._since_seed += done
        self._ended += learner.episodes - before
        statistics.add_episodes(rewards, lengths)

    def _mask(self, mask: Any) -> Any:
        if mask is None:
            return None
        flat = mask if len(self._columns.counts) == 1 else flatten_mask(self._columns, mask)
        return checked_mask(flat, self.learner.actions)

    def _turn_mask(self, turn: Turn) -> Any:
        return self._mask(turn.action_masks.get(self.agent))

    def _refusal(self, state: int, column: int, reward: float, after: int, extra: Any) -> InputError:
        if not math.isfinite(reward):
            return bad_reward(reward)
        mask = self._turn_mask(extra) if self._masked else None
        return overflown(state, column) if mask is None or mask.any() else nothing_legal(after)

    @property
    def episode_began(self) -> int:
        """Number of steps before the running episode."""
        return self.steps - self.length

    def standing(self) -> RolloutPosition | None:
        """Return the position; None before the first step."""
        if self._since_seed < 0:
            return None
        columns = self._recorded.tolist() if self._since_seed == len(self._recorded) else None
        return RolloutPosition(self._seed, columns, self._ended, self._state, self._column if self.running else ENDED)

    def resume(self, standing: RolloutPosition) -> bool:
        """Recreate the env's state from the recorded actions; return whether it matches.

        If not, the next episode begins with a new seed.
        """
        if standing.columns is None or not self.env.spec.facts.reproducible:
            return False
        self._seed = standing.seed
        turn, over = self._restart(standing.seed), False
        state, self.length, self.total = self._rows.encode(turn.observations[self.agent]), 0, 0.0
        decode = self._decode or int
        for column in standing.columns:
            if over:
                self.env.reset()
                self._ended, self.length, self.total = self._ended + 1, 0, 0.0
            observation, reward, terminated, truncated, _ = self._step(decode(column))
            state, self.length, self.total = self._rows.encode(observation), self.length + 1, self.total + float(reward)
            over = bool(terminated or truncated or self.length == self._time_limit)
        self._ended += over
        self.running = standing.column != ENDED
        if over == self.running or self._ended != standing.ended or (self.running and state != standing.state):
            self.running, self._since_seed = False, -1
            return False
        self._recorded, self._since_seed = array("q", standing.columns), len(standing.columns)
        self._state, self._column = standing.state, standing.column
        return True


def agent_codes(learner: TabularLearner, env: Env) -> tuple[AgentID, SpaceCode, SpaceCode]:
    """Return the only agent and the codes of its observations and actions; raise where they do not fit the table."""
    if len(env.possible_agents) != 1:
        raise InputError(
            f"{env.spec.env_id} has {len(env.possible_agents)} agents; TabularLearner.train plays envs of one. "
            "Train games of several agents with: mosaic train --worker tabular"
        )
    (agent,) = env.possible_agents
    rows, columns = space_code(env.observation_spaces[agent]), space_code(env.action_spaces[agent])
    if (rows.size, columns.size) != (learner.states, learner.actions):
        raise InputError(
            f"{env.spec.env_id} has {rows.size:,} states and {columns.size:,} actions, the table has "
            f"{learner.states:,} and {learner.actions:,}. Create a matching "
            f"one: TabularLearner({rows.size}, {columns.size})"
        )
    return agent, rows, columns


def _counts_from_0(code: SpaceCode) -> bool:
    return isinstance(code.space, Discrete) and int(code.space.start) == 0


def _forget(column: int) -> None:
    """Drop the action: the record is too long to be replayed."""


def _step_functions(env: Env, agent: AgentID) -> tuple[Callable[[Any], Answer], Callable[[], Any], bool, int]:
    """Return functions to step and reset, whether there are masks, and a time limit to be enforced here (0: none).

    A plain Gymnasium env is stepped without our adapter and without wrappers that only check or count: together they
    cost more than a step of learning.
    """
    inner: Any = env
    limits: list[int] = []
    while isinstance(inner, OwnTimeLimit | Named):
        if isinstance(inner, OwnTimeLimit):
            limits.append(inner.max_steps)
        inner = inner.env
    if isinstance(inner, GymnasiumEnv) and inner.plain:
        raw: gymnasium.Env[Any, Any] = inner.env
        while isinstance(raw, TimeLimit | OrderEnforcing | PassiveEnvChecker):
            if isinstance(raw, TimeLimit):
                limits.append(int(raw._max_episode_steps))
            raw = raw.env
        return raw.step, raw.reset, False, min(limits, default=0)

    def step(action: Any) -> Answer:
        turn = env.step({agent: action})
        if turn.observations:
            return turn.observations[agent], turn.rewards[agent], False, False, turn
        ended = turn.terminated[agent]
        return turn.final_observations[agent], turn.rewards[agent], ended, not ended, turn

    return step, env.reset, True, 0
