"""A worker that learns nothing, quickly and exactly: for tests, examples and figures."""

from __future__ import annotations

import json
import threading
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from gymnasium import spaces
from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoints import Checkpoint, PolicyEntry
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext

POLICY = "learner"


class ToyOptions(BaseModel):
    """How the toy walks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps_per_iteration: int = Field(100, ge=1, description="Env steps of one iteration.")
    iteration_s: float = Field(0.0, ge=0, description="Seconds that an iteration takes at least.")
    noise: float = Field(1.0, ge=0, description="Spread of the reward around its slow rise.")


class ToyWorker:
    """Its reward is a random walk that rises; the walk is the policy, and goes on where its checkpoint left it."""

    info = WorkerCapabilities(
        name="toy",
        version=version("mosaic-rl"),
        algorithms=("walk",),
        paradigms=("parameter_sharing", "independent", "self_play"),
        action_kinds=("discrete",),
        observation_kinds=("discrete", "box", "pictures", "dict", "tuple", "multi_discrete", "multi_binary"),
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        resources=("num_workers", "num_cpus"),  # reserved in the queue of a server; a walk itself needs neither
        not_applicable={"environment": "a walk steps no env; only the agents and spaces of the env count"},
    )
    loads_pickles = False  # a walk is JSON: whoever wrote it, it runs no code

    def options(self, algorithm: str) -> type[BaseModel]:
        return ToyOptions

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, ToyOptions)
        random, never = Random(child_seed(context.seed, "toy")), threading.Event()
        iteration, reward = 0, 0.0
        if context.resume_from:
            saved = json.loads((context.resume_from.path / "walk.json").read_text())
            iteration, reward = saved["iteration"], saved["reward"]
            random.setstate(_state(saved["random"]))
        while not context.done(iteration * options.steps_per_iteration, iteration, reward if iteration else None):
            with context.iteration():
                never.wait(options.iteration_s)
            iteration += 1
            reward += 0.1 + options.noise * random.gauss(0, 1)
            env_steps = iteration * options.steps_per_iteration
            context.report(
                kind="iteration",
                training_iteration=iteration,
                env_steps=env_steps,
                agent_steps=env_steps,
                episodes_total=iteration,
                episode_reward_mean=reward,
                policies={POLICY: {"reward_mean": reward}},
            )
            save = partial(self._save, context, iteration, reward, random, env_steps)
            if context.checkpoint_due(env_steps, every_steps=10 * options.steps_per_iteration):
                save()
            context.inbox.wait_while_paused(save)
        if context.config.checkpoint.at_end and iteration:
            self._save(context, iteration, reward, random, iteration * options.steps_per_iteration)

    def _save(self, context: WorkerContext, iteration: int, reward: float, random: Random, env_steps: int) -> None:
        walk = {"iteration": iteration, "reward": reward, "random": random.getstate()}

        def save(folder: Path) -> None:
            (folder / "walk.json").write_text(json.dumps(walk))

        entry = PolicyEntry(files=("walk.json",), agents=("*",))
        context.checkpoint(save, env_steps=env_steps, policies={POLICY: entry}, reward=reward, pickles=False)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        walk = json.loads((checkpoint.path / "walk.json").read_text())
        return ToyPolicyController(request, int(walk["iteration"]))


class ToyPolicyController:
    """Always the same legal action, which its checkpoint decides."""

    def __init__(self, request: PolicyRequest, choice: int) -> None:
        self._spec, self._choice = request.spec, choice

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._act(agent, turn) for agent in turn.observations}

    def _act(self, agent: AgentID, turn: Turn) -> Action:
        space, mask = self._spec.action_spaces[agent], turn.action_masks.get(agent)
        assert isinstance(space, spaces.Discrete)
        legal = range(int(space.n)) if mask is None else mask.nonzero()[0]
        return int(space.start) + int(legal[self._choice % len(legal)])

    def close(self) -> None:
        pass


def _state(saved: list[Any]) -> tuple[Any, ...]:
    """What `Random.getstate` gave, back from JSON."""
    version, internal, gauss = saved
    return version, tuple(internal), gauss


worker = ToyWorker()
