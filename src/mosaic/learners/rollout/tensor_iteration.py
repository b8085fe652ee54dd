"""One iteration on a device: a rollout of envs that are tensors, advantages and learning, as one CUDA graph.

An iteration has the same operations every time, so that a CUDA graph can replay it: decisions of frozen opponents are
rows of weight 0, and in self-play each frozen place has envs of its own, in which it plays a random agent's opponent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mosaic.envs.tensors.rules import TensorView
from mosaic.envs.tensors.vector import TensorVector
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.engines.torch_ppo_update import Minibatch
from mosaic.learners.rollout.arrays import Assignment
from mosaic.learners.rollout.base import Discounts, RolloutSettings
from mosaic.learners.rollout.tensor_buffers import (
    EpisodeResults,
    estimate_advantages,
    make_results,
    make_tensor_rollout,
    record_episodes,
    record_step,
)
from mosaic.learners.rollout.tensor_policies import REPORTED, TensorPolicies, TensorPolicy
from mosaic.models.engine import LearnSettings
from mosaic.models.torch_distributions import draw

_MOST_IN_A_GRAPH = 256  # minibatches; more are learned from one by one
_WARM_UPS = 3


class TensorIteration:
    """All tensors of a run at fixed addresses, and the work on them."""

    def __init__(
        self,
        vector: TensorVector,
        plan: TrainingPlan,
        policies: TensorPolicies,
        learning: Sequence[LearnSettings],
        settings: RolloutSettings,
    ) -> None:
        self.vector, self.plan, self.policies = vector, plan, policies
        self.steps, self._learning = settings.n_steps, learning
        shape, device = vector.shape, vector.device
        self.league = LeagueEnvs(plan, settings, shape.envs, device)
        self.rollout = make_tensor_rollout(shape, self.steps, device)
        policy_of = torch.from_numpy(settings.make_assignment(plan, shape).policy_of).to(device)
        self._varies = shape.turn_based or plan.self_play  # which policy decides for a slot
        if not self._varies:
            self.rollout.decider.copy_(policy_of.expand_as(self.rollout.decider))
        self.results = make_results(shape, self.steps, len(plan.names), settings.places, policy_of)
        cuts = vector.rules.time_limit
        finals = 1 if self.steps <= cuts else self.steps if cuts else 0
        self._finals = torch.zeros(finals, *self.rollout.obs.shape[1:], device=device)
        discounts, frozen = Discounts.of(learning), np.zeros(settings.places, np.float32)  # theirs are never used
        self._discounts = [
            torch.from_numpy(np.concatenate([numbers, frozen])).to(device)
            for numbers in (discounts.gamma, discounts.gae_lambda)
        ]
        self._slots = [_slots_of(policy, plan, turn_based=shape.turn_based) for policy in range(len(plan.names))]
        self.stats = torch.zeros(len(plan.names), len(REPORTED) + 1, device=device)

    @property
    def _shares_slots(self) -> bool:
        """Return whether several learners decide for one slot."""
        return self.vector.shape.turn_based and len(self.plan.names) > 1

    def run(self) -> None:
        """Do a rollout and learn from it."""
        self._collect()
        for policy, trained in enumerate(self.plan.trained):
            if trained:
                self._improve(policy)

    @torch.no_grad()
    def _collect(self) -> None:
        rollout, steps, shape = self.rollout, self.steps, self.vector.shape
        for time in range(steps):
            view = self.vector.show()
            self._decide(time, view)
            step = self.vector.advance(rollout.act[time])
            ended = step.terminated | step.truncated
            rollout.reward[time].copy_(step.reward)
            rollout.ended[time].copy_(ended)
            record_step(self.results, time, step.reward, ended, self_play=self.plan.self_play)
            self.league.assign(self.results.policy_of, ended, self.vector.generator)
            if len(self._finals):
                cut = step.truncated & ~step.terminated
                rollout.bootstrap[time].copy_(cut[:, None].expand(-1, len(shape.agents)))
                self._keep_final(time, cut, step.final.obs)
        view = self.vector.show()
        rollout.value[steps].copy_(self._values(view.obs, view))
        if rollout.who is not None and view.who is not None:
            rollout.who[steps].copy_(view.who)
        if len(self._finals):  # agents act together here, so slots are agents
            rollout.bootstrap.mul_(torch.stack([self._values(each, view) for each in self._finals]))
        estimate_advantages(rollout, *self._discounts)
        record_episodes(self.results, rollout.ended, self_play=self.plan.self_play)

    def _keep_final(self, time: int, cut: Tensor, final: Tensor) -> None:
        """Keep the final observation of a truncated episode; if an env has one at most in a rollout, one is stored."""
        if len(self._finals) == 1:
            torch.where(cut[:, None, None], final, self._finals[0], out=self._finals[0])
        else:
            self._finals[time].copy_(final)

    def _deciders(self, view: TensorView) -> Tensor:
        """Return the policy that decides for each slot, [E, S]."""
        policy_of = self.results.policy_of
        return policy_of if view.who is None else policy_of.gather(1, view.who[:, None])

    def _decide(self, time: int, view: TensorView) -> None:
        rollout, generator = self.rollout, self.vector.generator
        decider = self._deciders(view)
        rollout.obs[time].copy_(view.obs)
        if self._varies:
            rollout.decider[time].copy_(decider)
        if rollout.mask is not None and view.mask is not None:
            rollout.mask[time].copy_(view.mask)
        if rollout.who is not None and view.who is not None:
            rollout.who[time].copy_(view.who)
        for policy, learner in enumerate(self.policies.learners):
            slots = self._slots[policy]
            mask = None if view.mask is None else view.mask[:, slots].flatten(0, 1)
            drawn, value = learner.policy.act(view.obs[:, slots].flatten(0, 1), mask, generator)
            found = (rollout.logp, drawn.logp), (rollout.value, value), (rollout.act, drawn.act)
            for whole, numbers in found:
                place = whole[time][:, slots]
                chosen = numbers.view_as(place)
                if self._shares_slots:
                    own = (decider == policy).view(*decider.shape, *(1 for _ in place.shape[2:]))
                    chosen = torch.where(own, chosen, place)
                place.copy_(chosen)
        self.league.decide(self.policies, view, decider, rollout.act[time], generator)

    def _values(self, obs: Tensor, view: TensorView) -> Tensor:
        """Return the deciding learner's value of each slot's observation; frozen places have the first one's."""
        values = torch.zeros(obs.shape[:2], dtype=obs.dtype, device=obs.device)
        decider = self._deciders(view)
        for policy, learner in enumerate(self.policies.learners):
            slots = self._slots[policy]
            place = values[:, slots]
            found = learner.policy.ask(obs[:, slots].flatten(0, 1)).value.view_as(place)
            place.copy_(torch.where(decider == policy, found, place) if self._shares_slots else found)
        return values

    def _improve(self, policy: int) -> None:
        """Learn from the policy's decisions in shuffled minibatches."""
        settings, device = self._learning[policy], self.vector.device
        decisions = torch.arange(self.rollout.decider.numel(), device=device).view_as(self.rollout.decider)
        rows = decisions[..., self._slots[policy]].flatten()
        for _ in range(settings.n_epochs):
            order = torch.rand(len(rows), device=device, generator=self.vector.generator).argsort()
            for chosen in torch.split(rows[order], settings.batch_size):
                self._learn_rows(policy, chosen)

    def _learn_rows(self, policy: int, chosen: Tensor) -> None:
        rollout = self.rollout
        steps = self.steps
        batch = Minibatch(
            obs=rollout.obs.flatten(0, 2)[chosen],
            critic_obs=rollout.obs.flatten(0, 2)[chosen, :0],
            mask=None if rollout.mask is None else rollout.mask.flatten(0, 2)[chosen],
            act=rollout.act.flatten(0, 2)[chosen],
            logp=rollout.logp.flatten()[chosen],
            val=rollout.value[:steps].flatten()[chosen],
            adv=rollout.adv.flatten()[chosen],
            ret=rollout.ret.flatten()[chosen],
        )
        weight: Tensor | None = None
        if self.vector.shape.turn_based or self.plan.self_play:
            counts = (rollout.decider.flatten()[chosen] == policy) & rollout.known.flatten()[chosen]
            weight = counts.to(batch.adv.dtype)
        stats = self.policies.learners[policy].improve(batch, weight)
        self.stats[policy] += torch.cat((stats, stats.new_ones(1)))

    def captured(self) -> Callable[[], None]:
        """Return an iteration as a CUDA graph; on a CPU, or with many minibatches, as a function."""
        device = self.vector.device
        if device.type != "cuda":
            return self.run
        minibatches = sum(
            each.n_epochs * -(-self.rollout.decider.numel() // each.batch_size) for each in self._learning
        )
        if minibatches <= _MOST_IN_A_GRAPH:
            return self._graph_of(self.run)
        collect = self._graph_of(self._collect)

        def iterate() -> None:
            collect()
            for policy, trained in enumerate(self.plan.trained):
                if trained:
                    self._improve(policy)

        return iterate

    def _graph_of(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture work that was done a few times before; everything it changed is set back."""
        generator, everything = self.vector.generator, self._everything()
        before, random = [tensor.detach().clone() for tensor in everything], generator.get_state()
        beside = torch.cuda.Stream(self.vector.device)  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(_WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=beside):
            work()
        with torch.no_grad():
            for tensor, was in zip(everything, before, strict=True):
                tensor.copy_(was)
        generator.set_state(random)
        return graph.replay

    def _everything(self) -> list[Tensor]:
        learned = [tensor for learner in self.policies.learners for tensor in learner.tensors()]
        return [*learned, *self.vector.here, *self.results, self.stats]


def _slots_of(policy: int, plan: TrainingPlan, *, turn_based: bool) -> slice:
    """Return the slots for which a learner may decide: all of its agents', or the one that agents share."""
    if turn_based or plan.self_play:
        return slice(None)
    own = [slot for slot, number in enumerate(plan.policy_of) if number == policy]
    return slice(own[0], own[-1] + 1)


class LeagueEnvs:
    """Envs in which frozen opponents play: a block of them for each frozen place."""

    def __init__(self, plan: TrainingPlan, settings: RolloutSettings, envs: int, device: torch.device) -> None:
        self._learners, self._places = len(plan.names), settings.places
        first = settings.selfplay_envs if plan.self_play else envs
        edges = (
            np.linspace(first, envs, settings.places + 1).round().astype(int) if settings.places else np.array([envs])
        )
        self._blocks = [slice(int(low), int(high)) for low, high in pairwise(edges)]
        place = np.full(envs, -1, np.int64)
        for number, block in enumerate(self._blocks):
            place[block] = number
        self._place_of = torch.from_numpy(place).to(device)
        self._filled = 0
        self._slip = torch.zeros(max(1, settings.places), device=device)

    def prepare(self, assignment: Assignment, policies: TensorPolicies, results: EpisodeResults) -> None:
        """Load opponents that changed since the last rollout; their running games do not count."""
        filled = int(assignment.league[2])
        if not self._places or not (policies.changed or filled != self._filled):
            return
        policies.fill_places(filled)
        self._filled = filled
        slips = assignment.slip[np.arange(self._places) % max(1, filled)]
        self._slip.copy_(torch.from_numpy(slips))
        results.rated.logical_and_(self._place_of < 0)
        assignment.rated[:] = 1

    def assign(self, policy_of: Tensor, ended: Tensor, generator: torch.Generator) -> None:
        """Give a random agent of each new game to the learner, all others to the env's frozen place."""
        if not self._places:
            return
        envs, agents = policy_of.shape
        drawn = torch.rand(envs, 1, device=policy_of.device, generator=generator)
        own = (drawn * agents).long() == torch.arange(agents, device=policy_of.device)
        dealt = torch.where(own, 0, self._learners + self._place_of[:, None])
        policy_of.copy_(torch.where((ended & (self._place_of >= 0))[:, None], dealt, policy_of))

    def decide(
        self, policies: TensorPolicies, view: TensorView, decider: Tensor, act: Tensor, generator: torch.Generator
    ) -> None:
        """Write the actions of frozen opponents, some of them replaced by random ones."""
        for place, (block, policy) in enumerate(zip(self._blocks, policies.places, strict=True)):
            if block.start == block.stop:
                continue
            own = decider[block] >= self._learners
            mask = None if view.mask is None else view.mask[block].flatten(0, 1)
            drawn, _ = policy.act(view.obs[block].flatten(0, 1), mask, generator)
            chosen = drawn.act.view(*own.shape, -1)
            act[block] = torch.where(own[..., None], self._slipped(chosen, mask, place, policy, generator), act[block])

    def _slipped(
        self, chosen: Tensor, mask: Tensor | None, place: int, policy: TensorPolicy, generator: torch.Generator
    ) -> Tensor:
        """Replace actions by random legal ones, with the probability of the place."""
        head = policy.architecture.head
        if head.kind != "categorical":
            return chosen
        blind = torch.zeros(chosen.shape[0] * chosen.shape[1], head.width, device=chosen.device)
        random = draw(head, blind, None, mask, generator).act.view_as(chosen)
        slips = torch.rand(chosen.shape[:2], device=chosen.device, generator=generator) < self._slip[place]
        return torch.where(slips[..., None], random, chosen)

    def by_snapshot(self, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return scores by filled place: places beyond them play the same snapshots."""
        found = np.zeros_like(scores)
        np.add.at(found, np.arange(len(scores)) % max(1, self._filled), scores)
        return found
