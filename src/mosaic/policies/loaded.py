"""Policy for use from Python: load it with one call, get an action with another."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing

from mosaic.core.episode import DecisionReport
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.envs.objects import Environment
from mosaic.envs.spaces import split
from mosaic.policies.controller import (
    DEFAULT_TIME_LIMIT_S,
    Explains,
    Explanation,
    PolicyController,
    Remembers,
    Reports,
)
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import add_code_of, policy_notes
from mosaic.policies.registry import load_policy as load_controller

_LOG = logging.getLogger(__name__)


class LoadedPolicy:
    """PolicyController that also takes single observations: `policy.predict(observation)`."""

    def __init__(self, controller: PolicyController, agents: tuple[AgentID, ...], seed: int) -> None:
        self.controller, self.agents = controller, agents
        self._seed, self._begun = seed, False

    def predict(self, observation: Observation, mask: Mask | None = None, *, agent: AgentID | None = None) -> Action:
        """Return the action for one agent's observation, as the env returns it.

        A mask that the env puts next to the observation is found there. The first call starts an episode; call `reset`
        before each further one, since a policy may have memory or draw random numbers.
        """
        name = self._agent(agent)
        if not self._begun:
            self.reset()
        seen, found = split(observation, {} if mask is None else {"action_mask": mask})
        masks = {} if found is None else {name: found}
        return self.controller.act(Turn({name: seen}, masks, {}, {}, {}, {}, {}))[name]

    def reset(self, seed: int | None = None) -> None:
        """Start an episode; the seed determines the policy's random draws."""
        self.begin(self.agents, self._seed if seed is None else seed)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._begun = True
        self.controller.begin(agents, seed)

    def act(self, turn: Turn) -> Mapping[AgentID, Action]:
        return self.controller.act(turn)

    def explain(self, turn: Turn) -> Mapping[AgentID, Explanation]:
        if not isinstance(self.controller, Explains):
            return dict.fromkeys(turn.observations, Explanation(None, None))
        return self.controller.explain(turn)

    def forget(self, agent: AgentID) -> None:
        if isinstance(self.controller, Remembers):
            self.controller.forget(agent)

    def reports(self) -> Mapping[AgentID, DecisionReport]:
        return self.controller.reports() if isinstance(self.controller, Reports) else {}

    def close(self) -> None:
        self.controller.close()

    def __enter__(self) -> LoadedPolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agent(self, asked: AgentID | None) -> AgentID:
        if asked is None and len(self.agents) == 1:
            return self.agents[0]
        if asked is None:
            raise InputError(f"Name the agent: predict(observation, agent=…), one of {', '.join(self.agents)}.")
        if asked not in self.agents:
            raise unknown("agent of this policy", asked, self.agents)
        return asked


def load_policy(
    reference: PolicyID,
    env: Environment | EnvSpec,
    agents: tuple[AgentID, ...] | None = None,
    *,
    seed: int = 0,
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
) -> LoadedPolicy:
    """Load a policy that may act for these agents (default: all) of an env, for example `run:latest`.

    `env` is an id, a configuration, an env object (Gymnasium's too), a class that makes one, or a spec.
    """
    add_code_of(PolicyMapping((("*", reference),)))
    spec = _spec(env)
    chosen = spec.possible_agents if agents is None else agents
    for note in policy_notes(reference, spec, chosen):
        _LOG.warning(note)
    controller = load_controller(reference, spec, chosen, seed=seed, time_limit_s=time_limit_s)
    return LoadedPolicy(controller, chosen, seed)


def _spec(env: Environment | EnvSpec) -> EnvSpec:
    if isinstance(env, EnvSpec):
        return env
    spec = getattr(env, "spec", None)
    if isinstance(spec, EnvSpec) and not isinstance(env, type):
        return spec
    if not isinstance(env, type) and hasattr(env, "reset"):  # the caller's own object stays open
        return make_env(env).spec
    with closing(make_env(env)) as made:
        return made.spec
