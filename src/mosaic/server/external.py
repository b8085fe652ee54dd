"""Listener of a training run for envs of other programs: the routes of the policy server on the run's own port."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import uvicorn

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID
from mosaic.envs.env import EnvSpec
from mosaic.envs.families.external import spec_of
from mosaic.envs.space_json import space_differences, spec_spaces
from mosaic.learners.external.port import LearnerPort
from mosaic.policies.serving.messages import CallError, StartEpisode
from mosaic.policies.serving.service import OpenedPolicy
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.policies.serving.values import ValueReader
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import ensure_token
from mosaic.server.policy_server import create_policy_app
from mosaic.server.serve import ListenAddress, server_config
from mosaic.server.serve import listen as open_socket
from mosaic.store.store import Store

_LEARNER = "the policy that learns"


class LearningPolicy:
    """Source of a run's listener: the policies that learn act for all agents of its env."""

    policy = _LEARNER

    def __init__(self, spec: EnvSpec, learner: LearnerPort) -> None:
        self.spec, self._reader, self._learner = spec, ValueReader(spec), learner

    def __call__(self, call: StartEpisode) -> OpenedPolicy:
        if call.policy is not None:
            raise CallError("refused", f"This port is of a run that trains; it does not play '{call.policy}'.")
        if call.spaces is not None:
            self._compare(call.spaces)
        agents = tuple(agent for agent in self.spec.possible_agents if agent not in self._learner.people)
        return OpenedPolicy(self.policy, self._reader, agents, self._learner, remembers=False)

    def _compare(self, spaces: Mapping[AgentID, Mapping[str, Any]]) -> None:
        """Raise CallError where a program's env differs from the one that the run began with."""
        own = spec_spaces(self.spec)
        if spaces.keys() != own.keys():
            raise CallError(
                "wrong_value",
                f"spaces: of {', '.join(spaces) or 'no agent'}; the run trains {', '.join(own)}.",
                sent=", ".join(spaces),
                expected=", ".join(own),
            )
        for agent, both in spec_spaces(_described(spaces)).items():
            for which, expected in own[agent].items():
                found = space_differences(both[which], expected, f"the {which} of '{agent}'")  # type: ignore[arg-type]
                if found:
                    raise CallError("wrong_value", f"spaces: {'; '.join(found)}.", agent=agent)

    def close(self) -> None:
        """Do nothing: the run owns the learner."""


class FirstProgram:
    """Source of a port at which no run listens yet: it learns the spaces from the first program, and plays nothing."""

    policy = _LEARNER
    spec: EnvSpec | None = None

    def __init__(self) -> None:
        self.spaces: dict[AgentID, Any] = {}
        self.came = threading.Event()

    def __call__(self, call: StartEpisode) -> OpenedPolicy:
        if call.spaces is None:
            raise CallError(
                "wrong_value",
                "spaces: they are missing. The run that listens here does not know what agents observe and do: send "
                "their spaces with start_episode, or name an env: --set environment.options.env=ENV",
                sent="nothing",
                expected='{"agent_0": {"observation": …, "action": …}}',
            )
        self.spaces = dict(spec_spaces(_described(call.spaces)))
        self.came.set()
        raise CallError("episode_busy", "The run begins: it now knows the spaces. Start the episode again in a moment.")

    def close(self) -> None:
        """Do nothing: nothing was opened."""


def _described(spaces: Mapping[AgentID, Mapping[str, Any]]) -> EnvSpec:
    try:
        return spec_of(spaces, EnvironmentConfig(env_id="external:1"))
    except MosaicError as error:
        raise CallError("wrong_value", f"spaces: {error}") from error


def _is_worth_reading(record: logging.LogRecord) -> bool:
    """Return false for connections that were refused: programs first try without a token, and before a run listens."""
    return "without completing handshake" not in record.getMessage()


@contextmanager
def _serving(
    source: LearningPolicy | FirstProgram, host: str, port: int, limits: EpisodeLimits, sink: LearnerPort | None
) -> Iterator[None]:
    """Serve on a port in a thread of its own."""
    try:
        listener = open_socket(ListenAddress(host, port, allow_public=True))
    except InputError as error:
        raise InputError(
            f"external:{port}: this port cannot be listened on ({error.__cause__ or error}). Perhaps another run does. "
            f"Type another: mosaic train external:{port + 1}"
        ) from error
    with listener:
        hosts = allowed_hosts(host)
        app = create_policy_app(source, ensure_token(Store().home), hosts, sink=sink, limits=limits)
        server = uvicorn.Server(server_config(app))
        logging.getLogger("uvicorn.error").addFilter(_is_worth_reading)
        thread = threading.Thread(target=server.run, args=([listener],), name="external", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()


def listen(
    learner: LearnerPort, spec: EnvSpec, host: str, port: int, limits: EpisodeLimits
) -> AbstractContextManager[None]:
    """Serve the programs of a run until the context ends."""
    return _serving(LearningPolicy(spec, learner), host, port, limits, learner)


def ask_spaces(host: str, port: int) -> dict[AgentID, Any]:
    """Wait for a program that says what its agents observe and do; it is asked to retry when the run listens."""
    first = FirstProgram()
    with _serving(first, host, port, EpisodeLimits(), None):
        while not first.came.wait(1.0):  # Ctrl-C is noticed in between
            pass
    return first.spaces
