"""Client of a policy server, for programs that own their environment; names and meaning as in RLlib's `PolicyClient`.

with mosaic.PolicyClient("http://127.0.0.1:8643") as client:
    episode = client.start_episode()
    action = client.get_action(episode, observation)
    client.log_returns(episode, reward)
    client.end_episode(episode, observation)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID, EnvID, PolicyID
from mosaic.policies.serving.messages import CallError, EpisodeID
from mosaic.server.client.address import UnreachableError, find_token
from mosaic.server.client.policy_channel import Channel, Fields, Transport, call_document, checked

if TYPE_CHECKING:
    from gymnasium.spaces import Space

TIMEOUT_S = 60.0
ONLY_AGENT = "agent_0"  # of an env with one agent
_PAUSE_S = 0.05  # before a call is repeated
Spaces: TypeAlias = "Space[Any] | Mapping[AgentID, Space[Any]]"


class PolicyClient:
    """Client that asks a server's policy for actions and reports what happens in its own env.

    Calls of several threads are carried out one after another; give each its own client where speed matters.
    """

    def __init__(
        self,
        address: str,
        inference_mode: Literal["remote"] = "remote",
        *,
        token: str | None = None,
        transport: Transport = "websocket",
        timeout_s: float = TIMEOUT_S,
        observation_space: Spaces | None = None,
        action_space: Spaces | None = None,
        wait_s: float = 0.0,
    ) -> None:
        """Name the server, http://HOST:PORT; its token is $MOSAIC_TOKEN_HOST or $MOSAIC_TOKEN or, on this
        machine, that of the store.

        The spaces of the env (with several agents, dicts by agent) are compared with the server's; a run that trains
        learns them from its first client. `start_episode` waits up to `wait_s` for a server that is not there yet, and
        other calls for a learner that is busy.
        """
        if inference_mode != "remote":
            raise InputError(
                "Policies act at the server: inference_mode='remote'. To act here, use mosaic.load_policy."
            )
        self._channel = Channel(
            address, find_token, token=None if token is None else find_token(address, token), transport=transport
        )
        self.address, self.timeout_s, self.wait_s = self._channel.address, timeout_s, wait_s
        self._spaces = _documents(observation_space, action_space)

    def describe(self) -> Mapping[str, Any]:
        """Return what the server plays: policy, env, agents and their spaces."""
        return self._channel.describe(monotonic() + self.timeout_s) or {}

    def start_episode(
        self,
        episode_id: EpisodeID | None = None,
        training_enabled: bool = True,
        *,
        env: EnvID | None = None,
        policy: PolicyID | None = None,
        agents: Sequence[AgentID] | None = None,
        seed: int | None = None,
    ) -> EpisodeID:
        """Begin an episode and return its id; `env` and `policy` are for servers that play several."""
        asked: Fields = {"episode_id": episode_id, "env": env, "policy": policy, "seed": seed, "spaces": self._spaces}
        asked["agents"] = None if agents is None else list(agents)
        found: EpisodeID = self._call("start_episode", {**asked, "training_enabled": training_enabled})["episode_id"]
        return found

    def get_action(
        self,
        episode_id: EpisodeID | Sequence[EpisodeID],
        observation: Any,
        *,
        action_mask: Any = None,
        reward: Any = None,
        info: Any = None,
    ) -> Any:
        """Return the action for an observation; with several agents, a dict by agent for a dict by agent.

        With a list of episodes everything is a dict by episode, and all are decided in one request.
        """
        given = {"observation": observation, "action_mask": action_mask, "reward": reward, "info": info}
        if isinstance(episode_id, str):
            return self._call("get_action", {"episode_id": episode_id, **given})["action"]
        calls = [
            {"episode_id": each, **{name: _part(value, each) for name, value in given.items()}} for each in episode_id
        ]
        replies = self.call_many([("get_action", fields) for fields in calls])
        return {each: reply["action"] for each, reply in zip(episode_id, replies, strict=True)}

    def log_action(
        self,
        episode_id: EpisodeID,
        observation: Any,
        action: Any,
        *,
        action_mask: Any = None,
        reward: Any = None,
        info: Any = None,
    ) -> None:
        """Report an action that was not the policy's: a person's, or another program's."""
        given = {"observation": observation, "action": action, "action_mask": action_mask}
        self._call("log_action", {"episode_id": episode_id, **given, "reward": reward, "info": info})

    def log_returns(
        self,
        episode_id: EpisodeID,
        reward: Any,
        info: Any = None,
        multiagent_done_dict: Mapping[AgentID, bool] | None = None,
        *,
        truncated: Mapping[AgentID, bool] | None = None,
        observation: Any = None,
    ) -> None:
        """Report rewards since the last action, and agents that have ended with their last observations.

        Agents in `multiagent_done_dict` have terminated, those in `truncated` were cut off; `__all__` is every agent
        that is still in the episode, which `end_episode` ends.
        """
        ended = {"terminated": dict(multiagent_done_dict or {}), "truncated": dict(truncated or {})}
        given = {"reward": reward, "info": info, "observation": observation}
        self._call("log_returns", {"episode_id": episode_id, **given, **ended})

    def end_episode(
        self, episode_id: EpisodeID, observation: Any = None, *, truncated: bool = False, reward: Any = None
    ) -> None:
        """End an episode with its last observation; `truncated` if it was cut off."""
        given = {"observation": observation, "truncated": truncated, "reward": reward}
        self._call("end_episode", {"episode_id": episode_id, **given})

    def call_many(self, calls: Sequence[tuple[str, Fields]]) -> list[Mapping[str, Any]]:
        """Send several calls in one request, in this order; raise the first error among their replies."""
        documents = [call_document(name, fields) for name, fields in calls]
        found = self._channel.send(documents, monotonic() + self.timeout_s)
        replies = [checked(reply, self.address) for reply in (found if isinstance(found, list) else [found])]
        if len(replies) != len(documents):
            raise FormatError(f"{self.address} replied to {len(replies)} of {len(documents)} calls.")
        return replies

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, name: str, fields: Fields) -> Mapping[str, Any]:
        give_up = monotonic() + self.wait_s
        while True:
            try:
                return self._channel.call(name, fields, monotonic() + self.timeout_s)
            except (CallError, UnreachableError) as error:
                again = name == "start_episode" if not isinstance(error, CallError) else _may_repeat(name, error)
                if not again or monotonic() >= give_up:
                    raise
                sleep(_PAUSE_S)


def _may_repeat(name: str, error: CallError) -> bool:
    return error.retry == "request" or (name == "start_episode" and error.retry == "episode")


def _documents(observed: Spaces | None, acting: Spaces | None) -> Fields | None:
    """Return the spaces of each agent as the protocol describes them."""
    if observed is None and acting is None:
        return None
    if observed is None or acting is None:
        raise InputError("Give both observation_space and action_space, or neither.")
    seen = observed if isinstance(observed, Mapping) else {ONLY_AGENT: observed}
    done = acting if isinstance(acting, Mapping) else {ONLY_AGENT: acting}
    if seen.keys() != done.keys():
        raise InputError(f"observation_space is of {', '.join(seen)}, and action_space of {', '.join(done)}.")
    from mosaic.envs.space_json import space_to_json

    return {agent: {"observation": space_to_json(seen[agent]), "action": space_to_json(done[agent])} for agent in seen}


def _part(value: Any, episode_id: EpisodeID) -> Any:
    return None if value is None else value.get(episode_id)
