"""Changes of demonstrations: episodes dropped, filtered by return, or trimmed; all or nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID
from mosaic.runners.trajectories import Trajectory
from mosaic.store.demos.demonstration import DemoEpisode, Demonstration, Demonstrations


def drop_last(store: Demonstrations, name: str, count: int = 1) -> int:
    """Drop the last episodes; return how many remain."""

    def change(demo: Demonstration) -> Iterator[DemoEpisode]:
        remaining = demo.count() - count
        if remaining <= 0:
            raise _nothing_left(demo, f"Its {demo.count()} episodes would all be dropped")
        return islice(demo.episodes(), remaining)

    return store.rewrite(name, change).count()


def drop(store: Demonstrations, name: str, numbers: Collection[int]) -> int:
    """Drop the episodes with these numbers; return how many remain."""

    def change(demo: Demonstration) -> Iterator[DemoEpisode]:
        known = range(demo.count())
        for number in numbers:
            _check_number(demo, number)
        if not set(known) - set(numbers):
            raise _nothing_left(demo, f"Its {len(known)} episodes would all be dropped")
        return (episode for number, episode in enumerate(demo.episodes()) if number not in numbers)

    return store.rewrite(name, change).count()


def filter_by_return(
    store: Demonstrations, name: str, agent: AgentID | None, least: float | None, most: float | None
) -> int:
    """Keep the episodes in which the agent's return is at least `least` and at most `most`; return how many remain."""

    def change(demo: Demonstration) -> Iterator[DemoEpisode]:
        chosen = _agent(demo, agent)
        kept = {
            outline.episode
            for outline in demo.datasets()[chosen].outlines()
            if (least is None or outline.total >= least) and (most is None or outline.total <= most)
        }
        if not kept:
            raise _nothing_left(demo, f"No episode has such a return of '{chosen}'")
        return (episode for number, episode in enumerate(demo.episodes()) if number in kept)

    if least is None and most is None:
        raise InputError("Name the least or the most return of the episodes to keep: --min-return R, --max-return R.")
    return store.rewrite(name, change).count()


def trim(store: Demonstrations, name: str, number: int | None, first: int, last: int | None) -> int:
    """Keep env steps `first` to `last` - 1 of an episode (default: the last one); return its number of agent steps."""

    def change(demo: Demonstration) -> Iterator[DemoEpisode]:
        chosen = demo.count() - 1 if number is None else number
        _check_number(demo, chosen)
        for index, episode in enumerate(demo.episodes()):
            if index != chosen:
                yield episode
                continue
            parts = [part for each in episode.trajectories if (part := _between(each, first, last)) is not None]
            if not parts:
                raise InputError(f"Episode {chosen} of '{name}' has no step between {first} and {last or 'its end'}.")
            yield replace(episode, trajectories=tuple(parts))
            left.append(sum(map(len, parts)))

    left: list[int] = []
    if first < 0 or (last is not None and last <= first):
        raise InputError(f"Steps {first} to {last} are none: the second must be larger.")
    store.rewrite(name, change)
    return left[0]


def _between(whole: Trajectory, first: int, last: int | None) -> Trajectory | None:
    start = int(np.searchsorted(whole.env_steps, first))
    stop = len(whole) if last is None else int(np.searchsorted(whole.env_steps, last))
    return whole.part(start, stop) if stop > start else None


def _agent(demo: Demonstration, agent: AgentID | None) -> AgentID:
    agents = demo.about.agents
    if agent is None and len(agents) != 1:
        raise InputError(f"'{demo.name}' has the agents {', '.join(agents)}: whose return counts? Type: --agent AGENT")
    if agent is not None and agent not in agents:
        raise unknown(f"agent in the demonstration '{demo.name}'", agent, agents)
    return agents[0] if agent is None else agent


def _check_number(demo: Demonstration, number: int) -> None:
    if not 0 <= number < demo.count():
        raise InputError(f"'{demo.name}' has no episode {number}; it has 0 to {demo.count() - 1}.")


def _nothing_left(demo: Demonstration, why: str) -> InputError:
    return InputError(f"{why}; nothing was changed. To delete it, type: mosaic demos delete {demo.name}")
