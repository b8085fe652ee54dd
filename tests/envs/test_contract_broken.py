"""check_env finds every kind of broken promise and names it."""

from __future__ import annotations

from itertools import count

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.testing import ContractError, check_env
from mosaic.testing.toys import Alternating, Fading


class Boxed(Alternating):
    """With arrays, so that they can be changed in place."""

    def __init__(self):
        super().__init__()
        self.observation_spaces = {agent: spaces.Box(0, 100, (2,), np.float32) for agent in "xo"}
        self.action_spaces = {agent: spaces.Box(-1, 1, (2,), np.float32) for agent in "xo"}
        self.spec = EnvSpec(self.spec.facts, self.possible_agents, self.observation_spaces, self.action_spaces)

    def _shown(self, number):
        return np.full(2, number, np.float32)

    def _turn(self, *args, **options):
        turn = super()._turn(*args, **options)
        look = {agent: self._shown(number) for agent, number in turn.observations.items()}
        last = {agent: self._shown(number) for agent, number in turn.final_observations.items()}
        return turn._replace(observations=look, final_observations=last)


class ReusesItsBuffer(Boxed):
    def __init__(self):
        super().__init__()
        self._buffer = np.zeros(2, np.float32)

    def _shown(self, number):
        self._buffer[:] = number
        return self._buffer


class ReusesItsDict(Fading):
    def __init__(self):
        super().__init__()
        self.paid = {}

    def _turn(self, acting, rewards, **ends):
        self.paid.clear()
        self.paid.update(rewards)
        return super()._turn(acting, self.paid, **ends)


class ChangesActions(Boxed):
    def step(self, actions):
        for action in actions.values():
            action *= 0
        return super().step(actions)


class Wide(Boxed):
    def _shown(self, number):
        return np.full(2, number, np.float64)


class Far(Boxed):
    def _shown(self, number):
        return np.array([0, 101 if self.t == 2 else 0], np.float32)


class Listed(Boxed):
    def _shown(self, number):
        return [number, number]


class Masked(Boxed):
    def _turn(self, *args, **options):
        turn = super()._turn(*args, **options)
        return turn._replace(action_masks={agent: np.ones(2, np.bool_) for agent in turn.observations})


class AnotherEachTime(Fading):
    numbers = count()

    def __init__(self):
        super().__init__()
        self.number = next(self.numbers) % 9

    def reset(self, seed=None):
        return super().reset((seed or 0) + self.number)


class Remembers(Fading):
    played = 0

    def reset(self, seed=None):
        self.played += 1
        return super().reset(seed if seed is None else seed + self.played // 4)


class NewEntropy(Fading):
    numbers = count()

    def reset(self, seed=None):
        return super().reset(next(self.numbers) if seed is None else seed)


class TakesAnybody(Alternating):
    def step(self, actions):
        if self._acting and actions:
            actions = dict.fromkeys(self._acting, 0)
        return super().step(actions)


class RaisesKeyError(Alternating):
    def step(self, actions):
        return super().step({agent: actions[agent] for agent in self._acting})


class PlaysBeforeRefusing(Alternating):
    def step(self, actions):
        if self._acting and set(actions) != set(self._acting):
            self._episode = 3
        return super().step(actions)


class GoesOnAfterTheEnd(Fading):
    def step(self, actions):
        return super().step(actions) if self._acting else self._turn("", {"b": 0.0}, terminated="b")


class ClosesOnce(Fading):
    closed = False

    def close(self):
        if self.closed:
            raise OSError("already closed")
        self.closed = True


class PaintsFloats(Fading):
    def render(self):
        return np.zeros((4, 6, 3))


class PaintsGrey(Fading):
    def render(self):
        return np.zeros((4, 6), np.uint8)


class PaintsOneCanvas(Fading):
    def __init__(self):
        super().__init__()
        self.canvas = np.zeros((4, 6, 3), np.uint8)

    def render(self):
        self.canvas[:] = self.t
        return self.canvas


class PaintingMatters(Fading):
    def render(self):
        self._episode += 1
        return super().render()


class CannotPaint(Fading):
    def render(self):
        raise LookupError("no font")


class ListsItsAgents(Fading):
    def _turn(self, *args, **options):
        turn = super()._turn(*args, **options)
        self.agents = list(self.agents)
        return turn


class KeepsTheDead(Fading):
    def _turn(self, acting, rewards, **ends):
        turn = super()._turn(acting, rewards, **ends)
        self.agents = tuple(rewards)
        return turn


class Stumbles(Fading):
    def _next(self):
        if self.t == 3:
            raise ZeroDivisionError("division by zero")
        return super()._next()


class NoChance(Fading):
    def __init__(self):
        super().__init__()
        facts = EnvFacts(has_chance=False)
        self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)


class NewSpaces(Fading):
    def reset(self, seed=None):
        self.observation_spaces["a"] = spaces.Discrete(101)
        return super().reset(seed)


class NumberedAgents(Fading):
    def __init__(self):
        super().__init__()
        self.possible_agents = ("a", "b", 3)


class NoSpace(Fading):
    def __init__(self):
        super().__init__()
        del self.action_spaces["b"]


class OtherSpec(Fading):
    def __init__(self):
        super().__init__()
        self.spec = EnvSpec(EnvFacts(), ("a",), self.observation_spaces, self.action_spaces)


ENVS = [
    (ReusesItsBuffer, (r"after reset \(seed 1\), agent 'x': the observations returned here had changed by this point: "
     r"step 1 \(seed 1\).*return a copy")),
    (ReusesItsDict, r"after reset .*agent 'a': the rewards returned here had changed by this point: step 1"),
    (ChangesActions, r"step 1 \(seed 1\): step changed the actions it was given into"),
    (Wide, "agent 'x': its observation is dtype float64 instead of float32"),
    (Far, r"step 2 .*agent 'x': its observation is 101.0 at \[1\], outside 0.0..100.0"),
    (Listed, "its observation is a list instead of a numpy array"),
    (Masked, "its mask restricts a Box"),
    (AnotherEachTime, (r"after reset \(seed 1\): the same seed and actions give a different Turn on another instance.*"
                      r"reproducible=False")),
    (Remembers, "give a different Turn on a used instance.*reset all state left"),
    (NewEntropy, r"reset\(\) after reset\(1\) does not always give the same episode"),
    (TakesAnybody, r"actions for \['nobody_of_this_name', 'x'\], while \['x'\] must act, was played.*ValueError"),
    (RaisesKeyError, r"actions for \[\], while \['x'\] must act, raised KeyError: 'x'"),
    (PlaysBeforeRefusing, "give a different Turn after refused steps"),
    (GoesOnAfterTheEnd, r"step 4 \(seed 1\): a step after the end of the episode was played.*call reset\(\) first"),
    (ClosesOnce, "close for the second time raised OSError: already closed"),
    (PaintsFloats, r"render gave float64 of shape \(4, 6, 3\)"),
    (PaintsGrey, r"render gave uint8 of shape \(4, 6\)"),
    (PaintsOneCanvas, "the picture returned here had changed"),
    (PaintingMatters, "give a different Turn while pictures are drawn"),
    (CannotPaint, "render raised LookupError: no font"),
    (ListsItsAgents, r"agents is \['a', 'b'\], but \['a', 'b'\] are alive. Promise: agents is the tuple"),
    (KeepsTheDead, r"step 2 .*agents is \('a', 'b', 'c'\), but \['b', 'c'\] are alive"),
    (Stumbles, r"step 3 \(seed 1\): step raised ZeroDivisionError: division by zero.*follow the traceback"),
    (NoChance, r"after reset \(seed 2\): it starts differently from seed 1.*set has_chance=True"),
    (NewSpaces, "a space changed while the env was played"),
    (NumberedAgents, r"possible_agents is \('a', 'b', 3\)"),
    (NoSpace, "agent 'b': action_spaces holds NoneType for it"),
    (OtherSpec, "spec differs from possible_agents"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), ENVS, ids=lambda value: getattr(value, "__name__", ""))
def test_an_env_that_breaks_a_promise(make, message):
    with pytest.raises(ContractError, match=message):
        check_env(make)


def test_the_boxed_toy_itself_is_sound():
    assert check_env(Boxed).agents[0].action == "Box(2) float32"


def test_a_cause_stays_attached():
    with pytest.raises(ContractError) as caught:
        check_env(Stumbles)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.place.step == 3
    assert caught.value.exit_code == 1


def test_a_gymnasium_env_is_not_yet_an_env():
    with pytest.raises(ContractError, match=r"it lacks possible_agents, agents.*mosaic.make_env turns"):
        check_env(lambda: gymnasium.make("CartPole-v1"))


def test_an_env_that_says_it_cannot_repeat_is_not_asked_to():
    class Honest(AnotherEachTime):
        def __init__(self):
            super().__init__()
            facts = EnvFacts(reproducible=False)
            self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)

    assert not check_env(Honest).reproducible


@pytest.mark.parametrize("options", [{"steps": 0}, {"seeds": ()}])
def test_a_check_of_nothing_is_refused(options):
    with pytest.raises(InputError, match="at least one step and one seed"):
        check_env(Fading, **options)
