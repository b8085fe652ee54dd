"""Observations on which an exported file is compared with its policy: recorded in the env, and random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Mask, Observation, Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code
from mosaic.exports.progress import StepReport, ignore_step
from mosaic.policies.controller import PolicyController
from mosaic.policies.registry import load_policy

SEQUENCE = 50  # random observations between two beginnings of an episode
_WIDE, _NEAR = 1e6, 10.0  # beyond the first, bounds mean "any number"; then numbers up to the second are drawn


class Sample(NamedTuple):
    """One observation of one agent."""

    agent: AgentID
    turn: Turn
    first: bool  # an episode begins


def record(
    config: EnvironmentConfig,
    agents: Sequence[AgentID],
    controller: PolicyController,
    count: int,
    seed: int = 0,
    report: StepReport = ignore_step,
) -> list[Sample]:
    """Play the env until these agents have made `count` observations; in every other episode they play at random.

    An env of another program cannot be played: if its options name one with the same spaces, that is played instead.
    """
    found: list[Sample] = []
    if config.family == "external":
        if not config.options.get("env"):
            return found
        config = EnvironmentConfig(env_id=str(config.options["env"]))
    with closing(make_env(config)) as env, closing(load_policy("random", env.spec)) as others:
        for episode in range(count):
            turn = env.reset(child_seed(seed, "export", episode))
            for player in (controller, others):
                player.begin(env.possible_agents, child_seed(seed, "export policies", episode))
            begun: set[AgentID] = set()
            while not turn.over and len(found) < count:
                own = [agent for agent in turn.observations if agent in agents]
                for agent in own:
                    found.append(Sample(agent, turn.only((agent,)), agent not in begun))
                    begun.add(agent)
                played = [] if episode % 2 else own
                rest = [agent for agent in turn.observations if agent not in played]
                actions = dict(controller.act(turn.only(played))) if played else {}
                actions |= others.act(turn.only(rest)) if rest else {}
                report("recording", len(found), count)
                turn = env.step({agent: actions[agent] for agent in turn.observations})
            if len(found) >= count or not begun:
                break
    return found[:count]


def draw(spec: EnvSpec, agents: Sequence[AgentID], count: int, *, masked: bool, seed: int = 0) -> Iterator[Sample]:
    """Yield random members of the observation spaces, with random masks where the env has masks."""
    random = np.random.default_rng(child_seed(seed, "export", "random"))
    for number in range(count):
        agent = agents[(number // SEQUENCE) % len(agents)]
        seen = _member(spec.observation_spaces[agent], random)
        masks = {agent: _mask(spec.action_spaces[agent], random)} if masked else {}
        yield Sample(agent, Turn({agent: seen}, masks, {}, {}, {}, {}, {}), number % SEQUENCE == 0)


def usable(samples: Iterable[Sample], controller: PolicyController) -> list[Sample]:
    """Return the samples that the policy takes for observations: a board may be full of one side's pieces."""
    found = []
    for sample in samples:
        if sample.first:
            controller.begin((sample.agent,), 0)
        try:
            controller.act(sample.turn)
        except (InputError, IndexError):
            continue
        found.append(sample)
    return found


def _member(space: Space[object], random: np.random.Generator) -> Observation:
    if isinstance(space, spaces.Dict):
        return {key: _member(part, random) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_member(part, random) for part in space.spaces)
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f":
        low = np.where(space.low < -_WIDE, np.minimum(-_NEAR, space.high), space.low)
        high = np.where(space.high > _WIDE, np.maximum(_NEAR, low), space.high)
        return random.uniform(low, high).astype(space.dtype)
    space.seed(int(random.integers(2**31)))
    return space.sample()


def _mask(space: Space[object], random: np.random.Generator) -> Mask:
    """Return flags of which at least one is set in each part of the action."""
    flags = []
    for size in action_code(space).head.sizes:
        part = random.random(size) < 0.5
        part[random.integers(size)] = True
        flags.append(part)
    return np.concatenate(flags)
