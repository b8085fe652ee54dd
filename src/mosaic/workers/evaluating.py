"""How good policies are while they learn: their best actions, on seeds that training never sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from statistics import fmean
from typing import Any, TypeAlias

from mosaic.config.run import RunConfig
from mosaic.core.episode import Episode, outcomes
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.evaluation.play import DEFAULT_MAX_STEPS, distinct_seeds
from mosaic.policies.controller import PolicyController
from mosaic.runners.local import LocalEnvRunner

MakeController: TypeAlias = Callable[[EnvSpec, AgentID], PolicyController]

_LEARNER = "the policy that learns, for {agent}"  # no policy can be called so


def is_due(before: int, now: int, every_steps: int | None) -> bool:
    """Whether a multiple of `every_steps` lies on the way: the same places for a run that was left and resumed."""
    return every_steps is not None and now // every_steps > before // every_steps


def evaluate_learners(
    config: RunConfig, make: MakeController, fixed: Mapping[AgentID, PolicyID] | None = None
) -> Iterator[dict[str, Any]]:
    """What to report: one record for each opponent, or one for the learners among themselves where there is none.

    `fixed` are the policies of agents that do not learn.
    """
    fixed = fixed or {}
    evaluation = config.evaluation
    with closing(make_env(config.environment)) as env:
        agents = tuple(agent for agent in env.spec.possible_agents if agent not in fixed)
        controllers = {_LEARNER.format(agent=agent): make(env.spec, agent) for agent in agents}
        seeds = distinct_seeds(evaluation.episodes, config.seed, "evaluation")
        if len(agents) == 1 or not evaluation.opponents:
            played = list(_play(env, fixed, agents[0], seeds, controllers))
            yield _record(played, env.spec)
        else:
            for opponent in evaluation.opponents:
                played = []
                for place, seat in enumerate(agents):  # each seat in turn: who begins has it easier
                    others = {**fixed, **{agent: opponent for agent in agents if agent != seat}}
                    played += _play(env, others, seat, seeds[place :: len(agents)], controllers)
                yield {**_record(played, env.spec), "opponent": opponent}


def _play(
    env: Env,
    others: Mapping[AgentID, PolicyID],
    seat: AgentID,
    seeds: list[int],
    controllers: dict[PolicyID, PolicyController],
) -> Iterator[tuple[AgentID, Episode]]:
    mapping = {agent: others.get(agent, _LEARNER.format(agent=agent)) for agent in env.spec.possible_agents}
    runner = LocalEnvRunner(env, mapping, controllers=controllers)
    with closing(runner.cast):
        for seed in seeds:
            yield seat, runner.run(seed, max_steps=DEFAULT_MAX_STEPS)


def _record(played: list[tuple[AgentID, Episode]], spec: EnvSpec) -> dict[str, Any]:
    returns = [episode.returns[seat] for seat, episode in played]
    record: dict[str, Any] = {
        "episodes": len(played),
        "episode_reward_mean": fmean(returns),
        "episode_reward_min": min(returns),
        "episode_reward_max": max(returns),
        "episode_len_mean": fmean(episode.env_steps for _, episode in played),
    }
    if spec.facts.competitive:
        ends = [outcomes(episode.returns, spec.facts.win_above)[seat] for seat, episode in played]
        record |= {"wins": ends.count("win"), "draws": ends.count("draw"), "losses": ends.count("loss")}
    return record
