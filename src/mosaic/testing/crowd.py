"""An env for as many agents as wanted."""

from __future__ import annotations

from string import ascii_letters

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts
from mosaic.testing.toys import Toy

MOST_AGENTS = len(ascii_letters)
_ENV_ID = "mosaic.testing.crowd:Crowd"


class Crowd(Toy):
    """All act together; each of four steps pays 1 to each, and the last one truncates all."""

    def __init__(self, agents: int = 2) -> None:
        super().__init__(ascii_letters[:agents], EnvFacts(crowd(agents)))

    def _first(self) -> Turn:
        return self._turn("".join(self.possible_agents), dict.fromkeys(self.possible_agents, 0.0))

    def _next(self) -> Turn:
        everybody = "".join(self.possible_agents)
        rewards = dict.fromkeys(self.possible_agents, 1.0)
        return self._turn("", rewards, truncated=everybody) if self.t == 4 else self._turn(everybody, rewards)


def crowd(agents: int) -> EnvironmentConfig:
    """Such an env, by its configuration."""
    return EnvironmentConfig(family="python", env_id=_ENV_ID, options={"agents": agents})
