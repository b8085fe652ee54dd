"""Policies that clients' episodes use: the one that a server was started for, or any that a request may name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.reference import explain
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import add_code_of, policy_notes, policy_version, trained_environment
from mosaic.policies.serving.actors import ServedPolicy
from mosaic.policies.serving.messages import CallError, StartEpisode
from mosaic.policies.serving.service import OpenedPolicy
from mosaic.policies.serving.values import ValueReader
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.env_trial import check_environment
from mosaic.store.policies.run_policy import fix_run

_MOST_LOADED = 32  # policies; those used least recently are loaded again when they are needed
_LOOK_S = 1.0  # a server of one policy looks this often whether its reference means another one


class ServedSource(Protocol):
    """Source of policies of a server, with what it plays where that is one policy in one env."""

    @property
    def policy(self) -> PolicyID | None: ...

    @property
    def spec(self) -> EnvSpec | None: ...

    def __call__(self, call: StartEpisode) -> OpenedPolicy: ...

    def close(self) -> None: ...


class ServedEnv(NamedTuple):
    """Env that clients own; only its spaces are needed here."""

    config: EnvironmentConfig
    reader: ValueReader

    @classmethod
    def of(cls, config: EnvironmentConfig) -> ServedEnv:
        with closing(make_env(config)) as env:
            spec = env.spec
        if not spec.possible_agents:
            raise InputError(f"{spec.env_id} does not name its agents ahead, so their spaces are not known here.")
        return cls(config, ValueReader(spec))


def find_environment(policy: PolicyID, env: EnvironmentConfig | None) -> EnvironmentConfig:
    """Return the given env, else the one that the policy was trained in."""
    found = trained_environment(policy) if env is None else env
    if found is None:
        raise InputError(f"'{policy}' was not trained in an env of its own. Name the env that it acts in: --env ENV")
    return found


class OnePolicy:
    """Source of a server that was started for one policy in one env; of a run it plays the current checkpoint."""

    def __init__(
        self,
        policy: PolicyID,
        env: EnvironmentConfig | None,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
        look_s: float = _LOOK_S,
    ) -> None:
        add_code_of(PolicyMapping((("*", policy),)))
        self.policy, self._played = policy, fix_run(policy)  # a run that is started later does not take its place
        self.env = ServedEnv.of(find_environment(self._played, env))
        self.notes = policy_notes(policy, self.env.reader.spec)
        self._loaded = _Loaded(lambda: None, time_limit_s, look_s)
        served = self._loaded.get(self.env, self._played, self.spec.possible_agents)  # fails now, not with a client
        served.warm_up()

    @property
    def spec(self) -> EnvSpec:
        return self.env.reader.spec

    def __call__(self, call: StartEpisode) -> OpenedPolicy:
        if call.policy not in (None, self.policy):
            raise CallError("refused", f"This server plays '{self.policy}' only, not '{call.policy}'.", status=404)
        if call.env not in (None, self.spec.env_id) and call.spaces is None:
            raise CallError(
                "wrong_value",
                f"env: '{call.env}', but this policy plays in {self.spec.env_id}. Where another env has the same "
                "spaces, send them as 'spaces'.",
                sent=call.env,
                expected=self.spec.env_id,
            )
        return self._loaded.open(self.env, self._played, call)

    def close(self) -> None:
        self._loaded.close()


class NamedPolicies:
    """Source of a server at which every episode names its policy, and its env unless the policy was trained in one."""

    policy = spec = None

    def __init__(self, programs: ProgramRule) -> None:
        self._programs, self._envs = programs, dict[str, ServedEnv]()
        self._loaded = _Loaded(self._envs.clear, DEFAULT_TIME_LIMIT_S)

    def __call__(self, call: StartEpisode) -> OpenedPolicy:
        if call.policy is None:
            raise CallError(
                "wrong_value",
                'policy: it is missing. This server plays many: {"policy": "run:latest"}, and "env" where the policy '
                "was not trained in one.",
                sent="nothing",
                expected="a policy",
            )
        self._programs.check_policy(call.policy)  # before it is even looked up
        config = find_environment(call.policy, None if call.env is None else _environment(call.env))
        self._programs.check_match(config, {"policy": call.policy})
        check_environment(config)
        key = config.model_dump_json()
        env = self._envs.get(key)  # another thread may clear them at any time
        if env is None:
            env = self._envs[key] = ServedEnv.of(config)
        return self._loaded.open(env, call.policy, call)

    def close(self) -> None:
        self._loaded.close()


class _Loaded:
    """Loaded policies, shared by all episodes that ask for the same one in the same env.

    An episode plays what its reference means when it begins: `run:latest` is followed from checkpoint to checkpoint.
    """

    def __init__(self, overflow: Callable[[], None], time_limit_s: float | None, look_s: float = 0.0) -> None:
        self._overflow, self._time_limit_s, self._look_s = overflow, time_limit_s, look_s
        self._lock = threading.Lock()
        self._policies: dict[tuple[str, PolicyID, tuple[AgentID, ...]], tuple[str, ServedPolicy]] = {}
        self._seen: dict[PolicyID, tuple[float, str]] = {}  # when a reference was looked up, and its version

    def open(self, env: ServedEnv, policy: PolicyID, call: StartEpisode) -> OpenedPolicy:
        possible = env.reader.spec.possible_agents
        agents = possible if call.agents is None else tuple(dict.fromkeys(call.agents))
        if not agents:
            raise CallError("wrong_value", "agents: the policy needs an agent to act for.", sent="[]")
        for agent in agents:
            env.reader.check_agent(agent)
        served = self.get(env, policy, agents)
        return OpenedPolicy(policy, env.reader, agents, served.actor(), served.remembers)

    def get(self, env: ServedEnv, policy: PolicyID, agents: tuple[AgentID, ...]) -> ServedPolicy:
        key = (env.config.model_dump_json(), policy, agents)
        with self._lock:  # one client's load is every client's
            version = self._version(policy)
            known, served = self._policies.pop(key, (version, None))
            if served is not None and known != version:
                served.close()  # episodes that still use it keep their actor; it is closed with the last of them
                served = None
            if served is None:
                served = ServedPolicy(policy, env.reader.spec, agents, time_limit_s=self._time_limit_s)
            self._policies[key] = version, served
            if len(self._policies) > _MOST_LOADED:
                self._policies.pop(next(iter(self._policies)))[1].close()
                self._seen.clear()
                self._overflow()
        return served

    def _version(self, policy: PolicyID) -> str:
        looked, version = self._seen.get(policy, (-self._look_s, ""))
        now = monotonic()
        if now - looked >= self._look_s:
            version = policy_version(policy)
            self._seen[policy] = now, version
        return version

    def close(self) -> None:
        with self._lock:
            while self._policies:
                self._policies.popitem()[1][1].close()


def _environment(env: str) -> EnvironmentConfig:
    try:
        return EnvironmentConfig(env_id=env)
    except ValidationError as error:
        raise InputError(f"env: {explain(error, EnvironmentConfig)}") from error
