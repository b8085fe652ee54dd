"""Evaluation of policies during training: their best actions, on seeds that training never uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from statistics import fmean
from time import perf_counter
from typing import TypeAlias

from mosaic.config.run import RunConfig
from mosaic.core.episode import Episode, outcomes
from mosaic.core.ids import AgentID, JsonObject, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.evaluation.run_games import DEFAULT_MAX_STEPS, distinct_seeds
from mosaic.policies.controller import PolicyController
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.screen import Screen, Shot

MakeController: TypeAlias = Callable[[EnvSpec, AgentID], PolicyController]

OCCASION = "evaluation"  # label of the frames for viewers
ASK_EVERY_S = 0.002  # a step of a small env takes microseconds; asking at each would be a twentieth of that
_LEARNER = "the policy that learns, for {agent}"  # cannot clash with a policy's name


def evaluate_learners(
    config: RunConfig,
    make: MakeController,
    fixed: Mapping[AgentID, PolicyID] | None = None,
    screen: Screen | None = None,
    stopped: Callable[[], object] = lambda: None,
) -> Iterator[JsonObject]:
    """Yield one record per opponent, or one of the learners among themselves if there are no opponents.

    `fixed` are the policies of agents that do not learn; if one agent learns, opponents replace them. `screen` shows
    the episodes; steps and episodes are counted from 0 for each opponent. `stopped` is called between any two steps; an
    interrupted evaluation is not reported.
    """
    fixed = fixed or {}
    shown = None if screen is None else _AsEvaluation(screen)
    evaluation = config.evaluation
    with closing(make_env(config.environment)) as env:
        agents = tuple(agent for agent in env.spec.possible_agents if agent not in fixed)
        controllers = {_LEARNER.format(agent=agent): make(env.spec, agent) for agent in agents}
        seeds = distinct_seeds(evaluation.episodes, config.seed, "evaluation")
        numbered = list(enumerate(seeds))
        if len(env.spec.possible_agents) == 1 or not evaluation.opponents:
            played = list(_play(env, fixed, agents[0], numbered, controllers, shown, stopped))
            if not stopped():
                yield _record(played, env.spec)
        else:
            for opponent in evaluation.opponents:
                played = []
                for place, learner in enumerate(agents):  # each role in turn: moving first is an advantage
                    rest = fixed if len(agents) == 1 else [agent for agent in agents if agent != learner]
                    others = {**fixed, **dict.fromkeys(rest, opponent)}
                    played += _play(env, others, learner, numbered[place :: len(agents)], controllers, shown, stopped)
                if stopped():
                    return
                yield {**_record(played, env.spec), "opponent": opponent}


class _AsEvaluation:
    """Screen of a run, labelled as evaluation, that showed the training before."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._ask_at_s = screen, 0.0

    def wanted(self) -> bool:
        now_s = perf_counter()
        if now_s < self._ask_at_s:
            return False
        self._ask_at_s = now_s + ASK_EVERY_S
        return self._screen.wanted()

    def show(self, shot: Shot) -> None:
        self._screen.show(replace(shot, occasion=OCCASION))

    def close(self) -> None:
        """Leave the screen open: training continues to use it."""


def _play(
    env: Env,
    others: Mapping[AgentID, PolicyID],
    learner: AgentID,
    numbered: list[tuple[int, int]],
    controllers: dict[PolicyID, PolicyController],
    screen: Screen | None,
    stopped: Callable[[], object],
) -> Iterator[tuple[AgentID, Episode]]:
    mapping = {agent: others.get(agent, _LEARNER.format(agent=agent)) for agent in env.spec.possible_agents}
    runner = LocalEnvRunner(env, mapping, controllers=controllers, screen=screen)
    with closing(runner.controllers):
        for number, seed in numbered:
            for _ in runner.turns(seed, episode=number, max_steps=DEFAULT_MAX_STEPS):
                if stopped():
                    return
            yield learner, runner.record


def _record(played: list[tuple[AgentID, Episode]], spec: EnvSpec) -> JsonObject:
    returns = [episode.returns[learner] for learner, episode in played]
    record: JsonObject = {
        "episodes": len(played),
        "episode_reward_mean": fmean(returns),
        "episode_reward_min": min(returns),
        "episode_reward_max": max(returns),
        "episode_len_mean": fmean(episode.env_steps for _, episode in played),
    }
    if spec.facts.competitive:
        ends = [outcomes(episode.returns, spec.facts.win_above)[learner] for learner, episode in played]
        record |= {"wins": ends.count("win"), "draws": ends.count("draw"), "losses": ends.count("loss")}
    return record
