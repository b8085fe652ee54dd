"""What an episode said, short enough to compare episodes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.core.turn import digest
from mosaic.envs.contract.errors import ContractError, Place
from mosaic.envs.contract.report import Tally
from mosaic.envs.contract.session import Watched
from mosaic.envs.env import Env

FEW = 5  # steps where a few tell as much as many


@dataclass(frozen=True, slots=True)
class Tape:
    seed: int
    digests: Sequence[int]  # of every Turn, the first one included
    continued: Sequence[int]  # of the episode that followed with reset(None)
    tally: Tally


def record(watched: Watched, seed: int, steps: int) -> Tape:
    """Plays an episode and the beginning of the next."""
    digests, tally = [], Tally(watched.env)
    for turn in watched.episode(seed, steps):
        digests.append(digest(turn))
        tally.add(turn)
    if tally.over:
        watched.refuse_after_end()
    continued = [digest(turn) for turn in watched.episode(None, FEW, draw=seed)]
    return Tape(seed, digests, continued, tally)


def check_same(tape: Tape, digests: Sequence[int], env: Env, when: str, advice: str) -> None:
    """Whether these Turns are those of the tape, as far as they go."""
    if not env.spec.facts.reproducible:
        return
    for step, (one, other) in enumerate(zip(tape.digests, digests, strict=False)):
        if one != other:
            raise ContractError(
                Place(env.spec.env_id, tape.seed, step),
                f"the same seed and actions give another Turn {when}",
                "the same seed gives the same Turns, bit by bit",
                f"{advice}; an env that cannot says reproducible=False in EnvFacts",
            )


def check_same_stream(tape: Tape, other: Tape, env: Env) -> None:
    """Whether the episode after a seeded one is the same too."""
    if env.spec.facts.reproducible and tape.continued != other.continued:
        raise ContractError(
            Place(env.spec.env_id),
            f"reset() after reset({tape.seed}) does not always give the same episode",
            "reset without a seed goes on with the env's own stream, so that one seed fixes all that follows",
            "keep the generator that reset(seed) seeded; an env that cannot says reproducible=False in EnvFacts",
        )
