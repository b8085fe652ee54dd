"""Many compiled worlds of several agents and as many of the reference's, step by step from equal states."""

from __future__ import annotations

from collections import Counter

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import action_code, row_code


class Abreast:
    """Every number must be equal; `seen` counts what happened, so that a test can say it saw enough."""

    def __init__(self, env_id, envs, options=None, seed=1, disturb=None):
        self.config = EnvironmentConfig(env_id=env_id, options=options or {})
        self.vector = make_compiled_vector(self.config, envs)
        assert self.vector is not None
        self.theirs = [make_env(self.config) for _ in range(envs)]
        self.agents, self.disturb = self.vector.shape.agents, disturb
        self.rng, self.seen = np.random.default_rng(seed), Counter()
        self._check_shape(self.theirs[0])
        self.vector.reset(seed)
        for index in range(envs):
            self._begin(index)

    def walk(self, steps):
        vector, slots = self.vector, self.vector.shape.slots_per_env
        for _ in range(steps):
            act, acted = self.draw(), vector.who.copy()
            vector.step(act)
            assert vector.active.all()
            for index, env in enumerate(self.theirs):
                mine = range(index * slots, (index + 1) * slots)
                turn = env.step({self.agents[acted[m]]: int(act[m, 0]) for m in mine})
                self._check_paid(index, turn)
                self.seen["steps"] += 1
                self.seen["agent steps"] += slots
                if turn.over:
                    self._check_final(index, turn)
                    self._begin(index)
                else:
                    self._check_look(index, turn.observations, turn.action_masks)
        return self.seen

    def draw(self):
        """Uniform over what is legal."""
        vector = self.vector
        sizes = np.array([head.width for head in vector.shape.heads])
        if not vector.shape.masked:
            return self.rng.integers(sizes[vector.who])[:, None].astype(np.float32)
        return (self.rng.random(vector.mask.shape) * vector.mask).argmax(axis=1)[:, None].astype(np.float32)

    def close(self):
        for env in (*self.theirs, self.vector):
            env.close()

    def _begin(self, index):
        env, vector = self.theirs[index], self.vector
        turn = env.reset(seed=0)
        if self.disturb is not None and index % 3 == 0:
            self.disturb(vector.state[index])
            vector.kernel.load(env, vector.state[index], vector.ints[index])
            return
        vector.kernel.load(env, vector.state[index], vector.ints[index])
        if hasattr(env, "env"):  # PettingZoo's show the loaded state when asked
            raw = env.env.unwrapped
            looks = {agent: raw.observe(agent) for agent in turn.observations}
            looks = {agent: look["observation"] if isinstance(look, dict) else look for agent, look in looks.items()}
            self._check_look(index, looks, turn.action_masks)
        else:
            self._check_look(index, turn.observations, turn.action_masks)

    def _check_shape(self, env):
        shape = self.vector.shape
        assert shape.agents == env.possible_agents
        assert shape.turn_based == env.spec.facts.turn_based
        assert shape.widths == tuple(row_code(env.observation_spaces[agent]).width for agent in shape.agents)
        assert shape.heads == tuple(action_code(env.action_spaces[agent]).head for agent in shape.agents)
        self.codes = {agent: row_code(env.observation_spaces[agent]) for agent in shape.agents}

    def _row(self, agent, observation):
        row = np.zeros(self.vector.shape.width, np.float32)
        self.codes[agent].write(observation, row[: self.codes[agent].width])
        return row

    def _check_look(self, index, looks, masks):
        vector, slots = self.vector, self.vector.shape.slots_per_env
        mine = range(index * slots, (index + 1) * slots)
        assert [self.agents[vector.who[m]] for m in mine] == list(looks)
        for m in mine:
            agent = self.agents[vector.who[m]]
            assert (vector.obs[m] == self._row(agent, looks[agent])).all()
            if vector.shape.masked:
                assert (vector.mask[m] == masks[agent]).all()
            else:
                assert masks == {}

    def _check_paid(self, index, turn):
        vector, count = self.vector, len(self.agents)
        for number, agent in enumerate(self.agents):
            row = index * count + number
            assert vector.rew[row] == np.float32(turn.rewards[agent]), (agent, vector.rew[row], turn.rewards[agent])
            assert (vector.term[row], vector.trunc[row]) == (turn.terminated[agent], turn.truncated[agent])
            self.seen[f"paid {turn.rewards[agent]:g}"] += vector.shape.turn_based

    def _check_final(self, index, turn):
        vector, count = self.vector, len(self.agents)
        for number, agent in enumerate(self.agents):
            row = index * count + number
            self.seen["terminated"] += int(vector.term[row])
            self.seen["truncated"] += int(vector.trunc[row])
            if vector.trunc[row]:
                assert (vector.fin[row] == self._row(agent, turn.final_observations[agent])).all()
