"""Learner view: an env in which only some agents learn, and the protocol of what plays the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, runtime_checkable

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env
from mosaic.envs.wrappers.transform import sender_of

MOST_IDLE_EPISODES = 1000  # in a row: the learners never get a turn
MOST_IDLE_STEPS = 1_000_000  # in a row: the same in an episode that never ends


class Others(Protocol):
    """Player of the agents that do not learn, in each of several envs."""

    @property
    def agents(self) -> Collection[AgentID]: ...  # played in every env

    def plays(self, index: int) -> Collection[AgentID]: ...  # in env number `index`: those, and perhaps more

    def begin(self, index: int, seed: int) -> None: ...  # env number `index` begins an episode

    def act(self, index: int, turn: Turn) -> Mapping[AgentID, Action]: ...  # exactly its agents of turn.observations

    def close(self) -> None: ...


@runtime_checkable
class BeginsAgain(Protocol):
    """Player that counts episodes: one without a turn of a learner is not counted, the next takes its place."""

    def begin_again(self, index: int, seed: int) -> None: ...


class LearnerView:
    """One env, stepped for its learners: `others` act for all other agents.

    A step of a learner lasts from its action to its next observation or its end: `step`, then `others_steps`, whose
    Turns hold the rewards and ends in between. `index` is the number of this env for `others`.
    """

    def __init__(self, env: Env, learners: Collection[AgentID], others: Others | None = None, index: int = 0) -> None:
        self.env, self.learners, self.others = env, frozenset(learners), others
        self.turn = Turn({}, {}, {}, {}, {}, {}, {})  # the last one; this one only until an episode begins
        self._index, self._names = index, ", ".join(learners)
        self._idle = False  # a whole episode until now without an action of a learner
        self._idle_episodes = self._idle_steps = 0
        self._ahead = sender_of(env)
        self._sent: Mapping[AgentID, Action] | None = None  # ahead

    def begin(self, seed: int, others_seed: int | None = None) -> Turn:
        """Begin an episode; the others' seed is derived from `seed` if it is not given."""
        again = self._idle and self.turn.over
        self._idle_episodes = self._idle_episodes + 1 if again else 0
        if self._idle_episodes == MOST_IDLE_EPISODES:
            raise self._nothing_to_learn(f"{MOST_IDLE_EPISODES} episodes")
        self._idle, self._idle_steps, self._sent = True, 0, None
        if self.others is not None:
            own = child_seed(seed, "others") if others_seed is None else others_seed
            if again and isinstance(self.others, BeginsAgain):
                self.others.begin_again(self._index, own)
            else:
                self.others.begin(self._index, own)
        self.turn = self.env.reset(seed)
        return self.turn

    @property
    def sends_ahead(self) -> bool:
        return self._ahead is not None

    def send(self, actions: Mapping[AgentID, Action]) -> None:
        """Begin the step that `step` with the same actions will end, in an env that can: others begin meanwhile."""
        if self._ahead is not None:
            self._sent = self._of_all(actions)
            self._ahead.send(self._sent)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        """Step the env once with these actions of the learners (empty: none of them must act) and the others'."""
        if actions:
            self._idle, self._idle_steps = False, 0
        else:
            self._idle_steps += 1
            if self._idle_steps > MOST_IDLE_STEPS:
                raise self._nothing_to_learn(f"{MOST_IDLE_STEPS:,} steps of one episode")
        if self._sent is None:
            actions = self._of_all(actions)
        else:
            actions, self._sent = self._sent, None
        self.turn = turn = self.env.step(actions)
        return turn

    def _of_all(self, actions: Mapping[AgentID, Action]) -> Mapping[AgentID, Action]:
        if self.others is None or len(actions) == len(self.turn.observations):
            return actions
        return {**actions, **self.others.act(self._index, self.turn)}

    def others_steps(self) -> Iterator[Turn]:
        """Step the env until a learner must act or the episode is over; yield the Turn of each step."""
        turn = self.turn
        while turn.observations and self.learners.isdisjoint(turn.observations):
            turn = self.step({})
            yield turn

    def _nothing_to_learn(self, passed: str) -> MosaicError:
        return MosaicError(
            f"{passed} of {self.env.spec.env_id} passed without a turn of {self._names}: there is nothing to learn."
        )
