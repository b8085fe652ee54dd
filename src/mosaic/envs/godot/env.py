"""Env of a Godot game: its agents, their episodes and the messages of each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.seeding import SEED_LIMIT
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.envs.godot.game import Game
from mosaic.envs.godot.messages import CallReply, GameError, GameInfo, Json, ResetReply, StepReply, check_count
from mosaic.envs.godot.options import GodotOptions
from mosaic.envs.godot.spaces import NotFiniteActionError, action_code, observation_code

_UNNAMED = "shared_policy"  # what the plug-in calls the policy of an agent to which the game gives none
_TIME_IS_UP = ("truncated", "TimeLimit.truncated")  # keys of an info
_FINALS = ("final_observation", "terminal_observation")
_NONE: dict[AgentID, NoReturn] = {}

Value = TypeVar("Value")


def name_agents(info: GameInfo) -> tuple[AgentID, ...]:
    """Return the agents' names: those of their policies, numbered; `agent_0` … where the game gives no names."""
    names = info.agent_policy_names or [_UNNAMED] * info.n_agents
    stems = ["agent" if name == _UNNAMED else name for name in names]
    return tuple(f"{stem}_{stems[:number].count(stem)}" for number, stem in enumerate(stems))


def _mixed_parts(agents: tuple[AgentID, ...], info: GameInfo) -> dict[AgentID, tuple[tuple[str, int], ...]]:
    """Return the parts of actions that mix choices and numbers, in the game's order."""
    parts = {
        agent: tuple((part.action_type, part.size) for part in each.values())
        for agent, each in zip(agents, info.actions(), strict=True)
    }
    return {agent: each for agent, each in parts.items() if len({kind for kind, _ in each}) > 1}


def _is_late(number: int, reply: StepReply, info: Mapping[str, Json]) -> bool:
    """Return whether an agent that is done ran out of time."""
    return bool(reply.truncated[number]) if reply.truncated else any(info.get(key) for key in _TIME_IS_UP)


class GodotEnv:
    """Env around a connected game; owns the game and closes it.

    An agent that the game reports as done has ended, and the episode continues without it until all have ended
    (`episode_end` "any": until one has, and the others are truncated). The game, in which that agent plays on after a
    reset of its own, gets neutral actions for it. `reset` then resets the whole game.
    """

    def __init__(self, game: Game, facts: EnvFacts, options: GodotOptions) -> None:
        self.game = game
        info = game.info
        self.possible_agents = name_agents(info)
        seen_codes = [observation_code(each, options.observation_bound) for each in info.observations()]
        codes = [action_code(each, flat=options.actions == "flat") for each in info.actions()]
        self._readers = [code.read for code in seen_codes]
        self._action_codes = [
            (agent, code.encode, code.neutral) for agent, code in zip(self.possible_agents, codes, strict=True)
        ]
        self.observation_spaces = self._by_agent(code.space for code in seen_codes)
        self.action_spaces = self._by_agent(code.space for code in codes)
        if options.actions == "flat":
            facts = replace(facts, action_parts=_mixed_parts(self.possible_agents, info))
        self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)
        self._alive = dict.fromkeys(self.possible_agents, False)  # in every Turn in which no agent ended
        self._ends_together = options.episode_end == "any"
        self._stream = Random(0)
        self._last: dict[AgentID, Observation] = {}  # of the living agents
        self._sent: Mapping[AgentID, Action] | None = None
        self._closed = False

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return tuple(self._last)

    def reset(self, seed: int | None = None) -> Turn:
        self._sent = None
        message: dict[str, object] = {"type": "reset"}
        if self.game.info.seeded_reset:
            if seed is not None:
                self._stream.seed(seed)
            message["seed"] = seed if seed is not None else self._stream.randrange(SEED_LIMIT)
        self.game.player = self
        reply = self.game.ask(message, ResetReply)
        self._last, infos = self._by_agent(self._observations(reply.obs)), self._by_agent(self._infos(reply.info))
        rewards = dict.fromkeys(self.possible_agents, 0.0)
        return Turn(self._last, _NONE, rewards, self._alive, self._alive, _NONE, infos)

    def send(self, actions: Mapping[AgentID, Action]) -> None:
        """Begin a step; `step` with the same mapping then waits for its result. Other games can step meanwhile."""
        if not self._last:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if actions.keys() != self._last.keys():
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(self._last)} must act.")
        sent: list[dict[str, object]] = []
        try:
            for agent, encode, neutral in self._action_codes:
                sent.append(encode(actions[agent]) if agent in actions else neutral)
        except NotFiniteActionError as error:
            agent = self.possible_agents[len(sent)]
            raise NotFiniteActionError(
                f"The action for '{agent}' of {self.spec.env_id} {error}. Nothing was sent to the game: look at the "
                "policy that acts, and if it learns, at its learning rate."
            ) from error
        if self.game.player is self:
            self.game.send_step(sent)
        self._sent = actions

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if self._sent is None:
            self.send(actions)
        elif self._sent is not actions:
            raise RuntimeError("step() with other actions than those that were sent.")
        self._sent = None
        return self._turn(self.game.receive_step()) if self.game.player is self else self._interrupted()

    def call(self, method: str) -> Json:
        """Call a method of every agent in the game and return what they return."""
        return self.game.ask({"type": "call", "method": method}, CallReply).returns

    def render(self) -> NDArray[np.uint8] | None:
        return None

    def begin_end(self) -> None:
        """Ask the game to end, without waiting for it; `close` does."""
        if not self._closed:
            self.game.begin_end()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.game.close()

    def _interrupted(self) -> Turn:
        """Return the end of an episode that another env interrupted: the editor has one game for all of them."""
        last, self._last = self._last, {}
        alive, cut = dict.fromkeys(last, False), dict.fromkeys(last, True)
        return Turn(_NONE, _NONE, dict.fromkeys(last, 0.0), alive, cut, last, {})

    def _turn(self, reply: StepReply) -> Turn:
        agents = self.possible_agents
        observations, infos = self._observations(reply.obs), self._infos(reply.info)
        rewarded, ended = reply.reward, reply.done
        if not len(agents) == len(rewarded) == len(ended) == len(reply.truncated or agents):
            self._check_count("rewards", len(rewarded))
            self._check_count("done", len(ended))
            self._check_count("truncated", len(reply.truncated or agents))
        if not any(ended) and len(self._last) == len(agents):
            self._last, alive = self._by_agent(observations), self._alive
            rewards, told = self._by_agent(rewarded), self._by_agent(infos)
            return Turn(self._last, _NONE, rewards, alive, alive, _NONE, told)
        rewards, terminated, truncated, now, finals, told = {}, {}, {}, {}, {}, {}
        for number, agent in enumerate(agents):
            if agent not in self._last:
                continue
            rewards[agent], told[agent] = reply.reward[number], infos[number]
            done, late = bool(reply.done[number]), _is_late(number, reply, infos[number])
            terminated[agent], truncated[agent] = done and not late, done and late
            if done:
                finals[agent] = self._final(number, infos[number])
            else:
                now[agent] = observations[number]
        if self._ends_together and finals:
            truncated.update(dict.fromkeys(now, True))
            finals.update(now)
            now = {}
        self._last = now
        return Turn(now, _NONE, rewards, terminated, truncated, finals, told)

    def _final(self, number: int, info: Mapping[str, Json]) -> Observation:
        """Return the last observation of an agent's life.

        What the game sends with `done` usually belongs to the next life, so the one before counts, or the info's.
        """
        for key in _FINALS:
            if isinstance(info.get(key), dict):
                try:
                    return self._readers[number](info[key])
                except GameError as error:
                    self._blame(number, error)
        return self._last[self.possible_agents[number]]

    def _observations(self, sent: Sequence[Mapping[str, Json]]) -> list[Observation]:
        self._check_count("observations", len(sent))
        found: list[Observation] = []
        try:
            for read, each in zip(self._readers, sent):  # noqa: B905 - counted before
                found.append(read(each))
        except GameError as error:
            self._blame(len(found), error)
        return found

    def _blame(self, number: int, error: GameError) -> NoReturn:
        self.game.fail(GameError(f"Agent '{self.possible_agents[number]}' of {self.spec.env_id}: {error}."))

    def _by_agent(self, values: Iterable[Value]) -> dict[AgentID, Value]:
        """Return one value for each agent, whose number was checked: `strict` would take as long as all the rest."""
        return dict(zip(self.possible_agents, values))  # noqa: B905

    def _check_count(self, what: str, found: int) -> None:
        if found != len(self.possible_agents):
            try:
                check_count(what, found, len(self.possible_agents))
            except GameError as error:
                self.game.fail(error)

    def _infos(self, sent: Sequence[Mapping[str, Json] | None] | None) -> list[Mapping[str, Json]]:
        if sent is None:
            return [{}] * len(self.possible_agents)
        self._check_count("infos", len(sent))
        return [info or {} for info in sent]
