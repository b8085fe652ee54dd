"""Policy at a policy server, or of any program that carries out the same calls: `http://HOST:PORT[,policy=POLICY]`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from mosaic.core.errors import FormatError, InputError, MosaicError, shown
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.space_json import spec_spaces
from mosaic.envs.space_values import value_to_json
from mosaic.policies.controller import PolicyError, PolicyKind, PolicyRequest, PolicyTimeoutError
from mosaic.policies.serving.messages import PROTOCOL, CallError
from mosaic.policies.serving.values import ValueReader
from mosaic.server.client.address import check_url, find_reference_token, token_variable
from mosaic.server.client.policy_channel import Channel, Fields, PolicyServerTimeoutError

_FAILURES, _PAUSE_S = 3, 10.0


class HttpOptions(Options):
    address: str = Field(description="HOST:PORT of a policy server, with a path where it is below one.")
    policy: str | None = Field(None, description="Policy to play, at a server that plays several (mosaic serve).")
    failures: int = Field(_FAILURES, ge=1, description="Failures in a row after which no attempt is made for a while.")
    pause_s: float = Field(_PAUSE_S, gt=0, allow_inf_nan=False, description="Seconds without an attempt.")


@dataclass(slots=True)
class CircuitBreaker:
    """Gate that stays closed for a while after several failures in a row, so that a dead server costs no waiting."""

    failures: int
    pause_s: float
    clock: Callable[[], float] = monotonic
    _count: int = 0
    _until: float = 0.0
    _last: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise PolicyError while no attempt is made."""
        with self._lock:
            left = self._until - self.clock()
            if left > 0:
                raise PolicyError(
                    f"no attempt is made for another {left:.1f} s after {self._count} failures in a row, the last of "
                    f"which was: {self._last}"
                )

    def succeed(self) -> None:
        with self._lock:
            self._count = 0

    def fail(self, reason: str) -> None:
        with self._lock:
            self._count, self._last = self._count + 1, reason
            if self._count >= self.failures:
                self._until = self.clock() + self.pause_s


_breakers: dict[tuple[str, int, float], CircuitBreaker] = {}  # of this process: envs side by side share them


class HttpPolicyController:
    """Controller that asks a server; an episode here is an episode there, which several agents share."""

    def __init__(self, channel: Channel, breaker: CircuitBreaker, policy: str | None, request: PolicyRequest) -> None:
        self._channel, self._breaker, self._policy, self._request = channel, breaker, policy, request
        self._reader = ValueReader(request.spec)
        self._episode, self._remembers = "", True

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._end()
        spec = self._request.spec
        fields: Fields = {"protocol": PROTOCOL, "env": spec.env_id, "agents": list(agents), "seed": seed}
        fields |= {"spaces": spec_spaces(spec, agents), "policy": self._policy, "training_enabled": False}
        reply = self._call("start_episode", fields)
        episode = reply.get("episode_id")
        if not isinstance(episode, str) or not episode:
            raise self._failure(f"replied to start_episode with {shown(reply)}, where an episode_id belongs")
        self._episode, self._remembers = episode, reply.get("remembers", True) is not False

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        if not self._episode:
            raise self._failure("no longer has this episode; start another one")
        fields: Fields = {"episode_id": self._episode, "observation": self._form(turn.observations)}
        if turn.action_masks:
            fields["action_mask"] = self._form(turn.action_masks)
        own = {agent: float(reward) for agent, reward in turn.rewards.items()}
        if any(own.values()):
            fields["reward"] = self._form(own)
        infos = {agent: found for agent, info in turn.infos.items() if (found := _expressible(info))}
        if infos:
            fields["info"] = self._form(infos)
        reply = self._call("get_action", fields)
        try:
            return self._actions(turn, reply)
        except (FormatError, CallError) as error:
            raise self._failure(f"replied with something that is not an action: {str(error).rstrip('.')}") from error

    def forget(self, agent: AgentID) -> None:
        if self._episode and self._remembers:
            self._call("forget", {"episode_id": self._episode, "agent": agent})

    def close(self) -> None:
        with suppress(MosaicError):  # what the server keeps of the episode expires there
            self._end()
        self._channel.close()

    def _end(self) -> None:
        if self._episode:
            episode, self._episode = self._episode, ""
            self._call("end_episode", {"episode_id": episode})

    def _form(self, values: dict[AgentID, Any] | Any) -> Any:
        return self._reader.form(values)

    def _actions(self, turn: Turn, reply: Any) -> dict[AgentID, Action]:
        given = reply.get("action")
        if self._reader.alone is not None:
            given = {self._reader.alone: given}
        if not isinstance(given, dict) or given.keys() != turn.observations.keys():
            raise FormatError(f"{shown(reply)}, where an action for {', '.join(turn.observations)} belongs")
        return {
            agent: self._reader.action(agent, given[agent], turn.action_masks.get(agent)) for agent in turn.observations
        }

    def _call(self, name: str, fields: Fields) -> Any:
        limit_s = self._request.time_limit_s
        try:
            self._breaker.check()
        except PolicyError as error:
            self._episode = ""
            raise self._failure(str(error)) from None
        try:
            reply = self._channel.call(name, fields, monotonic() + (limit_s or 1e9))
        except MosaicError as error:
            self._episode = ""
            reason = str(error).removeprefix(f"{self._channel.address}: ").rstrip(".")
            self._breaker.fail(reason)
            if isinstance(error, PolicyServerTimeoutError):
                raise self._failure(f"did not reply within {limit_s:g} s", PolicyTimeoutError) from error
            raise self._failure(reason) from error
        if name == "get_action":  # a server that starts episodes and never acts in them has not recovered
            self._breaker.succeed()
        return reply

    def _failure(self, reason: str, kind: type[PolicyError] = PolicyError) -> PolicyError:
        return kind(f"'{self._request.reference}' at {self._channel.address}: {reason}.")


def _expressible(info: Any) -> dict[str, Any]:
    """Return the entries that JSON can express; envs put objects of their own there too."""
    found = {}
    for name, value in info.items():
        with suppress(FormatError):
            found[str(name)] = value_to_json(value)
    return found


def _checked_address(scheme: str, options: HttpOptions, reference: str) -> str:
    address = f"{scheme}:{options.address}"
    parts = urlsplit(address)
    if parts.username is not None or parts.query or parts.fragment or "token" in options.address.lower():
        raise InputError(
            f"'{_without_secret(reference)}': an address has no name, password or token in it, since references are "
            f"stored and shown. Put the token into the variable {token_variable(address)}."
        )
    return check_url(address)


def _without_secret(reference: str) -> str:
    head, _, rest = reference.partition("//")
    return f"{head}//…{rest.rpartition('@')[2].partition('?')[0]}"


def _kind(scheme: str) -> PolicyKind:
    def make(options: HttpOptions, request: PolicyRequest) -> HttpPolicyController:
        address = _checked_address(scheme, options, request.reference)
        key = (address, options.failures, options.pause_s)
        breaker = _breakers.setdefault(key, CircuitBreaker(options.failures, options.pause_s))
        return HttpPolicyController(Channel(address, find_reference_token), breaker, options.policy, request)

    return PolicyKind(
        usage=f"{scheme}://HOST:PORT[/PATH][,policy=POLICY][,failures=K][,pause_s=S]",
        help="A policy server, or any program that carries out the same calls (docs/external.md).",
        make=make,
        options=HttpOptions,
        first="address",
        reproducible=lambda options: False,
    )


http, https = _kind("http"), _kind("https")
