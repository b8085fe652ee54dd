"""Self-play against past snapshots: when they are taken, which of them play, and how strong they are."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.episode import outcomes
from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_key
from mosaic.learners.league import League, Snapshot, interval_for
from mosaic.learners.opponents import distinct_ages
from mosaic.workers.evaluation import snapshot_name
from mosaic.workers.rllib.config.options import snapshot_interval
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.lost_runners import after_restore
from mosaic.workers.rllib.reporting.episodes import EpisodeRecord, RllibResult, records_of

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.rllib.algorithms.algorithm import Algorithm


Weights: TypeAlias = dict[str, NDArray[np.float32]]  # by parameter
_MODULES = "mosaic_modules"  # key of an episode's agent-to-module mapping in its custom data


class ModuleMapping:
    """Mapping of agents to modules, as RLlib's policy mapping function. It is fixed for the length of an episode."""

    def __init__(
        self,
        learner: str,
        agents: tuple[AgentID, ...],
        rivals: tuple[str, ...] = (),
        share: float = 1.0,
        seed: int = 0,
        bound: Mapping[AgentID, str] | None = None,
    ) -> None:
        self._learner, self._agents, self._rivals = learner, agents, rivals
        self._bound = bound or {}  # agents with a module of their own, in every episode; others are the learner's then
        self._share, self._seed = share, seed  # share of the episodes in which the learner plays itself
        self._episodes = 0

    def __call__(self, agent: AgentID, episode: object, **also: object) -> str:
        data: dict[str, dict[AgentID, str]] | None = getattr(episode, "_custom_data", None)
        if data is None:  # RLlib, when cutting an episode, asks about agents already mapped
            return self._learner
        if _MODULES not in data:
            data[_MODULES] = self._draw()
        return data[_MODULES].get(agent, self._learner)

    def _draw(self) -> dict[AgentID, str]:
        """Draw the modules of agents that the learner does not play in the next episode."""
        if self._bound:
            return dict(self._bound)
        self._episodes += 1
        random = np.random.default_rng((self._seed, self._episodes))
        if not self._rivals or random.random() < self._share:
            return {}
        own = random.integers(len(self._agents))
        rival = self._rivals[random.integers(len(self._rivals))]
        return {agent: rival for k, agent in enumerate(self._agents) if k != own}


@dataclass(frozen=True, slots=True)
class OpponentModules:
    """Opponents that every env runner should have, sent after each iteration and when a runner was restarted."""

    learner: str
    agents: tuple[AgentID, ...]
    share: float
    seed: int
    rivals: Mapping[str, ObjectRef[Weights]]  # module → reference of its weights, {parameter: array}
    bound: Mapping[AgentID, str]  # agents that always have the same rival

    def mapping(self, runner: int) -> ModuleMapping:
        """Return the mapping for the env runner of this number."""
        seed = child_key(self.seed, runner)
        return ModuleMapping(self.learner, self.agents, tuple(self.rivals), self.share, seed, self.bound)


def set_opponent_modules(runner: Any, opponents: OpponentModules) -> dict[str, int]:
    """Set the opponents of an env runner, in its process. Return the checksum of each snapshot there."""
    import ray
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    modules = runner.module
    begun = [episode for episode in runner._ongoing_episodes if episode is not None]
    playing = {name for episode in begun for name in episode.custom_data.get(_MODULES, {}).values()}
    for name in set(modules.keys()) - {opponents.learner, *opponents.rivals, *playing}:
        modules.remove_module(name)
    learner = modules[opponents.learner]
    for name in set(opponents.rivals) - set(modules.keys()):
        snapshot: Any = RLModuleSpec.from_module(learner).build()
        snapshot.set_state(ray.get(opponents.rivals[name]))
        snapshot.to(next(learner.parameters()).device)
        modules.add_module(name, snapshot)
    mapping = opponents.mapping(runner.worker_index)
    runner.config.multi_agent(policy_mapping_fn=mapping)
    for episode in begun:
        if _MODULES not in episode.custom_data:  # created, but not begun: it would draw from the previous opponents
            episode.agent_to_module_mapping_fn = mapping
    return {
        name: checksum(module.get_state(inference_only=True))
        for name, module in modules.items()
        if name != opponents.learner
    }


def checksum(weights: Mapping[str, NDArray[np.generic]]) -> int:
    total = 0
    for name in sorted(weights):
        total = zlib.crc32(np.ascontiguousarray(weights[name]).tobytes(), total)
    return total


PLACES = 4  # snapshots that play at the same time: each is one more network to evaluate at every step
_GAMES_FOR_A_RATE = 20  # with fewer a win rate says nothing
_NOTHING = np.zeros(0, np.float32)  # snapshots' observations go through RLlib's connectors, which scale them


class LeagueManager:
    """League of snapshots for self-play.

    Snapshots are modules `learner@STEP` of the env runners; the learner process does not have them. Call `begin` on a
    new algorithm or `restore` on a resumed one, then `after_iteration` after each iteration.
    """

    def __init__(self, setup: RllibSetup) -> None:
        options, roles = setup.options, setup.roles
        self.league = League(options.league_size, options.league_sampling, distinct_ages(roles))
        self._learner = roles.plan.names[0]
        self._agents, self._ages, self._share = roles.learners, roles.ages, options.selfplay_share
        self._win_above = setup.spec.facts.win_above
        self._rate = options.snapshot_win_rate
        every = snapshot_interval(options, setup.config.training.total_timesteps)
        self._every = interval_for(every, self.league.ages)
        self._seed = child_key(setup.config.seed, "league")
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._references: dict[str, ObjectRef[Weights]] = {}  # to weights that env runners may request

    def mapping(self) -> ModuleMapping:
        """Return the initial mapping for the configuration: only the learner, until there is a league."""
        return ModuleMapping(self._learner, self._agents)

    def begin(self, algo: Algorithm) -> None:
        self._add(algo, 0)
        self._set_opponents(algo, 0)

    def after_iteration(self, algo: Algorithm, result: RllibResult, now: int) -> dict[str, object]:
        """Record games, take a snapshot if due, and draw opponents again. Return metrics to report.

        `now` is the run's own count of env steps: RLlib's is reset when runners are lost.
        """
        self.book(records_of(result))
        if self.is_due(now):
            self._add(algo, now)
        self._set_opponents(algo, now)
        return {f"rating/{self._learner}": self.league.rating, **self.league.metrics()}

    def is_due(self, now: int) -> bool:
        """Return whether a snapshot is due, by env steps since the newest one or by the learner's score against it."""
        newest = self.league.snapshots[-1]
        if self._every is not None and now - newest.env_steps >= self._every:
            return True
        if self._rate is None or newest.games < _GAMES_FOR_A_RATE:
            return False
        return float(newest.score[0] + newest.score[1] / 2) / newest.games >= self._rate

    def book(self, records: Iterable[EpisodeRecord]) -> None:
        """Update ratings with the learner's games against its snapshots."""
        snapshots = {self._name(snapshot): snapshot for snapshot in self.league.snapshots}
        scores = {name: np.zeros(3, np.int64) for name in snapshots}
        for record in records:
            best: dict[str, float] = {}  # return of each policy
            for agent, policy in record["policies"].items():
                best[policy] = max(record["returns"][agent], best.get(policy, -math.inf))
            for rival in scores.keys() & best.keys():  # others are the learner, and snapshots dropped since
                end = outcomes({policy: best[policy] for policy in (self._learner, rival)}, self._win_above)
                scores[rival][("win", "draw", "loss").index(end[self._learner])] += 1
        self.league.record(list(snapshots.values()), np.array(list(scores.values())))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return the league as arrays by name, ready for safetensors."""
        return self.league.to_arrays()

    def restore(self, algo: Algorithm, state: Mapping[str, NDArray[np.generic]], now: int) -> None:
        """Restore the league, after the algorithm's weights are restored."""
        self._weights(algo)  # records the shapes, which are also the snapshots'
        self.league.load_arrays(dict(state))
        self._set_opponents(algo, now)

    def _add(self, algo: Algorithm, now: int) -> None:
        weights = self._weights(algo)
        flat = np.concatenate([weights[name].ravel() for name in self._shapes]).astype(np.float32, copy=False)
        self.league.add(now, flat, _NOTHING, _NOTHING)

    def _weights(self, algo: Algorithm) -> dict[str, NDArray[np.float32]]:
        """Return the weights needed to act, as env runners have them."""
        assert algo.learner_group is not None
        path = f"learner/rl_module/{self._learner}"
        state = algo.learner_group.get_state(components=path, inference_only=True)
        weights: dict[str, NDArray[np.float32]] = state["learner"]["rl_module"][self._learner]
        self._shapes = {name: weights[name].shape for name in sorted(weights)}
        return weights

    def _set_opponents(self, algo: Algorithm, now: int) -> None:
        import ray

        random = np.random.default_rng((self._seed, now))
        drawn = {self._name(s): s for s in self.league.draw(max(PLACES, len(self.league.ages)), now, random)}
        for name, snapshot in drawn.items():
            if name not in self._references:
                self._references[name] = ray.put(self.weights_of(snapshot))
        kept = {self._name(snapshot) for snapshot in self.league.snapshots}
        self._references = {name: ref for name, ref in self._references.items() if name in kept}
        rivals = {name: self._references[name] for name in drawn}
        bound = {agent: self._name(self.league.aged(age, now)) for agent, age in self._ages.items()}
        seed = child_key(self._seed, now)
        opponents = OpponentModules(self._learner, self._agents, self._share, seed, rivals, bound)
        self._send(algo, opponents)
        after_restore(algo, partial(self._send, algo, opponents))

    def _send(self, algo: Algorithm, opponents: OpponentModules) -> None:
        assert algo.env_runner_group is not None
        for found in algo.env_runner_group.foreach_env_runner(partial(set_opponent_modules, opponents=opponents)):
            self._check_frozen(found)

    def _check_frozen(self, found: Mapping[str, int]) -> None:
        for snapshot in self.league.snapshots:
            name = self._name(snapshot)
            if name in found and found[name] != checksum(self.weights_of(snapshot)):
                raise MosaicError(f"The snapshot {name} has changed in an env runner, and snapshots never may.")

    def weights_of(self, snapshot: Snapshot) -> Weights:
        """Return the weights with which a snapshot acts, by RLlib's names."""
        flat, weights, start = snapshot.weights, {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            weights[name] = flat[start : start + size].reshape(shape)
            start += size
        return weights

    def _name(self, snapshot: Snapshot) -> str:
        return snapshot_name(self._learner, snapshot)
