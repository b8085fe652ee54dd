"""Time of one decision and of a batch of 64 by one network (4-64-64-2, tanh) in four forms: medians, 99th percentiles.

    python benchmarks/inference.py

The network is that of an SB3 PPO for CartPole: SB3's own `predict`, Mosaic's compiled controller, the ONNX file that
`mosaic export` writes, played by the controller of `onnx:`, and RLlib's PPO module with the same weights. All four must
choose the same actions, which is checked first. The forms take turns in slices, so that all meet the same load.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from figures import at_least, at_most, loosen_goals, note_figure, note_ratio
from numpy.typing import NDArray

from mosaic import make_env
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvSpec
from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.onnx.controller import load_onnx_policy
from mosaic.workers.sb3.checkpoint.controllers import load_controller
from mosaic.workers.sb3.checkpoint.exportable import load_exportable
from mosaic.workers.sb3.checkpoint.writer import write_policy

BATCH = 64
MOST_ONNX_US, LEAST_RATIO = 15.0, 5.0

Rows = NDArray[np.float32]
Decide = Callable[[Rows], list[int]]


def sb3_model() -> Any:
    import torch
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)
    with torch.no_grad():  # a new policy hardly prefers an action
        model.policy.action_net.weight.mul_(100)
    return model


def by_sb3(model: Any) -> Decide:
    def decide(rows: Rows) -> list[int]:
        chosen = model.predict(rows if len(rows) > 1 else rows[0], deterministic=True)[0]
        return chosen.tolist() if len(rows) > 1 else [int(chosen)]

    return decide


def by_rllib(model: Any) -> Decide:
    import torch
    from gymnasium import spaces
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    config = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    module: Any = DefaultPPOTorchRLModule(
        observation_space=spaces.Box(-np.inf, np.inf, (4,), np.float32),
        action_space=spaces.Discrete(2),
        inference_only=True,
        model_config=asdict(config),
    )
    layers = [*(model.policy.mlp_extractor.policy_net[place] for place in (0, 2)), model.policy.action_net]
    names = ["encoder.actor_encoder.net.mlp.0", "encoder.actor_encoder.net.mlp.2", "pi.net.mlp.0"]
    state = module.state_dict()
    with torch.no_grad():
        for name, layer in zip(names, layers, strict=True):
            state[f"{name}.weight"].copy_(layer.weight)
            state[f"{name}.bias"].copy_(layer.bias)

    def decide(rows: Rows) -> list[int]:
        with torch.no_grad():
            found = module.forward_inference({Columns.OBS: torch.from_numpy(rows)})
        chosen: list[int] = found[Columns.ACTION_DIST_INPUTS].argmax(-1).tolist()
        return chosen

    return decide


def by_controller(controller: PolicyController, agents: tuple[str, ...]) -> Decide:
    turns: dict[int, Turn] = {}

    def decide(rows: Rows) -> list[int]:
        turn = turns.get(id(rows))  # an env gives a Turn; making one is not the policy's work
        if turn is None:
            seen = dict(zip(agents, rows, strict=False))
            turn = turns[id(rows)] = Turn(seen, {}, {}, {}, {}, {}, {})
        return list(controller.act(turn).values())

    return decide


def forms(folder: Path) -> dict[str, Decide]:
    one = make_env("gym/CartPole-v1").spec
    agents = tuple(f"agent_{number}" for number in range(BATCH))
    seen, acts = next(iter(one.observation_spaces.values())), next(iter(one.action_spaces.values()))
    spec = EnvSpec(one.facts, agents, dict.fromkeys(agents, seen), dict.fromkeys(agents, acts))
    request, model = PolicyRequest("benchmark", spec, agents), sb3_model()
    write_policy(model, folder, "policy")
    native = load_controller(folder / "policy.safetensors", request)
    samples = list(draw(spec, agents, 100, masked=False))
    data, parity = trace(
        native, load_exportable(folder / "policy.safetensors", request), request, ([], samples), ExportSettings()
    )
    assert parity.passed, parity
    (folder / "policy.onnx").write_bytes(data)
    onnx = load_onnx_policy(folder / "policy.onnx", request)
    return {
        "SB3 predict": by_sb3(model),
        "RLlib module": by_rllib(model),
        "Mosaic, compiled": by_controller(native, agents),
        "Mosaic, onnx:": by_controller(onnx, agents),
    }


def measure(decide: Decide, batches: list[Rows], calls: int) -> list[int]:
    times = []
    for number in range(calls):
        rows = batches[number % len(batches)]
        start = perf_counter_ns()
        decide(rows)
        times.append(perf_counter_ns() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--calls", type=int, default=500, help="in each slice")
    parser.add_argument("--quick", action="store_true", help="fewer slices, loose goals")
    options = parser.parse_args()
    if options.quick:
        loosen_goals()
        options.slices = 5
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        found = forms(Path(folder))
    figures: dict[tuple[str, int], tuple[float, float]] = {}
    middles: dict[tuple[str, int], list[float]] = {}  # of the slices
    for size in (1, BATCH):
        batches = [random.uniform(-1, 1, (size, 4)).astype(np.float32) for _ in range(16)]
        answers = {name: [decide(rows) for rows in batches] for name, decide in found.items()}
        if len({str(answer) for answer in answers.values()}) > 1:
            raise SystemExit(f"The forms choose different actions: {answers}")
        times: dict[str, list[int]] = {name: [] for name in found}
        for _ in range(options.slices):
            for name, decide in found.items():
                times[name] += measure(decide, batches, options.calls if size == 1 else options.calls // 5)
        for name, taken in times.items():
            middles[name, size] = [
                float(each) / 1e3 for each in np.median(np.reshape(taken, (options.slices, -1)), axis=1)
            ]
            figures[name, size] = (float(np.percentile(taken, 50)) / 1e3, float(np.percentile(taken, 99)) / 1e3)
    print(f"{'µs':<18} {'one: p50':>10} {'p99':>8} {f'{BATCH}: p50':>10} {'p99':>8}")
    for name in found:
        (middle, high), (many, most) = figures[name, 1], figures[name, BATCH]
        print(f"{name:<18} {middle:>10.1f} {high:>8.1f} {many:>10.1f} {most:>8.1f}")
    onnx, sb3 = figures["Mosaic, onnx:", 1][0], figures["SB3 predict", 1][0]
    ours, theirs = middles["Mosaic, onnx:", 1], middles["SB3 predict", 1]
    verdicts = [
        note_figure("one decision of onnx:, p50", "µs", ours, at_most(MOST_ONNX_US)),
        note_ratio("one decision of onnx:, p50", "µs", ours, theirs, "SB3 predict", at_least(LEAST_RATIO)),
    ]
    for size in (1, BATCH):
        for peer in ("SB3 predict", "RLlib module"):
            ours = middles["Mosaic, compiled", size]
            note_ratio(f"{size} decision{'s' * (size > 1)}, p50", "µs", ours, middles[peer, size], peer)
    said = "; ".join(filter(None, verdicts))
    print(f"one decision: onnx: takes {onnx:.1f} µs, SB3 predict {sb3 / onnx:.1f} times that ({said})")
    if "NO" in said:
        sys.exit(f"The goals are {MOST_ONNX_US:g} µs, and {LEAST_RATIO:g} times faster than SB3's predict.")


if __name__ == "__main__":
    main()
