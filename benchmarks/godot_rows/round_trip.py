"""A step of a Godot env against a bare loop, and against a plain client, on the same kind of connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np
from godot_rows.orchard import ACTION, ENV, FOLDER, OPTIONS, BareLoop, bare_loop, engine
from ppo_rows.measure import Plan, keep_on, show_limit, usable_cores

from mosaic import make_env
from mosaic.envs.env import Env

ECHO = Path(__file__).with_name("echo_game.py")
STEPS = 55  # in one episode: nothing ends, and both sides see the same states
ROWS = [np.array([0.3125, -0.5, 0.0, 1.0], np.float32)] * 2  # for both agents: ACTION as an env gets it
MOST = 1.3


def game(plan: Plan) -> None:
    """Show the ratio on one core, and without a limit on all: waking an idle core takes as long as several steps."""
    command = [engine(), "--path", str(FOLDER), "--port=PORT", f"--speedup={OPTIONS['speedup']}"]
    cores = usable_cores()
    for chosen, name, most in (({max(cores)}, "one core", MOST), (cores, "all cores", None)):
        with _on(chosen):
            ours, bare, plain = _compare(plan, ENV, OPTIONS, command)
        show_limit(f"step of the env, real engine, {name}", _us(ours), "µs", None)
        show_limit(f"bare loop to the same game, {name}", _us(bare), "µs", None)
        show_limit(f"plain client without checks, {name}", _us(plain), "µs", None)
        show_limit(f"round trip, ours / bare loop, {name}", _ratios(ours, bare), "×", most)
        show_limit(f"round trip, ours / plain client, {name}", _ratios(ours, plain), "×", None)


def echo(plan: Plan) -> None:
    """Show the env's own time. There is no limit: against nothing at all, anything takes long."""
    ours, bare, _ = _compare(plan, f"godot/{ECHO}", {}, [str(ECHO), "--port=PORT"])
    show_limit("step of the env, peer that computes nothing", _us(ours), "µs", None)
    show_limit("bare echo loop", _us(bare), "µs", None)
    show_limit("the env's own time", _us([mine - other for mine, other in zip(ours, bare, strict=True)]), "µs", None)


@contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """Keep this process, and the games that it starts, on some cores."""
    before = usable_cores()
    keep_on(cores)
    try:
        yield
    finally:
        keep_on(before)


def _ratios(ours: list[float], bare: list[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, bare, strict=True)]


def _us(seconds: list[float]) -> list[float]:
    return [each * 1e6 for each in seconds]


def _compare(
    plan: Plan, env_id: str, options: dict[str, object], command: list[str]
) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds per step of the env, the bare loop and a plain client, slice by slice, alternated."""
    env = make_env(env_id, **options)
    ours, bare, plain = [], [], []
    try:
        with bare_loop(command) as loop:
            for seed in range(20 * plan.repeats):
                ours.append(_ours(env, seed))
                bare.append(_bare(loop, seed))
                plain.append(_plain(loop, seed))
    finally:
        env.close()
    print(f"{'':54}{len(ours)} slices of {STEPS} steps each, alternated; load {os.getloadavg()[0]:.1f}", flush=True)
    return ours, bare, plain


def _ours(env: Env, seed: int) -> float:
    turn = env.reset(seed)
    actions = dict(zip(turn.observations, ROWS, strict=True))
    began = perf_counter()
    for _ in range(STEPS):
        env.step(actions)
    return (perf_counter() - began) / STEPS


def _bare(loop: BareLoop, seed: int) -> float:
    loop.begin(seed)
    began = perf_counter()
    for _ in range(STEPS):
        loop.ask(ACTION)
    return (perf_counter() - began) / STEPS


def _plain(loop: BareLoop, seed: int) -> float:
    loop.begin(seed)
    began = perf_counter()
    for _ in range(STEPS):
        loop.step(ROWS)
    return (perf_counter() - began) / STEPS
