"""Same configuration and seed: the same values and the same weights, whatever the number of cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import hashlib, json, os, sys
cores, document = json.loads(sys.argv[1])
os.sched_setaffinity(0, cores)
import numpy as np
from pathlib import Path
from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import resolve

config = resolve(parse_run_config(document)).config
training = config.training
options = parse_params(load_worker(training.worker), training.algorithm, dict(training.params))
if training.worker == "native":
    from types import SimpleNamespace
    from mosaic.workers.native.worker import _assemble
    learner = _assemble(SimpleNamespace(config=config, options=options, curriculum=None)).learner
    for _ in range(2):  # the second learns from what the first has learned
        learner.iterate()
    weights = learner.weights(0)
    learner.close()
else:
    from mosaic.workers.tabular.worker import make_training
    learner = make_training(config, options, lambda *_: None)
    learner.advance(50_000)
    weights = learner.values
print(json.dumps([dump_run_config(config), hashlib.sha256(np.ascontiguousarray(weights)).hexdigest()]))
"""

CASES: dict[str, dict[str, Any]] = {
    "fused": {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"preset": False}},
    "fused, large rollouts": {
        "environment": {"env_id": "gym/CartPole-v1", "num_envs": 128},
        "training": {"preset": False, "params": {"n_epochs": 2, "batch_size": 4096}},
    },
    "fused, two learners": {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"params": {"threads": 2}},
    },
    "torch": {
        "environment": {"env_id": "mosaic/recall"},
        "training": {"params": {"memory": "gru", "n_epochs": 2, "n_steps": 32}},
    },
    "torch on several threads": {
        "environment": {"env_id": "mosaic/catch_pixels"},
        "training": {"params": {"torch_threads": 4, "n_epochs": 1, "n_steps": 32}},
    },
    "dqn": {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"algorithm": "dqn"}},
    "tables on threads": {
        "environment": {"env_id": "gym/FrozenLake-v1"},
        "training": {"worker": "tabular", "params": {"merge_every_steps": 1000}},
        "resources": {"runtime": "parallel"},
    },
    "many tables on threads": {
        "environment": {"env_id": "gym/FrozenLake-v1"},
        "training": {"worker": "tabular", "params": {"merge_every_steps": 1000}},
        "resources": {"runtime": "parallel", "num_env_runners": 5},
    },
}


def on(cores: list[int], document: dict[str, Any]) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([cores, document])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process is bound to cores on Linux only")

# In `make test`: one of each kind of computation that shares work among cores.
SHORT = {"fused, two learners", "dqn", "many tables on threads"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in SHORT else pytest.mark.slow) for case in CASES]
)
def test_cores_change_nothing_but_speed(case: str) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("this machine has a single core")
    alone, together = on(cores[:1], CASES[case]), on(cores[:2], CASES[case])
    assert alone == together


@pytest.mark.slow  # what could make them differ is a test of its own: a compiled function calls its own copies
def test_a_process_that_compiles_computes_what_a_process_with_compiled_code_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cores = sorted(os.sched_getaffinity(0))
    first, second = (on(cores, CASES["fused"]) for _ in range(2))
    assert first == second
