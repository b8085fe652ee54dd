"""Check of an env against the contract of Env."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.turn import digest
from mosaic.envs.contract.report import CheckPosition, ContractError, EnvReport, EpisodeTotals
from mosaic.envs.contract.session import CheckedEnv, CheckWatcher
from mosaic.envs.env import Env, EnvSpec

_NAMES = (
    "spec", "possible_agents", "agents", "observation_spaces", "action_spaces", "reset", "step", "render", "close",
)  # fmt: skip
_ELSE = "; an Env of Mosaic's own protocol that cannot do so sets reproducible=False in EnvFacts"


def check_face(env: Any) -> Env:
    """Return the same object if it has the attributes of an Env."""
    missing = [name for name in _NAMES if not hasattr(env, name)]
    spec = getattr(env, "spec", None)
    if missing or not isinstance(spec, EnvSpec):
        raise ContractError(
            CheckPosition(type(env).__name__),
            f"it lacks {', '.join(missing)}" if missing else f"its spec is a {type(spec).__name__}",
            f"an Env has {', '.join(_NAMES)}, and spec is an EnvSpec",
            "mosaic.make_env turns a Gymnasium or PettingZoo env into an Env; your own implements mosaic.plugins.Env",
        )
    place = CheckPosition(spec.env_id)
    agents = env.possible_agents
    if not isinstance(agents, tuple) or not all(isinstance(a, str) for a in agents) or len({*agents}) < len(agents):
        raise ContractError(
            place,
            f"possible_agents is {agents!r}",
            "possible_agents is a tuple of different names, each a str",
            "use names such as 'player_0'; () means that agents are not known in advance",
        )
    _check_spec_spaces(place, "observation_spaces", env.observation_spaces, agents)
    _check_spec_spaces(place, "action_spaces", env.action_spaces, agents)
    parts = (spec.possible_agents, spec.observation_spaces, spec.action_spaces)
    if parts != (agents, env.observation_spaces, env.action_spaces):
        raise ContractError(
            place,
            "spec differs from possible_agents, observation_spaces or action_spaces",
            "spec agrees with the env's own attributes",
            "build spec from those attributes",
        )
    checked: Env = env
    return checked


def _check_spec_spaces(place: CheckPosition, name: str, found: object, agents: tuple[str, ...]) -> None:
    for agent in agents:
        space = found.get(agent) if isinstance(found, Mapping) else None
        if not isinstance(space, Space):
            raise ContractError(
                place,
                f"{name} holds {type(space).__name__} for it",
                f"{name} maps every possible agent to a gymnasium.spaces.Space",
                f"fill {name} when the env is made",
                agent,
            )


FEW = 5  # steps where a few are as informative as many


@dataclass(frozen=True, slots=True)
class CheckedEpisode:
    seed: int
    digests: Sequence[int]  # of every Turn, the first one included
    continued: Sequence[int]  # of the episode that followed with reset(None)
    tally: EpisodeTotals


def record(watched: CheckedEnv, seed: int, steps: int) -> CheckedEpisode:
    """Play an episode and the beginning of the next."""
    digests, tally = [], EpisodeTotals(watched.env)
    for turn in watched.episode(seed, steps):
        digests.append(digest(turn))
        tally.add(turn)
    if tally.over:
        watched.refuse_after_end()
    continued = [digest(turn) for turn in watched.episode(None, FEW, draw=seed)]
    return CheckedEpisode(seed, digests, continued, tally)


def check_same(recorded: CheckedEpisode, digests: Sequence[int], env: Env, when: str, advice: str) -> None:
    """Check that these Turns are the recorded ones, as far as they go."""
    if not env.spec.facts.reproducible:
        return
    for step, (one, other) in enumerate(zip(recorded.digests, digests, strict=False)):
        if one != other:
            raise ContractError(
                CheckPosition(env.spec.env_id, recorded.seed, step),
                f"the same seed and actions give a different Turn {when}",
                "the same seed gives bit-identical Turns",
                f"{advice}{_ELSE}",
            )


def check_same_stream(recorded: CheckedEpisode, other: CheckedEpisode, env: Env) -> None:
    """Check that the episode after a seeded one is the same too."""
    if env.spec.facts.reproducible and recorded.continued != other.continued:
        raise ContractError(
            CheckPosition(env.spec.env_id),
            f"reset() after reset({recorded.seed}) does not always give the same episode",
            "reset without a seed continues the env's own random stream, so that one seed determines all that follows",
            f"keep the generator that reset(seed) seeded, and make another only where a seed is given{_ELSE}",
        )


def check_env(
    make: Callable[[], Env], *, steps: int = 120, seeds: Sequence[int] = (1, 2), watcher: CheckWatcher | None = None
) -> EnvReport:
    """Play random legal episodes of at most `steps` on two instances that `make` makes.

    Raises ContractError at the first violation. Episodes are compared only if the env declares itself reproducible
    (EnvFacts), and the end of an episode is checked only if random play reaches it in `steps`.
    """
    if steps < 1 or not seeds:
        raise InputError(f"A check needs at least one step and one seed, not steps={steps}, seeds={tuple(seeds)}.")
    used = CheckedEnv(check_face(make()), watcher)
    try:
        spaces = _spaces(used.env)
        all_recorded = [record(used, seed, steps) for seed in seeds]
        _check_randomness(all_recorded, used.env)
        _check_repeats(all_recorded[0], used, lambda: CheckedEnv(check_face(make()), watcher), steps)
        picture = _check_pictures(all_recorded[0], used, steps)
        _check_refusals(all_recorded[0], used)
        _check_spaces(spaces, used.env)
        if watcher is not None:
            _play_on(used, watcher)
    finally:
        used.close()
    return _report(all_recorded, used.env, picture)


def _check_randomness(all_recorded: Sequence[CheckedEpisode], env: Env) -> None:
    first = all_recorded[0]
    for recorded in all_recorded:
        if not env.spec.facts.has_chance and recorded.digests[0] != first.digests[0]:
            raise ContractError(
                CheckPosition(env.spec.env_id, recorded.seed, 0),
                f"it starts differently from seed {first.seed}",
                "if has_chance is False, the seed has no effect",
                "set has_chance=True in EnvFacts",
            )


def _check_repeats(recorded: CheckedEpisode, used: CheckedEnv, make: Callable[[], CheckedEnv], steps: int) -> None:
    fresh = make()
    try:
        other = record(fresh, recorded.seed, steps)
    finally:
        fresh.close()
    advice = "draw all random numbers from generators that reset(seed) seeds (Gymnasium: self.np_random)"
    check_same(recorded, other.digests, used.env, "on another instance", advice)
    again = record(used, recorded.seed, steps)
    advice = "let reset(seed) reset all state left from earlier episodes"
    check_same(recorded, again.digests, used.env, "on a used instance", advice)
    check_same_stream(recorded, other, used.env)
    check_same_stream(recorded, again, used.env)


def _check_pictures(recorded: CheckedEpisode, used: CheckedEnv, steps: int) -> tuple[int, int] | None:
    """Render the beginning and the end; some images take 0.2 s, so not every step."""
    size, digests = None, []
    for step, turn in enumerate(used.episode(recorded.seed, steps)):
        digests.append(digest(turn))
        if step in (0, 1, steps) or turn.over:
            size = used.render() or size
    check_same(recorded, digests, used.env, "while pictures are drawn", "do not change state in render")
    return size


def _check_refusals(recorded: CheckedEpisode, used: CheckedEnv) -> None:
    digests = []
    for turn in used.episode(recorded.seed, FEW):
        digests.append(digest(turn))
        if not turn.over:
            used.refuse(turn)
    check_same(recorded, digests, used.env, "after refused steps", "check the agents before changing any state")


def _play_on(used: CheckedEnv, watcher: CheckWatcher) -> None:
    """Play random episodes while the watcher wants more; Ctrl-C ends them too, as the check itself is complete."""
    with suppress(KeyboardInterrupt):
        for draw in count():
            if not watcher.wants_more():
                return
            for _ in used.episode(None, sys.maxsize, draw=draw):
                if not watcher.wants_more():
                    return


def _spaces(env: Env) -> list[object]:
    return [(env.observation_spaces[agent], env.action_spaces[agent]) for agent in env.possible_agents]


def _check_spaces(before: list[object], env: Env) -> None:
    if _spaces(env) != before:
        raise ContractError(
            CheckPosition(env.spec.env_id),
            "a space changed while the env was played",
            "spaces do not change during the life of an env",
            "build the spaces once, when the env is created",
        )


def _report(all_recorded: Sequence[CheckedEpisode], env: Env, picture: tuple[int, int] | None) -> EnvReport:
    facts, first = env.spec.facts, all_recorded[0].tally
    return EnvReport(
        env_id=env.spec.env_id,
        turn_based=facts.turn_based,
        competitive=facts.competitive,
        incentives=env.spec.incentives,
        shared_reward=facts.shared_reward,
        reproducible=facts.reproducible,
        has_chance=facts.has_chance,
        masked=any(recorded.tally.masked for recorded in all_recorded),
        picture=picture,
        env_steps=first.env_steps,
        episodes_ended=sum(recorded.tally.over for recorded in all_recorded),
        agents=first.rows(),
        advice=facts.advice,
    )
