"""Base class of wrappers (an Env around an Env), and the description of a kind of wrapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.reference import KindOptions, Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EndsAhead, Env, EnvFacts, EnvSpec, SendsAhead


class Transform:
    """Wrapper that passes everything through; subclasses override `reset`, `step` or the spaces they change."""

    passes_actions: ClassVar[bool] = False  # `step` gives the env the mapping that it was given

    def __init__(self, env: Env) -> None:
        self.env = env
        self.possible_agents: tuple[AgentID, ...] = env.possible_agents
        self.observation_spaces: Mapping[AgentID, Space[object]] = env.observation_spaces
        self.action_spaces: Mapping[AgentID, Space[object]] = env.action_spaces
        self.facts: EnvFacts = env.spec.facts

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(self.facts, self.possible_agents, self.observation_spaces, self.action_spaces)

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return self.env.agents

    def reset(self, seed: int | None = None) -> Turn:
        return self.env.reset(seed)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        return self.env.step(actions)

    def render(self) -> NDArray[np.uint8] | None:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class Named(Transform):
    """A user's own Env under the name by which it was requested."""

    passes_actions = True

    def __init__(self, env: Env, facts: EnvFacts) -> None:
        super().__init__(env)
        self.facts = replace(env.spec.facts, config=facts.config)


def sender_of(env: Env) -> SendsAhead | None:
    """Return what takes the env's actions ahead of a step: the env itself, or the one below its wrappers."""
    while isinstance(env, Transform) and env.passes_actions:
        env = env.env
    return env if isinstance(env, SendsAhead) else None


def close_all(envs: Sequence[Env]) -> None:
    """Close envs, the rest even if one fails; those that end elsewhere end at the same time."""
    with ExitStack() as stack:
        for env in envs:
            stack.callback(env.close)
        for env in envs:
            begin_end(env)


def begin_end(env: Env) -> None:
    """Ask an env that ends elsewhere to end, also below wrappers; `close` then only waits for it."""
    while isinstance(env, Transform):
        env = env.env
    if isinstance(env, EndsAhead):
        env.begin_end()


@dataclass(frozen=True, slots=True)
class WrapperKind:
    """Name, options and factory of a wrapper, as `NAME:…` in `environment.wrappers` selects it."""

    usage: str  # frame_stack[:num=4]
    help: str  # one line for lists
    make: Callable[[Env, KindOptions], Env]  # second argument: an instance of `options`
    options: type[Options] = Options
    first: str | None = None  # the option that may be given without its name: python:MODULE:FACTORY
