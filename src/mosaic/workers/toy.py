"""Worker that learns nothing, quickly and deterministically: for tests, examples and figures."""

from __future__ import annotations

import json
import threading
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
from mosaic.workers.loop import Progress, train

POLICY = "learner"
WALK = "walk.json"


class ToyOptions(BaseModel):
    """Options of the toy's random walk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps_per_iteration: int = Field(100, ge=1, description="Env steps of one iteration.")
    iteration_s: float = Field(0.0, ge=0, description="Seconds that an iteration takes at least.")
    noise: float = Field(1.0, ge=0, description="Spread of the reward around its slow rise.")


class ToyWorker:
    """Worker whose reward is a rising random walk; the walk is the policy, and resumes from its checkpoint."""

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
        population=True,
        seeds=True,
        resources=("num_env_runners", "num_cpus"),  # reserved in the queue of a server; a walk itself needs neither
        not_applicable={"environment": "a walk steps no env; only the agents and spaces of the env count"},
    )
    loads_pickles = False  # a walk is JSON: it runs no code, regardless of its author

    def options(self, algorithm: str) -> type[BaseModel]:
        return ToyOptions

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, ToyOptions)
        steps = options.steps_per_iteration
        train(context, ToyTraining(context, options), report_every_steps=steps, save_every_steps=10 * steps)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        walk = json.loads((checkpoint.path / WALK).read_text())
        return ToyPolicyController(request, int(walk["iteration"]))


class ToyTraining:
    """`Trainable` over the random walk."""

    def __init__(self, context: WorkerContext, options: ToyOptions) -> None:
        self._context, self._options = context, options
        self._random, self._never = Random(child_seed(context.seed, "toy")), threading.Event()
        self._iteration, self._reward = 0, 0.0
        if context.resume_from:
            saved = json.loads((context.resume_from.path / WALK).read_text())
            self._iteration, self._reward = saved["iteration"], saved["reward"]
            self._random.setstate(_state(saved["random"]))

    def iterate(self) -> None:
        self._never.wait(self._options.iteration_s)
        self._iteration += 1
        self._reward += 0.1 + self._options.noise * self._random.gauss(0, 1)

    def progress(self) -> Progress:
        reward = self._reward if self._iteration else None
        return Progress(self._iteration * self._options.steps_per_iteration, self._iteration, reward)

    def metrics(self) -> dict[str, object]:
        env_steps, episodes, reward = self.progress()
        return {
            "training_iteration": self._iteration,
            "env_steps": env_steps,
            "agent_steps": env_steps,
            "episodes_total": episodes,
            "episode_reward_mean": reward,
            "policies": {POLICY: {"reward_mean": reward}},
        }

    def save(self) -> None:
        walk = {"iteration": self._iteration, "reward": self._reward, "random": self._random.getstate()}

        def write(folder: Path) -> None:
            (folder / WALK).write_text(json.dumps(walk))

        entry = PolicyEntry(files=(WALK,), agents=("*",))
        env_steps, _, reward = self.progress()
        self._context.checkpoint(write, env_steps=env_steps, policies={POLICY: entry}, reward=reward, pickles=False)

    def evaluate(self) -> tuple[()]:
        return ()  # a walk plays no episodes


class ToyPolicyController:
    """Controller that always takes the same legal action, chosen by its checkpoint."""

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


def _state(saved: list[Any]) -> tuple[object, ...]:
    """Convert a state of `Random.getstate` back from JSON."""
    version, internal, gauss = saved
    return version, tuple(internal), gauss


worker = ToyWorker()
