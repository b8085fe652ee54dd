"""Whether an env keeps every promise of an Env."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mosaic.core.errors import InputError
from mosaic.core.turn import digest
from mosaic.envs.contract.errors import ContractError, Place
from mosaic.envs.contract.face import check_face
from mosaic.envs.contract.report import EnvReport
from mosaic.envs.contract.session import Watched
from mosaic.envs.contract.tape import FEW, Tape, check_same, check_same_stream, record
from mosaic.envs.env import Env


def check_env(make: Callable[[], Env], *, steps: int = 120, seeds: Sequence[int] = (1, 2)) -> EnvReport:
    """Plays random legal episodes of at most `steps` on two instances that `make` makes.

    Raises ContractError at the first broken promise. Episodes are compared only where the env calls itself
    reproducible (EnvFacts), and the end of an episode is checked only where random play reaches it in `steps`.
    """
    if steps < 1 or not seeds:
        raise InputError(f"A check needs at least one step and one seed, not steps={steps}, seeds={tuple(seeds)}.")
    used = Watched(check_face(make()))
    try:
        spaces = _spaces(used.env)
        tapes = [record(used, seed, steps) for seed in seeds]
        _check_chance(tapes, used.env)
        _check_repeats(tapes[0], used, make, steps)
        picture = _check_pictures(tapes[0], used, steps)
        _check_refusals(tapes[0], used)
        _check_spaces(spaces, used.env)
    finally:
        used.close()
    return _report(tapes, used.env, picture)


def _check_chance(tapes: Sequence[Tape], env: Env) -> None:
    first = tapes[0]
    for tape in tapes:
        if not env.spec.facts.has_chance and tape.digests[0] != first.digests[0]:
            raise ContractError(
                Place(env.spec.env_id, tape.seed, 0),
                f"it starts otherwise than with seed {first.seed}",
                "where has_chance is False, a seed changes nothing",
                "say has_chance=True in EnvFacts",
            )


def _check_repeats(tape: Tape, used: Watched, make: Callable[[], Env], steps: int) -> None:
    fresh = Watched(check_face(make()))
    try:
        other = record(fresh, tape.seed, steps)
    finally:
        fresh.close()
    advice = "draw all chance from generators that reset(seed) seeds"
    check_same(tape, other.digests, used.env, "on another instance", advice)
    again = record(used, tape.seed, steps)
    advice = "let reset(seed) rebuild whatever survives from earlier episodes"
    check_same(tape, again.digests, used.env, "on a used instance", advice)
    check_same_stream(tape, other, used.env)
    check_same_stream(tape, again, used.env)


def _check_pictures(tape: Tape, used: Watched, steps: int) -> tuple[int, int] | None:
    """Draws the beginning and the end; some pictures take 0.2 s, so not every step."""
    size, digests = None, []
    for step, turn in enumerate(used.episode(tape.seed, steps)):
        digests.append(digest(turn))
        if step in (0, 1, steps) or turn.over:
            size = used.render() or size
    check_same(tape, digests, used.env, "while pictures are drawn", "change nothing in render")
    return size


def _check_refusals(tape: Tape, used: Watched) -> None:
    digests = []
    for turn in used.episode(tape.seed, FEW):
        digests.append(digest(turn))
        if not turn.over:
            used.refuse(turn)
    check_same(tape, digests, used.env, "after refused steps", "compare the agents before anything changes")


def _spaces(env: Env) -> list[object]:
    return [(env.observation_spaces[agent], env.action_spaces[agent]) for agent in env.possible_agents]


def _check_spaces(before: list[object], env: Env) -> None:
    if _spaces(env) != before:
        raise ContractError(
            Place(env.spec.env_id),
            "a space changed while the env was played",
            "spaces stay as they are from making to closing",
            "build the spaces once, when the env is made",
        )


def _report(tapes: Sequence[Tape], env: Env, picture: tuple[int, int] | None) -> EnvReport:
    facts, first = env.spec.facts, tapes[0].tally
    return EnvReport(
        env_id=env.spec.env_id,
        turn_based=facts.turn_based,
        competitive=facts.competitive,
        reproducible=facts.reproducible,
        has_chance=facts.has_chance,
        masked=any(tape.tally.masked for tape in tapes),
        picture=picture,
        env_steps=first.env_steps,
        episodes_ended=sum(tape.tally.over for tape in tapes),
        agents=first.rows(),
    )
