"""Probes of a learner: tiny envs with known answers, so that a failure shows what is broken.

Every probe trains briefly with the ordinary learner and then checks the network's values and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erf, sqrt
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

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
        (ProbeAnswer(0, 1.0, legal=(True, True, False)),),
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


Ask: TypeAlias = Callable[[Assembled, ProbeAnswer], tuple[float, NDArray[np.float32]]]


def _ask_policy(assembled: Assembled, answer: ProbeAnswer) -> tuple[float, NDArray[np.float32]]:
    """Return the network's value of the observation and the probability of each action."""
    architecture, weights = assembled.architectures[0], assembled.learner.weights(0)
    model, obs = build_model(architecture), _row(assembled, answer)
    mask = np.array([answer.legal], np.uint8) if answer.legal else np.zeros((0, architecture.head.width), np.uint8)
    scratch = make_scratch(model, 1)
    value, odds = np.zeros(1, np.float32), np.zeros((1, architecture.head.width), np.float32)
    value_rows(weights, model, obs, np.zeros((1, 0), np.float32), scratch, value)
    probabilities(weights, model, obs, mask, scratch, odds)
    return float(value[0]), odds[0]


def _ask_action_values(assembled: Assembled, answer: ProbeAnswer) -> tuple[float, NDArray[np.float32]]:
    architecture, weights = assembled.architectures[0], assembled.learner.weights(0)
    model = build_model(architecture)
    outputs = policy_outputs(weights, model, _row(assembled, answer), make_scratch(model, 1))
    worth = outputs[0, : architecture.head.width].copy()
    worth[~np.array(answer.legal or [True] * len(worth))] = -np.inf
    return float(worth.max()), (worth == worth.max()).astype(np.float32)


def _ask_critics(assembled: Assembled, answer: ProbeAnswer) -> tuple[float, NDArray[np.float32]]:
    """Return the critics' value of the policy's action, and the probabilities of numbers up to 0 and above."""
    learner: object = assembled.learner
    assert isinstance(learner, HasCritics)
    value, mean, deviation = learner.judge(_row(assembled, answer)[0])
    above = (1 + erf(mean / deviation / sqrt(2))) / 2 if deviation else float(mean > 0)
    return value, np.array([1 - above, above], np.float32)


def _row(assembled: Assembled, answer: ProbeAnswer) -> NDArray[np.float32]:
    obs = np.zeros((1, assembled.architectures[0].observation), np.float32)
    row_code(next(iter(assembled.spec.observation_spaces.values()))).write(answer.seen, obs[0])
    return obs


@runtime_checkable
class HasCritics(Protocol):
    """Learner of continuous actions."""

    def judge(
        self, obs: NDArray[np.float32]
    ) -> tuple[float, float, float]: ...  # value of the policy's action; mean and deviation of its first number


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """Construction of an algorithm for probes, its training length, and how to ask what it has learned."""

    assemble: Callable[[RunConfig, Mapping[str, Any]], Assembled]
    settings: Mapping[str, Any]
    env_steps: int
    ask: Ask = _ask_policy
    engines: bool = False  # there are two
    continuous: bool = False


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


def _sac(config: RunConfig, settings: Mapping[str, Any]) -> Assembled:
    from mosaic.learners.actor_critic.build import assemble_actor_critic
    from mosaic.learners.actor_critic.options import SacOptions

    return assemble_actor_critic(config, SacOptions.model_validate(settings))


def _td3(config: RunConfig, settings: Mapping[str, Any]) -> Assembled:
    from mosaic.learners.actor_critic.build import assemble_actor_critic
    from mosaic.learners.actor_critic.options import Td3Options

    return assemble_actor_critic(config, Td3Options.model_validate(settings))


_EVERY = {"gamma": GAMMA, "hidden": (32,)}
_REPLAYED = {**_EVERY, "learning_rate": 5e-3, "buffer_size": 2_000, "batch_size": 64, "train_freq": 1}
_CRITICS = {**_REPLAYED, "learning_starts": 400, "tau": 0.05}
_ALGORITHMS: Mapping[str, _Algorithm] = {
    "ppo": _Algorithm(_ppo, {**_EVERY, "learning_rate": 5e-3, "n_steps": 16, "batch_size": 64}, 9_000, engines=True),
    "a2c": _Algorithm(_a2c, {**_EVERY, "learning_rate": 1e-2, "n_steps": 4}, 12_000, engines=True),
    "dqn": _Algorithm(
        _dqn,
        {
            **_REPLAYED,
            "learning_starts": 64,
            "target_update_interval": 64,
            "exploration_fraction": 0.5,
            "exploration_final_eps": 0.02,
        },
        8_000,
        _ask_action_values,
    ),
    "sac": _Algorithm(_sac, {**_CRITICS, "ent_coef": 0.01}, 8_000, _ask_critics, continuous=True),
    "td3": _Algorithm(
        _td3,
        {**_CRITICS, "learning_rate": 2e-3, "batch_size": 128, "exploration_noise": 0.3},
        8_000,
        _ask_critics,
        continuous=True,
    ),
}
ALGORITHMS = tuple(_ALGORITHMS)
_ALPHAZERO = (
    "it learns games that tree search can play, and the probes are other envs. To see whether it learns, type: "
    "mosaic train mosaic/tictactoe --algo alphazero --steps 200000"
)
_DISCRETE_ALONE = ("forbidden", "compiled_steps", "compiled_cut_off")  # masks; a compiled env with two actions


def probes_of(algorithm: str) -> tuple[Probe, ...]:
    """Return those that the algorithm can act in; raise InputError for one that cannot be probed."""
    if algorithm == "alphazero":
        raise InputError(f"alphazero cannot be probed: {_ALPHAZERO}. Algorithms that can: {', '.join(ALGORITHMS)}.")
    if algorithm not in _ALGORITHMS:
        raise unknown("algorithm to probe", algorithm, ALGORITHMS)
    if not _ALGORITHMS[algorithm].continuous:
        return PROBES
    return tuple(
        replace(probe, env=f"{_OWN}Continuous", options={"probe": probe.name})
        for probe in PROBES
        if probe.name not in _DISCRETE_ALONE
    )


def run_probes(
    algorithm: str = "ppo", *, engine: Literal["auto", "fused", "torch"] = "auto", seed: int = 0
) -> Iterator[ProbeResult]:
    """Yield outcomes as soon as each is known."""
    for probe in probes_of(algorithm):
        yield run_probe(probe, algorithm, engine=engine, seed=seed)


def run_probe(
    probe: Probe, algorithm: str = "ppo", *, engine: Literal["auto", "fused", "torch"] = "auto", seed: int = 0
) -> ProbeResult:
    how = _ALGORITHMS[algorithm]
    settings = dict(how.settings)
    if engine != "auto":
        if not how.engines:
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
        found = [how.ask(assembled, answer) for answer in probe.answers]
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
