"""Envs that run in other programs: `external:PORT`, which connect to a training run and ask it for actions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pydantic import Field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, notify
from mosaic.core.ids import AgentID
from mosaic.core.plugins import load_plugin
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env, EnvFacts, EnvSpec
from mosaic.envs.families.mosaic import read_options
from mosaic.envs.family import EnvEntry
from mosaic.envs.space_json import Document, space_from_json

EXTERNAL = "external"
SPACES = "spaces"
_UNLIKE = ("godot", EXTERNAL)  # families whose envs cannot be described without a program


class ExternalOptions(Options):
    """Options of `external:PORT`."""

    env: str | None = Field(
        None,
        min_length=1,
        description="Env with the same agents and spaces: gym/CartPole-v1. It is not played.",
    )
    spaces: dict[AgentID, dict[str, Any]] | None = Field(
        None, min_length=1, description="Spaces of each agent, as the first program that connected described them."
    )
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 also lets other machines connect.")
    whole_episodes: bool | None = Field(
        None,
        description="Learn from an episode once it is over, so that one that breaks off leaves nothing behind; None: "
        "DQN does, PPO and A2C learn from every step.",
    )
    max_episodes: int = Field(4096, ge=1, le=1_000_000, description="Episodes that may run at the same time.")
    idle_s: float = Field(
        600.0, gt=0, le=1e7, description="An episode whose program has been silent for this long breaks off."
    )


class ExternalEnv:
    """Description of an env that another program steps."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec

    @property
    def possible_agents(self) -> tuple[AgentID, ...]:
        return self.spec.possible_agents

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return ()

    @property
    def observation_spaces(self) -> Mapping[AgentID, Space[object]]:
        return self.spec.observation_spaces

    @property
    def action_spaces(self) -> Mapping[AgentID, Space[object]]:
        return self.spec.action_spaces

    def reset(self, seed: int | None = None) -> Turn:
        raise self._elsewhere()

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        raise self._elsewhere()

    def render(self) -> NDArray[np.uint8] | None:
        return None

    def close(self) -> None:
        pass

    def _elsewhere(self) -> InputError:
        return InputError(
            f"{self.spec.env_id} is stepped by the program that connects to it, so Mosaic can train in it and nothing "
            "else. To play or evaluate what it learned, name an env with the same spaces: mosaic evaluate ENV --agent "
            "NAME=run:latest. To give the program a policy's actions, type: mosaic policy-server run:latest"
        )


class ExternalFamily:
    def entries(self) -> list[EnvEntry]:
        """Return what can be typed; nothing of it can be described before a program connects."""
        note = "an env of your own program, which connects to this port; type this with a free port:"
        return [EnvEntry(f"{EXTERNAL}:PORT", False, f"mosaic train {EXTERNAL}:PORT", note=note)]

    def make(self, config: EnvironmentConfig) -> Env:
        port_of(config)
        options = read_options(config, ExternalOptions)
        if config.wrappers:
            raise InputError(
                f"environment.wrappers: {config.id} is stepped by its own program, which has to wrap it. Leave it out."
            )
        if options.env is not None and options.spaces is not None:
            raise InputError(f"{config.id}: 'env' and 'spaces' both describe its agents. Leave one of them out.")
        if options.env is not None:
            return ExternalEnv(_like(options.env, config))
        if options.spaces is None:
            raise InputError(
                f"{config.id} runs in another program, and Mosaic can train in it alone. It does not say what its "
                "agents observe and do. Name an env with the same spaces: --set "
                "environment.options.env=gym/CartPole-v1. `mosaic train` in a terminal and `mosaic.train` ask the "
                "first program that connects."
            )
        return ExternalEnv(spec_of(options.spaces, config))


def port_of(config: EnvironmentConfig) -> int:
    """Return the port to listen on."""
    text = config.env_id
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536):
        raise InputError(f"'{config.id}' has no port. Type {EXTERNAL}:PORT with a number from 1 to 65535.")
    return int(text)


def ask_first_program(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return the env with the spaces of the first program that connects, unless its options describe them.

    Waits without a limit. Any other env is returned as it is.
    """
    if config.family != EXTERNAL or config.options.keys() & {"env", SPACES}:
        return config
    options, port = read_options(config, ExternalOptions), port_of(config)
    ask = load_plugin("mosaic.listeners", SPACES)
    notify(
        f"Waiting for a program on {options.host}:{port}: the first one says what its agents observe and do (Ctrl-C "
        "ends)."
    )
    return config.model_copy(update={"options": {**config.options, SPACES: ask(options.host, port)}})


def spec_of(spaces: Mapping[AgentID, Document], config: EnvironmentConfig) -> EnvSpec:
    """Return agents and spaces as a program described them; raise InputError where they are not spaces."""
    for agent, both in spaces.items():
        if not isinstance(both, Mapping) or both.keys() != {"observation", "action"}:
            raise InputError(f'spaces.{agent}: it should be {{"observation": …, "action": …}}.')
    return EnvSpec(
        EnvFacts(config, reproducible=False),
        tuple(spaces),
        {agent: space_from_json(both["observation"]) for agent, both in spaces.items()},
        {agent: space_from_json(both["action"]) for agent, both in spaces.items()},
    )


def _like(env_id: str, config: EnvironmentConfig) -> EnvSpec:
    from mosaic.envs.catalog import make_env

    described = EnvironmentConfig(env_id=env_id)
    if described.family in _UNLIKE:
        raise InputError(f"{config.id}: 'env' should be an env that Mosaic can make, and not {env_id}.")
    with closing(make_env(described)) as env:
        spec = env.spec
    facts = replace(spec.facts, config=config, reproducible=False, usual_envs=None, max_envs=None, advice="")
    return replace(spec, facts=facts)


family = ExternalFamily()
