"""Latencies: one decision, and the first iteration of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

import numpy as np
from ppo_rows.measure import Outcome, Plan, gate, in_turn, show_limit, show_time


def decision(plan: Plan) -> None:
    """Measure the p50 of deciding for one CartPole, from observation to action. Gate: both nets are the same."""
    import torch
    from ppo_peers import sb3

    from mosaic import make_env
    from mosaic.envs.vector.encoding import action_code, row_code
    from mosaic.models.architecture import Architecture
    from mosaic.policies.network import NetworkPolicyController

    env = make_env("gym/CartPole-v1")
    turn = env.reset(0)
    agent = next(iter(turn.observations))
    actions = action_code(env.spec.action_spaces[agent])
    architecture = Architecture(4, actions.head)
    model = sb3.make_model("CartPole-v1", 1, 0, {"n_steps": 8, "batch_size": 8})
    net = NetworkPolicyController(
        architecture, _weights_of(model, architecture), {agent: row_code(env.spec.observation_spaces[agent])},
        {agent: actions},
    )  # fmt: skip
    seen = np.random.default_rng(0).normal(0, 0.5, (500, 4)).astype(np.float32)
    with torch.no_grad():
        theirs = [int(model.predict(row, deterministic=True)[0]) for row in seen]
    same = [net.act(turn._replace(observations={agent: row}))[agent] for row in seen] == theirs
    gate(same and 0 < sum(theirs) < 500, "both nets decide alike on 500 observations")
    row = seen[0]
    count = 2000 if plan.quick else 20_000

    def ours(seed: int) -> Outcome:
        return _p50(lambda: net.act(turn), count)

    def peer(seed: int) -> Outcome:
        return _p50(lambda: model.predict(row, deterministic=True), count // 10)

    mine, other = in_turn(plan.repeats, ours, peer)
    show_limit("one decision, 64×64, p50", [each.wall_s * 1e6 for each in mine], "µs", 10)
    show_time("one decision, 64×64, p50", mine, other, "SB3 predict", 15, cpu=False, unit="µs")


def _p50(work: Callable[[], Any], count: int) -> Outcome:
    took = []
    for _ in range(count):
        start = perf_counter_ns()
        work()
        took.append(perf_counter_ns() - start)
    return Outcome(count, median(took) / 1e9, 1.0)


def _weights_of(model: Any, architecture: Any) -> Any:
    """Return SB3's nets in our layout, so that both sides must decide alike."""
    from mosaic.models.layout import tensors

    policy = model.policy
    nets = {
        "policy": (policy.mlp_extractor.policy_net[0], policy.mlp_extractor.policy_net[2], policy.action_net),
        "value": (policy.mlp_extractor.value_net[0], policy.mlp_extractor.value_net[2], policy.value_net),
    }
    parts = []
    for tensor in tensors(architecture):
        net, number, kind = tensor.name.split(".")
        layer = nets[net][int(number)]
        array = (layer.weight.T if kind == "weight" else layer.bias).detach().numpy()
        gate(array.shape == tensor.shape, f"{tensor.name} has the shape {array.shape}, not {tensor.shape}")
        parts.append(np.ravel(array))
    return np.concatenate(parts).astype(np.float32)


def kernels(plan: Plan) -> None:
    """Measure a process's first iteration minus its second, without imports: with numba's cache and an empty one."""
    script = Path(__file__).with_name("first_iteration.py")

    def first(cache: str | None = None) -> dict[str, float]:
        environment = dict(os.environ) if cache is None else {**os.environ, "XDG_CACHE_HOME": cache}
        ended = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
        gate(ended.returncode == 0, f"{script.name}: {ended.stderr[-500:]}")
        said: dict[str, float] = json.loads(ended.stdout)
        return said

    first()
    warm = [first() for _ in range(plan.repeats)]
    show_limit("kernels from numba's cache", [each["kernels_s"] for each in warm], "s", 0.3)
    show_limit("  the same in CPU time", [each["kernels_cpu_s"] for each in warm], "s", None)
    show_limit("  the imports before them", [each["imports_s"] for each in warm], "s", None)
    with TemporaryDirectory() as empty:
        cold = first(empty)
    show_limit("kernels with an empty cache", [cold["kernels_s"]], "s", None)
    show_limit("  the same in CPU time", [cold["kernels_cpu_s"]], "s", None)
