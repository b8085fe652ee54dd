"""Calls of many clients: batches, order, failures of policies, and what a listener hears."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import UnknownNameError
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.serving import actors
from mosaic.policies.serving.episode import StartedEpisode
from mosaic.policies.serving.messages import CALLS, CallError
from mosaic.policies.serving.service import OpenedPolicy, PolicyService
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.policies.serving.values import ValueReader

SPEC = EnvSpec(
    EnvFacts(), ("agent_0",), {"agent_0": spaces.Box(-9, 9, (1,), np.float32)}, {"agent_0": spaces.Discrete(100)}
)


class Counting:
    """Actor that plays the number of its decisions in the episode; it notes its batches."""

    waits = False

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.batches: list[list[str]] = []
        self.events: list[tuple[str, ...]] = []
        self.hold = threading.Event()
        self.hold.set()

    def begin(self, episode):
        if episode.seed == 13:
            raise ValueError("unlucky")
        self.counts[episode.episode_id] = 0

    def act(self, turns):
        assert self.hold.wait(60)
        self.batches.append([episode_id for episode_id, _ in turns])
        return [self._decide(episode_id, turn) for episode_id, turn in turns]

    def _decide(self, episode_id, turn):
        seen = turn.observations["agent_0"][0]
        if seen < 0:
            return ValueError("no idea")
        if seen == 8:
            return CallError("wrong_value", "observation.agent_0: a number that is not finite.", agent="agent_0")
        self.counts[episode_id] += 1
        return {"agent_0": 100 if seen == 9 else self.counts[episode_id]}

    def forget(self, episode_id, agent):
        self.events.append(("forget", episode_id, agent))

    def end(self, episode_id):
        self.events.append(("end", episode_id))
        del self.counts[episode_id]


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def started(self, episode):
        self.heard.append(("started", episode.episode_id, episode.seed))

    def acted(self, episode_id, turn, actions, by):
        self.heard.append(("acted", episode_id, dict(turn.rewards), dict(actions), by))

    def ended(self, episode_id, turn):
        self.heard.append(("ended", episode_id, dict(turn.rewards), dict(turn.truncated)))

    def lost(self, episode_id, reason):
        self.heard.append(("lost", episode_id, reason))


class Made:
    """A service with a counting actor and a listener."""

    def __init__(self, **settings) -> None:
        self.actor, self.listener = Counting(), Listener()
        self.service = PolicyService(self._open, sink=self.listener, **settings)

    def _open(self, call):
        if call.policy == "nobody":
            raise UnknownNameError("There is no policy named 'nobody'.")
        return OpenedPolicy("counting", ValueReader(SPEC), SPEC.possible_agents, self.actor)

    async def __call__(self, name, client="x", **fields):
        return await self.service.answer(CALLS[name](**fields), client)

    async def many(self, calls, client="x"):
        return await self.service.answer([CALLS[name](**fields) for name, fields in calls], client)


def play(test, **settings):
    async def run():
        made = Made(**settings)
        await test(made)
        await made.service.close()
        return made

    return asyncio.run(run())


def test_an_episode_from_start_to_end_and_what_a_listener_hears():
    async def test(call):
        assert await call("start_episode", episode_id="e", seed=5, id=1) == {
            "episode_id": "e",
            "agents": ["agent_0"],
            "remembers": True,
            "id": 1,
        }
        assert await call("get_action", episode_id="e", observation=[0.5], id="q") == {"action": 1, "id": "q"}
        assert await call("log_returns", episode_id="e", reward=2.0) == {}
        assert await call("log_action", episode_id="e", observation=[0.5], action=7, reward=0.5) == {}
        assert await call("get_action", episode_id="e", observation=[0.5], reward=1.0) == {"action": 2}
        assert await call("end_episode", episode_id="e", observation=[0.0], reward=3, truncated=True) == {}
        again = await call("end_episode", episode_id="e", observation=[0.0])
        assert (again["code"], again["error"]) == (
            "episode_lost",
            "The episode 'e' is over: it has ended. Start another one.",
        )

    made = play(test)
    assert made.listener.heard == [
        ("started", "e", 5),
        ("acted", "e", {"agent_0": 0.0}, {"agent_0": 1}, "policy"),
        ("acted", "e", {"agent_0": 2.5}, {"agent_0": 7}, "client"),
        ("acted", "e", {"agent_0": 1.0}, {"agent_0": 2}, "policy"),
        ("ended", "e", {"agent_0": 3.0}, {"agent_0": True}),
    ]
    assert made.actor.events == [("end", "e")]


def test_an_episode_that_is_not_for_training_is_not_heard():
    async def test(call):
        await call("start_episode", episode_id="e", training_enabled=False)
        await call("get_action", episode_id="e", observation=[0.5])
        await call("end_episode", episode_id="e")

    assert play(test).listener.heard == []


def test_requests_of_several_clients_are_decided_together():
    async def test(call):
        names = [f"e{index}" for index in range(8)]
        await asyncio.gather(*(call("start_episode", episode_id=name) for name in names))
        asked = [call("get_action", client=name, episode_id=name, observation=[0]) for name in names]
        assert await asyncio.gather(*asked) == [{"action": 1}] * 8
        assert max(map(len, call.actor.batches)) == 8

    play(test)


def test_while_a_policy_computes_requests_wait_for_the_next_batch():
    async def test(call):
        for name in "abc":
            await call("start_episode", episode_id=name)
        call.actor.hold.clear()
        first = asyncio.ensure_future(call("get_action", episode_id="a", observation=[0]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(call("get_action", episode_id=name, observation=[0])) for name in "bc"]
        await asyncio.sleep(0)
        busy = await call("get_action", episode_id="b", observation=[0])
        assert (busy["code"], busy["retry"]) == ("episode_busy", "request")
        call.actor.hold.set()
        assert await asyncio.gather(first, *rest) == [{"action": 1}] * 3
        assert call.actor.batches == [["a"], ["b", "c"]]

    play(test)


def test_calls_of_one_message_keep_their_order_within_an_episode():
    async def test(call):
        replies = await call.many(
            [
                ("start_episode", {"episode_id": "a"}),
                ("start_episode", {"episode_id": "b"}),
                ("get_action", {"episode_id": "a", "observation": [0], "id": 1}),
                ("get_action", {"episode_id": "b", "observation": [0]}),
                ("get_action", {"episode_id": "a", "observation": [0], "reward": 1}),
                ("get_action", {"episode_id": "zz", "observation": [0]}),
                ("end_episode", {"episode_id": "a"}),
            ]
        )
        assert [reply.get("action") for reply in replies] == [None, None, 1, 1, 2, None, None]
        assert replies[2]["id"] == 1
        assert replies[5]["code"] == "unknown_episode"
        assert len(call.service.episodes) == 1

    play(test)


@pytest.mark.parametrize(
    ("observation", "text"),
    [([-1], "ValueError: no idea"), ([9], r"it played 100, outside 0..99, for agent 'agent_0'")],
)
def test_a_policy_that_fails_ends_its_own_episode_only_and_plays_nothing_else(observation, text):
    async def test(call):
        for name in "ab":
            await call("start_episode", episode_id=name)
        failed, fine = await call.many(
            [
                ("get_action", {"episode_id": "a", "observation": observation}),
                ("get_action", {"episode_id": "b", "observation": [0]}),
            ]
        )
        assert failed["error"] == f"The policy 'counting' failed for agent 'agent_0': {text}."
        assert (failed["code"], failed["status"], "action" in failed) == ("policy_failed", 502, False)
        assert fine == {"action": 1}
        assert ("lost", "a", "its policy failed") in call.listener.heard

    play(test)


def test_a_call_that_is_refused_changes_nothing():
    async def test(call):
        await call("start_episode", episode_id="e")
        wrong = await call("get_action", episode_id="e", observation=[1, 2], reward=5.0)
        assert (wrong["status"], wrong["agent"], wrong["expected"]) == (422, "agent_0", "Box(1) float32")
        await call("get_action", episode_id="e", observation=[0], reward=1.0)
        assert call.listener.heard[-1][2] == {"agent_0": 1.0}
        missing = await call("log_action", episode_id="e", action=3)
        assert missing["error"] == "action: of agent_0, and observation of no agent."
        unlearnable = await call("get_action", episode_id="e", observation=[8], reward=5.0)
        assert (unlearnable["status"], unlearnable["retry"]) == (422, None)
        assert await call("get_action", episode_id="e", observation=[0], reward=2.0) == {"action": 2}
        assert call.listener.heard[-1][2] == {"agent_0": 2.0}
        assert call.actor.events == []

    play(test)


def test_starts_that_are_refused():
    async def test(call):
        cases = {
            "There is no policy named 'nobody'.": {"policy": "nobody"},
            "This server speaks version 1 of the protocol, not 2.": {"protocol": 2},
            "There is no agent 'x'. Known: agent_0.": {"agents": ["x"]},
            "seed: -1; expected: 0 to 2147483647.": {"seed": -1},
            "The policy 'counting' failed for agent 'agent_0': ValueError: unlucky.": {"seed": 13},
        }
        for text, fields in cases.items():
            reply = await call("start_episode", **fields)
            assert reply["error"] == text
        other = {"agent_0": {"observation": {"space": "Discrete", "n": 2, "start": 0}, "action": {}}}
        reply = await call("start_episode", spaces=other)
        assert reply["error"].startswith("spaces.agent_0.observation: ")
        assert reply["expected"] == "Box(-9, 9, (1,), float32)"
        assert len(call.service.episodes) == 0

    play(test)


def test_a_client_that_is_gone_loses_its_own_episodes_only():
    async def test(call):
        for name in "ab":
            await call("start_episode", client=name, episode_id=name)
        call.actor.hold.clear()
        asked = asyncio.ensure_future(call("get_action", client="a", episode_id="a", observation=[0]))
        await asyncio.sleep(0)
        call.service.drop_client("a", "its connection was closed")
        call.actor.hold.set()
        lost = await asked
        assert lost["error"] == "The episode 'a' is over: its connection was closed."
        assert await call("get_action", client="b", episode_id="b", observation=[0]) == {"action": 1}
        assert call.listener.heard[2] == ("lost", "a", "its connection was closed")

    play(test)


def test_idle_episodes_make_room():
    async def test(call):
        await call("start_episode", episode_id="old")
        assert (await call("start_episode", episode_id="new"))["episode_id"] == "new"
        assert (await call("get_action", episode_id="old", observation=[0]))["code"] == "episode_lost"

    play(test, limits=EpisodeLimits(episodes=1, idle_s=0.0))


class Alone:
    """Controller that cannot act together with others, and may be unable to begin."""

    def __init__(self) -> None:
        self.closed = False

    def begin(self, agents, seed):
        assert not self.closed
        if seed == 13:
            raise ValueError("unlucky")

    def act(self, turn):
        return {"agent_0": 7}

    def close(self):
        self.closed = True


def test_controllers_are_taken_when_an_episode_begins_and_never_used_after_they_were_closed(monkeypatch):
    made = []

    def load(*_, **__):
        made.append(Alone())
        return made[-1]

    monkeypatch.setattr(actors, "load_policy", load)
    served = actors.ServedPolicy("alone", SPEC, SPEC.possible_agents)
    for _ in range(3):
        served.actor()  # of starts that are refused
    assert len(made) == 1
    unlucky, lucky = (StartedEpisode("e", "x", SPEC, SPEC.possible_agents, seed, False) for seed in (13, 0))
    failing = served.actor()
    with pytest.raises(ValueError, match="unlucky"):
        failing.begin(unlucky)
    failing.end("e")
    for _ in range(2):
        actor = served.actor()
        actor.begin(lucky)
        actor.end("e")
    assert [each.closed for each in made] == [True, False]


def test_an_episode_that_waits_for_its_action_is_not_idle():
    """A run that trains may be paused for longer than its programs may be silent."""

    async def test(call):
        now = [0.0]
        call.service.episodes.clock = lambda: now[0]
        await call("start_episode", episode_id="e")
        asked = asyncio.ensure_future(call("get_action", episode_id="e", observation=[0]))
        await asyncio.sleep(0)
        assert call.actor.batches == []
        now[0] = 25.0
        call.service.drop_idle()
        now[0] = 34.0
        assert await asked == {"action": 1}
        now[0] = 43.0  # the program is silent since the reply
        call.service.drop_idle()
        assert await call("get_action", episode_id="e", observation=[0]) == {"action": 2}
        now[0] = 53.0
        call.service.drop_idle()
        assert (await call("get_action", episode_id="e", observation=[0]))["code"] == "episode_lost"

    play(test, limits=EpisodeLimits(idle_s=10.0))


class Together(Alone):
    """Controller that acts together with others of its kind."""

    def sibling(self):
        return Together()

    def act_together(self, pairs):
        return [controller.act(turn) for controller, turn in pairs]


def test_an_episode_that_could_not_begin_does_not_end_those_of_other_clients(monkeypatch):
    monkeypatch.setattr(actors, "load_policy", lambda *_, **__: Together())
    actor = actors.ServedPolicy("together", SPEC, SPEC.possible_agents).actor()
    actor.begin(StartedEpisode("begun", "x", SPEC, SPEC.possible_agents, 0, False))
    failed, played = actor.act([("failed", None), ("begun", None)])
    assert isinstance(failed, KeyError)
    assert played == {"agent_0": 7}
