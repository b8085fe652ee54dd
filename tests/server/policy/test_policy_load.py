"""Many episodes at the same time, from several processes: none is mixed up with another, none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from mosaic.core.turn import Action, Turn
from mosaic.policies.serving.episode import ActedBy, StartedEpisode
from tests.server.policy.policy_kit import TOKEN, serving

PROCESSES, EPISODES, STEPS = 8, 25, 20
CLIENT = f"""
import json, os, random, sys
import mosaic

number = int(sys.argv[2])
draw = random.Random(number)
with mosaic.PolicyClient(sys.argv[1], transport=("websocket", "http")[number % 2]) as client:
    sums = {{client.start_episode(f"{{number}}-{{each}}"): 0 for each in range({EPISODES})}}
    left = [episode for episode in sums for _ in range({STEPS})]
    draw.shuffle(left)
    while left:
        many = draw.random() < 0.3
        chosen = list(dict.fromkeys(left.pop() for _ in range(min(len(left), 8 if many else 1))))
        seen = {{episode: draw.randrange(500) for episode in chosen}}
        for episode in chosen:
            sums[episode] += seen[episode]
        one = chosen[0]
        actions = client.get_action(chosen, seen) if many else {{one: client.get_action(one, seen[one])}}
        wrong = {{each: actions[each] for each in chosen if actions[each] != sums[each] % 6}}
        assert not wrong, wrong
    for episode in sums:
        client.end_episode(episode, 0, reward=float(sums[episode]))
print(json.dumps(sums))
"""


class Adding:
    """Policy with memory: plays the sum of all that it saw in the episode."""

    def __init__(self, spec: Any, agent: str, seed: int) -> None:
        self.sum = 0

    def begin(self, agents: tuple[str, ...], seed: int) -> None:
        self.sum = 0

    def act(self, turn: Turn) -> dict[str, int]:
        ((agent, seen),) = turn.observations.items()
        self.sum += seen
        return {agent: self.sum % 6}

    def close(self) -> None:
        pass


class Totals:
    """Listener that adds up what was seen, and notes what it is told at the end."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.told: dict[str, float] = {}
        self.lost_episodes: list[str] = []

    def started(self, episode: StartedEpisode) -> None:
        self.seen[episode.episode_id] = 0

    def acted(self, episode_id: str, turn: Turn, actions: Mapping[str, Action], by: ActedBy) -> None:
        self.seen[episode_id] += turn.observations["agent_0"]

    def ended(self, episode_id: str, turn: Turn) -> None:
        self.told[episode_id] = turn.rewards["agent_0"]

    def lost(self, episode_id: str, reason: str) -> None:
        self.lost_episodes.append(f"{episode_id}: {reason}")


@pytest.mark.slow
def test_200_concurrent_episodes_from_8_processes(monkeypatch):
    monkeypatch.setenv("MOSAIC_TOKEN", TOKEN)
    totals = Totals()
    with serving(f"python:{__name__}:Adding", "gym/Taxi-v3", sink=totals) as server:
        clients = [
            subprocess.Popen([sys.executable, "-c", CLIENT, server.url, str(number)], stdout=subprocess.PIPE, text=True)
            for number in range(PROCESSES)
        ]
        said = [client.communicate(timeout=300)[0] for client in clients]
    assert [client.returncode for client in clients] == [0] * PROCESSES
    sums = {episode: total for text in said for episode, total in json.loads(text).items()}
    assert len(sums) == PROCESSES * EPISODES
    assert totals.seen == sums
    assert totals.told == sums
    assert totals.lost_episodes == []
