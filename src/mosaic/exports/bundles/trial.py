"""Trial of a bundle: its policies play, from the files that others will get, to be measured and filmed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.env import Env, EnvSpec
from mosaic.evaluation.evaluate import Evaluation, evaluate
from mosaic.learners.agent_roles import read_agent_roles
from mosaic.runners.video import FilmCamera
from mosaic.store.bundles.bundle import Bundle
from mosaic.store.bundles.manifest import BundleManifest, ReplayVideo
from mosaic.store.policies.run_policy import policy_for

FILM_S = 15.0  # of a longer episode the beginning is shown
_SHORTEST = 50  # env steps
_MOST_SEATS = 4  # in a game of more agents, all policies of the bundle play together


@dataclass(frozen=True, slots=True)
class BundleSettings:
    """Settings for the evaluation and presentation of a bundle's policies."""

    episodes: int = 20
    seed: int = 0
    opponent: PolicyID = "random"  # of a policy in a game with winners
    video: bool = True
    license: str | None = None  # of the weights, as Hugging Face names it: mit, apache-2.0, …


@dataclass(frozen=True, slots=True)
class Trial:
    """Policies of a bundle in the env of their training, each in its agents' place."""

    folder: Path  # with a manifest and weights
    manifest: BundleManifest
    spec: EnvSpec
    config: RunConfig  # of the run
    settings: BundleSettings

    @property
    def environment(self) -> EnvironmentConfig:
        return EnvironmentConfig.model_validate(self.manifest.environment)

    @property
    def reference(self) -> PolicyID:
        return f"bundle:{self.folder}"

    def names(self) -> dict[AgentID, str]:
        """Return the policy of each agent that has one here; others were played by fixed policies."""
        checkpoint = Bundle(self.folder, self.manifest).checkpoint()
        found: dict[AgentID, str] = {}
        for agent in self.spec.possible_agents:
            with suppress(InputError):
                found[agent] = policy_for(checkpoint, agent)
        return found

    def everyone(self) -> dict[str, PolicyID]:
        """Return who plays each agent; those without a policy here are played as in training."""
        if not self.spec.possible_agents:
            return {"*": self.reference}
        learned, fixed = self.names(), dict[AgentID, PolicyID]()
        if len(learned) < len(self.spec.possible_agents):
            fixed = dict(read_agent_roles(self.config, self.spec, honours_batches=True).played)
        return {
            agent: self.reference if agent in learned else fixed.get(agent, self.settings.opponent)
            for agent in self.spec.possible_agents
        }

    def lineups(self) -> Iterator[dict[str, PolicyID]]:
        """Yield who plays whom: in a game with winners, one agent at a time against the opponent."""
        everyone = self.everyone()
        if not self.spec.facts.competitive or len(everyone) > _MOST_SEATS:
            yield everyone
            return
        ours = [agent for agent, policy in everyone.items() if policy == self.reference]
        for agent in ours:
            others = {each: self.settings.opponent if each in ours else everyone[each] for each in everyone}
            yield {**others, agent: self.reference}


def measure(trial: Trial) -> tuple[dict[str, Any], ...]:
    """Play episodes and return their results with intervals."""
    settings, names = trial.settings, trial.names()
    return tuple(
        _document(evaluate(trial.environment, players, episodes=settings.episodes, seed=settings.seed), names)
        for players in trial.lineups()
    )


def _document(result: Evaluation, names: Mapping[AgentID, str]) -> dict[str, Any]:
    agents: dict[AgentID, Any] = {}
    for agent, summary in result.agents.items():
        ours = summary.policy.startswith("bundle:")
        policy = names.get(agent, next(iter(names.values()), "")) if ours else summary.policy
        agents[agent] = {**summary.to_json(), "policy": policy, "bundled": ours}
    return {
        "env": result.env,
        "episodes": len(result.episode_results),
        "seed": result.seed,
        "distinct_games": result.distinct_games,
        "reproducible": result.reproducible,
        "length_mean": result.length.mean,
        "agents": agents,
    }


class _NamedCamera(FilmCamera):
    """Camera that shows the names of policies instead of the folder in which they are tried."""

    def __init__(self, path: Path, names: Mapping[AgentID, str]) -> None:
        super().__init__(path)
        self._names = names

    def shoot(self, env: Env, step: int, turn: Turn, policies: Mapping[AgentID, PolicyID], episode: int = 0) -> None:
        shown = {agent: self._names.get(agent, policy) for agent, policy in policies.items()}
        super().shoot(env, step, turn, shown, episode)


def film(trial: Trial, frames_per_s: float) -> ReplayVideo:
    """Film an episode of all policies together; where there are no pictures, return why."""
    path, steps = trial.folder / "replay.mp4", max(_SHORTEST, round(FILM_S * frames_per_s))
    try:
        with _NamedCamera(path, trial.names()) as camera:
            seed = trial.settings.seed
            evaluate(trial.environment, trial.everyone(), episodes=1, seed=seed, camera=camera, max_steps=steps)
    except InputError as error:  # the env draws nothing, or ffmpeg is not installed
        return ReplayVideo(reason=str(error))
    return ReplayVideo(file=path.name)
