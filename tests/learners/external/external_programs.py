"""Programs with envs of their own, in threads of this process, and the service that they call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from mosaic.config.run import RunConfig
from mosaic.envs.env import EnvSpec
from mosaic.learners.external.port import LearnerPort
from mosaic.policies.serving.messages import (
    CallError,
    EndEpisode,
    GetAction,
    LogAction,
    LogReturns,
    StartEpisode,
)
from mosaic.policies.serving.service import OpenedPolicy, PolicyService
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.policies.serving.values import ValueReader


class RefusedError(Exception):
    """Reply of the service that is an error."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__(reply["error"])
        self.code, self.retry = reply["code"], reply["retry"]


class Service:
    """The protocol's service on an event loop in a thread: `listen` is what a run gets."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready, self._closing, self.over = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.service: PolicyService | None = None

    @contextmanager
    def listen(
        self, learner: LearnerPort, spec: EnvSpec, host: str, port: int, limits: EpisodeLimits
    ) -> Iterator[None]:
        agents = tuple(agent for agent in spec.possible_agents if agent not in learner.people)
        opened = OpenedPolicy("the run", ValueReader(spec), agents, learner, remembers=False)
        self.service = PolicyService(lambda call: opened, sink=learner, limits=limits)
        self._ready.set()
        try:
            yield
        finally:
            self.over = True
            self._closing.set()
            asyncio.run_coroutine_threadsafe(self.service.close(), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def client(self, name: str) -> Client:
        return Client(self, name)

    def ask(self, call: Any, client: str) -> dict[str, Any]:
        self._ready.wait()
        assert self.service is not None
        if self.over:
            raise RefusedError({"error": "the service has ended", "code": "episode_lost", "retry": "episode"})
        while True:
            reply = asyncio.run_coroutine_threadsafe(self.service.answer(call, client), self._loop).result()
            if "error" not in reply:
                return reply
            if reply["retry"] != "request":
                raise RefusedError(reply)
            self._closing.wait(0.01)  # the learner is busy

    def drop(self, client: str) -> None:
        """Lose the connection of a client."""
        assert self.service is not None
        done = threading.Event()

        def drop() -> None:
            self.service.drop_client(client, "its connection ended")
            done.set()

        self._loop.call_soon_threadsafe(drop)
        done.wait()


class Client:
    """One connection, with the calls of `mosaic.PolicyClient`."""

    def __init__(self, service: Service, name: str) -> None:
        self._service, self._name = service, name

    def start_episode(self, **fields: Any) -> str:
        return self._service.ask(StartEpisode(**fields), self._name)["episode_id"]

    def get_action(self, episode_id: str, observation: Any, **fields: Any) -> Any:
        call = GetAction(episode_id=episode_id, observation=observation, **fields)
        return self._service.ask(call, self._name)["action"]

    def log_action(self, episode_id: str, observation: Any, action: Any, **fields: Any) -> None:
        call = LogAction(episode_id=episode_id, observation=observation, action=action, **fields)
        self._service.ask(call, self._name)

    def log_returns(self, episode_id: str, reward: Any, **fields: Any) -> None:
        self._service.ask(LogReturns(episode_id=episode_id, reward=reward, **fields), self._name)

    def end_episode(self, episode_id: str, observation: Any, **fields: Any) -> None:
        self._service.ask(EndEpisode(episode_id=episode_id, observation=observation, **fields), self._name)

    def drop(self) -> None:
        self._service.drop(self._name)


def play_gym(
    client: Client, env: gymnasium.Env[Any, Any], seed: int, choose: Callable[[Any], Any] | None = None
) -> float:
    """Play one episode with the actions of the run, or report those of `choose`; return what it paid."""
    episode, total = client.start_episode(), 0.0
    observation, _ = env.reset(seed=seed)
    while True:
        if choose is None:
            action = client.get_action(episode, observation)
        else:
            action = choose(observation)
            client.log_action(episode, observation, action)
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        client.log_returns(episode, float(reward))
        if terminated or truncated:
            client.end_episode(episode, observation, truncated=not terminated)
            return total


@contextmanager
def playing(service: Service, count: int, loop: Callable[[Client, int, Callable[[], bool]], None]) -> Iterator[None]:
    """Run this many programs, each in a thread, until the block is over."""
    over = threading.Event()

    def run(number: int) -> None:
        try:
            loop(service.client(f"program {number}"), number, over.is_set)
        except (RefusedError, CallError):
            if not over.is_set() and not service.over:
                raise

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def external_config(env: str, algorithm: str = "ppo", **sections: Any) -> RunConfig:
    options = {"env": env, **sections.pop("options", {})}
    environment = {"env_id": "external:5555", "options": options, **sections.pop("environment", {})}
    training = {"worker": "native", "algorithm": algorithm, "total_timesteps": 10_000, **sections.pop("training", {})}
    return RunConfig.model_validate({"environment": environment, "training": training, "seed": 1, **sections})
