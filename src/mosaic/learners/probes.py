"""Probes of a learner: tiny envs with known answers, so that a failure shows what is broken.

Every probe trains briefly with the ordinary learner and then checks the network's values and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, TrainingConfig
from mosaic.core.errors import InputError, unknown
from mosaic.envs.vector.encoding import row_code
from mosaic.learners.base import Assembled
from mosaic.models.fused import build_model, make_scratch, policy_outputs, probabilities, value_rows

GAMMA = 0.5  # small, so that a wrong discount is visible
VALUE_TOLERANCE = 0.1
LEAST_PROBABILITY = 0.9  # least probability of the right action
_ENVS = 8


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Expected value and action for one observation."""

    seen: int
    value: float
    action: int | None = None  # the right one, where there is a choice
    legal: tuple[bool, ...] = ()  # empty: all

    def __str__(self) -> str:
        return _said(self.seen, self.value, "" if self.action is None else f"plays {self.action}")


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    finds: str  # what is broken if it fails
    env: str
    answers: tuple[ProbeAnswer, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    probe: Probe
    got: tuple[str, ...]  # for each expected answer
    ok: bool


_OWN = "python:mosaic.envs.toys.probes:"
PROBES: tuple[Probe, ...] = (
    Probe("one_value", "value loss or optimiser", f"{_OWN}one_value", (ProbeAnswer(0, 1.0),)),
    Probe(
        "two_values",
        "observations on their way to the critic",
        f"{_OWN}two_values",
        (ProbeAnswer(0, -1.0), ProbeAnswer(1, 1.0)),
    ),
    Probe("two_steps", "discount or bootstrapping", f"{_OWN}two_steps", (ProbeAnswer(0, GAMMA), ProbeAnswer(1, 1.0))),
    Probe("choice", "advantage or policy loss", f"{_OWN}choice", (ProbeAnswer(0, 1.0, 1),)),
    Probe(
        "match",
        "observations on their way to the policy",
        f"{_OWN}match",
        (ProbeAnswer(0, 1.0, 0), ProbeAnswer(1, 1.0, 1)),
    ),
    Probe(
        "cut_off",
        "truncation taken for an end, or the reverse",
        f"{_OWN}cut_off",
        (ProbeAnswer(0, 1 / (1 - GAMMA)), ProbeAnswer(1, 1.0)),
    ),
    Probe(
        "forbidden",
        "masks while acting",
        f"{_OWN}Forbidden",
        (ProbeAnswer(0, 1.0, 1, (True, True, False)),),
        {"info_masks": True},
    ),
    Probe(
        "pair", "rewards of agents that act together", f"{_OWN}Pair", (ProbeAnswer(0, 1.0, 1), ProbeAnswer(1, 0.0, 0))
    ),
    Probe(
        "duel",
        "rewards of agents that take turns",
        f"{_OWN}CopyDuel",
        (ProbeAnswer(0, -0.5, 1), ProbeAnswer(2, 0.5, 1)),
    ),
    Probe(
        "compiled_steps",
        "rollouts of compiled envs",
        "mosaic/gridworld",
        (ProbeAnswer(1, GAMMA, 2), ProbeAnswer(2, 1.0, 2)),
        {"map": "HS.G"},
    ),
    Probe(
        "compiled_cut_off",
        "truncation in compiled envs",
        "mosaic/gridworld",
        (ProbeAnswer(0, 1 / (1 - GAMMA)),),
        {"map": "S#G", "step_reward": 1.0, "max_steps": 2},
    ),
)


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """Construction of an algorithm for probes, and its training length."""

    assemble: Callable[[RunConfig, Mapping[str, Any]], Assembled]
    settings: Mapping[str, Any]
    env_steps: int
    q_values: bool = False  # the policy's outputs are action values


def _ppo(config: RunConfig, settings: Mapping[str, Any]) -> Assembled:
    from mosaic.learners.ppo.build import assemble
    from mosaic.learners.ppo.options import PpoOptions

    return assemble(config, PpoOptions.model_validate(settings))


def _a2c(config: RunConfig, settings: Mapping[str, Any]) -> Assembled:
    from mosaic.learners.ppo.build import assemble
    from mosaic.learners.ppo.options import A2cOptions

    return assemble(config, A2cOptions.model_validate(settings))


def _dqn(config: RunConfig, settings: Mapping[str, Any]) -> Assembled:
    from mosaic.learners.dqn.build import assemble_dqn
    from mosaic.learners.dqn.options import DqnOptions

    return assemble_dqn(config, DqnOptions.model_validate(settings))


_EVERY = {"gamma": GAMMA, "hidden": (32,)}
_ALGORITHMS: Mapping[str, _Algorithm] = {
    "ppo": _Algorithm(_ppo, {**_EVERY, "learning_rate": 5e-3, "n_steps": 16, "batch_size": 64}, 6_000),
    "a2c": _Algorithm(_a2c, {**_EVERY, "learning_rate": 1e-2, "n_steps": 4}, 12_000),
    "dqn": _Algorithm(
        _dqn,
        {
            **_EVERY,
            "learning_rate": 5e-3,
            "buffer_size": 2_000,
            "learning_starts": 64,
            "batch_size": 64,
            "train_freq": 1,
            "target_update_interval": 64,
            "exploration_fraction": 0.5,
            "exploration_final_eps": 0.02,
        },
        8_000,
        q_values=True,
    ),
}
ALGORITHMS = tuple(_ALGORITHMS)


def run_probes(
    algorithm: str = "ppo", *, engine: Literal["auto", "fused", "torch"] = "auto", seed: int = 0
) -> Iterator[ProbeResult]:
    """Yield outcomes as soon as each is known."""
    if algorithm not in _ALGORITHMS:
        raise unknown("algorithm to probe", algorithm, ALGORITHMS)
    for probe in PROBES:
        yield run_probe(probe, algorithm, engine=engine, seed=seed)


def run_probe(
    probe: Probe, algorithm: str = "ppo", *, engine: Literal["auto", "fused", "torch"] = "auto", seed: int = 0
) -> ProbeResult:
    how = _ALGORITHMS[algorithm]
    settings = dict(how.settings)
    if engine != "auto":
        if how.q_values:
            raise InputError(f"{algorithm} has one engine; leave --engine {engine} out.")
        settings["engine"] = engine
    config = RunConfig(
        seed=seed,
        environment=EnvironmentConfig.model_validate(
            {"env_id": probe.env, "options": dict(probe.options), "num_envs": _ENVS}
        ),
        training=TrainingConfig(total_timesteps=how.env_steps),
    )
    assembled = how.assemble(config, settings)
    try:
        while assembled.learner.env_steps < how.env_steps:
            assembled.learner.iterate()
        found = [_ask(assembled, answer, how.q_values) for answer in probe.answers]
    except Exception as error:
        error.add_note(f"This happened in the probe '{probe.name}', which tests: {probe.finds}.")
        raise
    finally:
        assembled.learner.close()
    pairs = list(zip(probe.answers, found, strict=True))
    return ProbeResult(
        probe,
        tuple(_described(answer, *view) for answer, view in pairs),
        all(_fits(answer, *view) for answer, view in pairs),
    )


def _ask(assembled: Assembled, answer: ProbeAnswer, q_values: bool) -> tuple[float, NDArray[np.float32]]:
    """Return the network's value of the observation and the probability of each action."""
    architecture = assembled.architectures[0]
    weights, model = assembled.learner.weights(0), build_model(architecture)
    obs = np.zeros((1, architecture.observation), np.float32)
    row_code(next(iter(assembled.spec.observation_spaces.values()))).write(answer.seen, obs[0])
    mask = np.array([answer.legal], np.uint8) if answer.legal else np.zeros((0, architecture.head.width), np.uint8)
    scratch = make_scratch(model, 1)
    if q_values:
        worth = policy_outputs(weights, model, obs, scratch)[0, : architecture.head.width].copy()
        worth[~np.array(answer.legal or [True] * len(worth))] = -np.inf
        return float(worth.max()), (worth == worth.max()).astype(np.float32)
    value, odds = np.zeros(1, np.float32), np.zeros((1, architecture.head.width), np.float32)
    value_rows(weights, model, obs, np.zeros((1, 0), np.float32), scratch, value)
    probabilities(weights, model, obs, mask, scratch, odds)
    return float(value[0]), odds[0]


def _fits(answer: ProbeAnswer, value: float, odds: NDArray[np.float32]) -> bool:
    near = abs(value - answer.value) <= VALUE_TOLERANCE  # False for nan
    return near and (answer.action is None or float(odds[answer.action]) >= LEAST_PROBABILITY)


def _described(answer: ProbeAnswer, value: float, odds: NDArray[np.float32]) -> str:
    if answer.action is None:
        return _said(answer.seen, value)
    action = int(odds.argmax())
    return _said(answer.seen, value, f"plays {action} ({odds[action]:.0%})")


def _said(seen: int, value: float, action: str = "") -> str:
    worth = f"V({seen}) = {round(value, 2) + 0.0:.2f}"  # adding 0 turns −0 into 0
    return f"{worth}, {action}" if action else worth


def failed(outcomes: Sequence[ProbeResult]) -> list[str]:
    return [outcome.probe.name for outcome in outcomes if not outcome.ok]
