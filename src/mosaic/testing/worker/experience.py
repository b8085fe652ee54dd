"""Checks of experience that the worker does not make itself: recorded steps, experts, and envs of other programs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID
from mosaic.envs.catalog import make_env
from mosaic.evaluation.evaluate import evaluate
from mosaic.server.client.policy_client import PolicyClient
from mosaic.store.demos.recording import record_demo
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.rehearsal import ContractProof, WorkerContractError
from mosaic.workers.api import MakesPolicies

_EPISODES, _STEPS = 6, 512
_USUAL = ("gym/CartPole-v1", "gym/Pendulum-v1")  # for an algorithm that does not fit the env of the check
_PROMISE = "an algorithm that learns from recorded steps or from an expert trains, and its policy plays"


def check_datasets(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Check each algorithm that has the option `dataset` or `expert`: it trains in an env that it accepts."""
    proofs = []
    for algorithm in setup.info.algorithms:
        options = setup.worker.options(algorithm).model_fields
        if "expert" in options:
            proofs.append(_check_algorithm(setup, short, algorithm, "expert"))
        elif "dataset" in options:
            proofs.append(_check_algorithm(setup, short, algorithm, "dataset"))
    return proofs


def _check_algorithm(setup: ContractSetup, short: RunConfig, algorithm: str, option: str) -> ContractProof:
    capability, refusals = f"{option} of {algorithm}", []
    for environment in (short.environment, *(EnvironmentConfig(env_id=name) for name in _USUAL)):
        value = "random" if option == "expert" else _record(setup, environment)
        training = {"algorithm": algorithm, "total_timesteps": _STEPS, "params": {option: value}, "policies": {}}
        training |= {"episodes": None, "stop_reward": None}
        config = RunConfig.model_validate(
            {
                "seed": short.seed,
                "environment": environment,
                "training": {**training, "worker": setup.info.name},
                "checkpoint": {"at_end": True} if setup.info.checkpoints else {},
            }
        )
        try:
            rehearsal = setup.rehearse(config)
        except InputError as error:
            refusals.append(f"{environment.id}: {error}")
            continue
        with rehearsal:
            story = rehearsal.finish(capability)
            if setup.info.checkpoints and isinstance(setup.worker, MakesPolicies):
                evaluate(environment, {"*": f"run:{rehearsal.run.id}"}, episodes=1, max_steps=20)
        return ContractProof(capability, f"learned from {value} in {environment.id}, {len(story)} events")
    raise WorkerContractError(
        setup.info.name,
        capability,
        f"it is refused everywhere: {'; '.join(refusals)}",
        _PROMISE,
        "accept one of these envs, or leave the option out of the algorithm's model",
    )


def _record(setup: ContractSetup, environment: EnvironmentConfig) -> str:
    """Record what random play does in the env, once, and return the reference."""
    name = f"contract-{environment.family}-{environment.env_id}".replace("/", "-").replace(":", "-").replace(".", "-")
    if not (setup.home / "demos" / name).exists():
        evaluate(environment, {"*": "random"}, episodes=_EPISODES, max_steps=60, recorder=record_demo(name, setup.home))
    with closing(make_env(environment)) as env:
        agents = env.possible_agents
    return f"demo:{name}/{agents[0]}" if len(agents) == 1 else f"demo:{name}"


def check_external(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Check that a worker that declares `external_envs` is trained by a program that connects."""
    if not setup.info.external_envs:
        return []
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = EnvironmentConfig(env_id=f"external:{port}", options={"env": short.environment.id})
    training = short.training.model_copy(update={"total_timesteps": _STEPS, "episodes": None, "stop_reward": None})
    config = RunConfig(seed=short.seed, environment=environment, training=training)
    with _program(short.environment, f"http://127.0.0.1:{port}", setup.patience_s), setup.rehearse(config) as rehearsal:
        rehearsal.finish("external_envs")
        steps = rehearsal.last_steps()
    if steps < _STEPS:
        raise rehearsal.broken(
            "external_envs",
            f"it finished after {steps} of {_STEPS} env steps",
            "a run in an external env counts and learns from what its programs do",
            "wait for programs until the limit of the run is reached",
        )
    return [ContractProof("external_envs", f"a program on port {port} made {steps} env steps")]


@contextmanager
def _program(environment: EnvironmentConfig, address: str, wait_s: float) -> Iterator[None]:
    """Play the env with the actions of a run in a thread, until the run or the block is over."""
    over = threading.Event()

    def play() -> None:
        with closing(make_env(environment)) as env, PolicyClient(address, wait_s=wait_s) as client:
            agents, seed = env.possible_agents, 0
            single = agents[0] if len(agents) == 1 else None

            def form(by_agent: Mapping[AgentID, Any]) -> Any:
                return dict(by_agent) if single is None else by_agent.get(single)

            while not over.is_set():
                episode, turn, seed = client.start_episode(), env.reset(seed), seed + 1
                while not turn.over:
                    given = {"action_mask": form(turn.action_masks), "reward": form(turn.rewards)}
                    action = client.get_action(episode, form(turn.observations), **given)
                    turn = env.step(action if single is None else {single: action})
                cut = not all(turn.terminated.values())
                client.end_episode(episode, form(turn.final_observations), reward=form(turn.rewards), truncated=cut)

    def run() -> None:
        try:
            play()
        except MosaicError:  # the run has ended; whether it learned is looked at elsewhere
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(wait_s)
