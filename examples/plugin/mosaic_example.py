"""A plug-in with one of each: an environment family, a policy, a worker and a sink.

pip install -e examples/plugin
mosaic check example/corridor
mosaic evaluate example/corridor --agent '*=constant:action=1'
mosaic train example/corridor --worker climb --episodes 200 --set 'telemetry.mirrors=[text]'
mosaic evaluate example/corridor --agent '*=run:latest'
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import gymnasium
from gymnasium import spaces
from pydantic import BaseModel, Field, ValidationError

from mosaic import make_env
from mosaic.plugins import (
    Action,
    AgentID,
    Checkpoint,
    Env,
    EnvEntry,
    EnvFacts,
    EnvironmentConfig,
    EnvSpec,
    GymnasiumEnv,
    InputError,
    MetricEvent,
    Options,
    PolicyController,
    PolicyEntry,
    PolicyKind,
    PolicyRequest,
    RunConfig,
    Turn,
    WorkerCapabilities,
    WorkerContext,
    child_seed,
    unknown,
)

# An environment family


class CorridorOptions(Options):
    length: int = Field(4, ge=2, description="Cells of the corridor.")


class Corridor(gymnasium.Env[int, int]):
    """Walk right to the end; every step costs 0.1 and the goal pays 1."""

    def __init__(self, length: int) -> None:
        self.observation_space, self.action_space = spaces.Discrete(length), spaces.Discrete(2)
        self._goal, self._cell = length - 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = int(self.np_random.integers(self._goal))
        return self._cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._cell = min(self._goal, max(0, self._cell + (1 if action else -1)))
        arrived = self._cell == self._goal
        return self._cell, 1.0 if arrived else -0.1, arrived, False, {}


class ExampleFamily:
    def entries(self) -> list[EnvEntry]:
        return [EnvEntry("example/corridor", installed=True)]

    def make(self, config: EnvironmentConfig) -> Env:
        if config.env_id != "corridor":
            raise unknown("environment", config.id, ["example/corridor"])
        try:
            options = CorridorOptions.model_validate(config.options)
        except ValidationError as error:
            raise InputError(f"{config.id}: {error}") from error
        return GymnasiumEnv(Corridor(options.length), EnvFacts(config))


family = ExampleFamily()

# A policy: `constant:action=1`


class ConstantOptions(Options):
    action: int = Field(0, ge=0, description="The action to play.")


class TableController:
    """Plays the action that a table has for the observation."""

    def __init__(self, table: list[int]) -> None:
        self._table = table

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._table[int(seen) % len(self._table)] for agent, seen in turn.observations.items()}

    def close(self) -> None:
        pass


constant = PolicyKind(
    usage="constant[:action=0]",
    help="The same action in every step.",
    make=lambda options, request: TableController([options.action]),
    options=ConstantOptions,
)

# A worker: hill climbing over tables of actions


class ClimbOptions(BaseModel, extra="forbid"):
    max_steps: int = Field(100, ge=1, description="Env steps after which an episode is cut.")


class ClimbWorker:
    """Changes one action at a time and keeps the table where the episode paid at least as much."""

    info = WorkerCapabilities(
        name="climb",
        version="1.0",
        algorithms=("hill_climbing",),
        paradigms=("parameter_sharing",),
        action_kinds=("discrete",),
        observation_kinds=("discrete",),
        max_agents=1,
        checkpoints=True,
        resume=True,
        pause=True,
    )
    loads_pickles = False  # a table is JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return ClimbOptions

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Refuse before a run is created what would fail at its beginning."""
        if len(spec.possible_agents) != 1:
            raise InputError(f"climb trains one agent, and {spec.env_id} has {len(spec.possible_agents)}.")

    def run(self, context: WorkerContext) -> None:
        assert isinstance(context.options, ClimbOptions)
        env = make_env(context.config.environment)
        agent = env.possible_agents[0]
        states, actions = int(env.observation_spaces[agent].n), int(env.action_spaces[agent].n)  # type: ignore[attr-defined]
        table, best, env_steps, episodes = [0] * states, float("-inf"), 0, 0
        if context.resume_from is not None:
            saved = json.loads((context.resume_from.path / "table.json").read_text())
            table, best, env_steps, episodes = saved["table"], saved["best"], saved["env_steps"], saved["episodes"]
        random = Random(child_seed(context.seed, "climb", episodes))

        def save() -> None:
            state = {"table": table, "best": best, "env_steps": env_steps, "episodes": episodes}
            entry = PolicyEntry(files=("table.json",), agents=("*",))

            def write(folder: Path) -> None:
                (folder / "table.json").write_text(json.dumps(state))

            context.checkpoint(write, env_steps=env_steps, policies={"learner": entry}, reward=best, pickles=False)

        while not context.done(env_steps, episodes, best):
            context.inbox.wait_while_paused(save)
            tried = table.copy()
            tried[random.randrange(states)] = random.randrange(actions)
            with context.iteration():
                reward, steps = play(env, agent, tried, context.options.max_steps, child_seed(context.seed, "start"))
            env_steps, episodes = env_steps + steps, episodes + 1
            if reward >= best:
                table, best = tried, reward
            context.report(
                kind="iteration", env_steps=env_steps, agent_steps=env_steps, episodes_total=episodes,
                episode_reward_mean=best, episode_len_mean=steps,
            )  # fmt: skip
            if context.checkpoint_due(env_steps):
                save()
        if episodes and context.config.checkpoint.at_end:
            save()
        env.close()

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        return TableController(json.loads((checkpoint.path / "table.json").read_text())["table"])


def play(env: Env, agent: AgentID, table: list[int], max_steps: int, seed: int) -> tuple[float, int]:
    """Return reward and length of one episode."""
    turn, reward, steps = env.reset(seed), 0.0, 0
    while not turn.over and steps < max_steps:
        turn = env.step({agent: table[turn.observations[agent]]})
        reward, steps = reward + turn.rewards[agent], steps + 1
    return reward, steps


worker = ClimbWorker()

# A sink: `telemetry.mirrors=[text]`


class TextSink:
    """Writes a line per event into `metrics.txt` of the run's folder."""

    def __init__(self, run_folder: Path) -> None:
        self._file = (run_folder / "metrics.txt").open("w", encoding="utf-8")

    def write(self, event: MetricEvent, /) -> None:
        print(event["kind"], event.get("env_steps"), event.get("episode_reward_mean"), file=self._file, flush=True)

    def close(self) -> None:
        self._file.close()
