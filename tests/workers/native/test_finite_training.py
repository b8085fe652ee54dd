"""Checkpoints whose optimizer, scalers or tables are not finite are refused: one update would spoil the policy."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mosaic.core.errors import FormatError, InputError
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.save_load import read_table
from mosaic.learners.tabular.training.resumable import read_values
from mosaic.models.weights_file import NotFiniteError
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoint_record import MANIFEST, file_entry, manifest_bytes
from mosaic.workers.native.checkpoint import TRAINING, check_training, load_training
from tests.workers.hosting import run_config

CARTPOLE = {"env_id": "gym/CartPole-v1", "num_envs": 4}
SMALL = {"hidden": [8], "n_steps": 16, "n_epochs": 1, "batch_size": 32}
LAKE = {"env_id": "gym/FrozenLake-v1"}


@pytest.fixture
def home(tmp_path, monkeypatch, runs_here):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    return tmp_path


def native(steps=128, algorithm="ppo", params=None, **training):
    training = {"total_timesteps": steps, "algorithm": algorithm, "preset": False, **training}
    return run_config("native", SMALL if params is None else params, environment=CARTPOLE, training=training)


def finished(home, wanted):
    run = Trainer(home).submit(wanted)
    assert run.wait(120) == "finished", run.log()
    return run


def spoil(run, file, name, value):
    """Change one number of a checkpoint and everything that would tell, as whoever wrote the run could."""
    checkpoint = run.checkpoints()[-1]
    arrays = load_file(checkpoint.path / file)
    arrays[name] = arrays[name].copy()
    arrays[name].flat[0] = value
    save_file(arrays, checkpoint.path / file)
    files = {**checkpoint.manifest.files, file: file_entry(checkpoint.path / file)}
    manifest = checkpoint.manifest.model_copy(update={"files": files})
    (checkpoint.path / MANIFEST).write_bytes(manifest_bytes(run.folder, manifest))


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize(
    ("algorithm", "params", "name"),
    [
        ("ppo", SMALL, "shared/optimiser.second"),
        ("dqn", {"hidden": [8], "learning_starts": 16}, "shared/target"),
    ],
)
def test_a_resumed_run_refuses_a_spoilt_optimizer(home, algorithm, params, name):
    run = finished(home, native(128, algorithm, params))
    spoil(run, TRAINING, name, np.nan)
    run.resume(settings=["training.total_timesteps=256"])
    assert run.wait(120) == "failed", run.log()
    assert f"the numbers of '{name}' are not finite: 1 of" in run.reason
    assert "resume an earlier checkpoint" in run.reason


@pytest.mark.slow
@pytest.mark.chosen
def test_another_run_refuses_to_start_from_a_spoilt_optimizer(home):
    first = finished(home, native())
    spoil(first, TRAINING, "shared/optimiser.first", np.inf)
    then = Trainer(home).submit(native(init=f"run:{first.id},optimizer=true"))
    assert then.wait(120) == "failed", then.log()
    assert "the numbers of 'shared/optimiser.first' are not finite: 1 of" in then.reason


@pytest.mark.slow
@pytest.mark.chosen
def test_a_resumed_table_with_nan_is_refused_and_does_not_play(home):
    wanted = run_config("tabular", environment=LAKE, training={"total_timesteps": 2000, "algorithm": "q_learning"})
    run = finished(home, wanted)
    checkpoint = run.checkpoints()[-1]
    file = next(name for name in checkpoint.manifest.files if name.endswith(".safetensors"))
    spoil(run, file, "values", np.nan)
    with pytest.raises(FormatError, match="1 of 64 values of the table are NaN or infinite"):
        read_values(checkpoint.path)
    run.resume(settings=["training.total_timesteps=4000"])
    assert run.wait(120) == "failed", run.log()
    assert "1 of 64 values of the table are NaN or infinite" in run.reason


STATE = {
    "shared/optimiser.first": np.zeros(3, np.float32),
    "shared/seen.mean": np.zeros(2),
    "league.0.weights": np.ones(4, np.float32),
    "league/random": np.ones(5),
    "lane.1/optimiser.count": np.ones(1, np.float32),  # of a policy with that name
    "lane.0.tally.most": np.array([-np.inf]),
    "lane.0.rng": np.arange(3, dtype=np.uint64),
}


@pytest.mark.parametrize("name", [name for name in STATE if not name.startswith("lane.0")])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_every_number_that_training_uses_must_be_finite(name, value, tmp_path):
    save_file(STATE, tmp_path / TRAINING)
    assert load_training(tmp_path / TRAINING).keys() == STATE.keys()
    spoilt = {**STATE, name: np.full_like(STATE[name], value)}
    with pytest.raises(NotFiniteError, match=f"After 5 env steps: the numbers of '{name}' are not finite"):
        check_training(spoilt, "After 5 env steps")
    save_file(spoilt, tmp_path / TRAINING)
    with pytest.raises(NotFiniteError, match=rf"training\.safetensors: the numbers of '{name}' are not finite"):
        load_training(tmp_path / TRAINING)


def test_a_training_state_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .* can be played, but not trained further"):
        load_training(tmp_path / TRAINING)
    (tmp_path / TRAINING).write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="is not a safetensors file"):
        load_training(tmp_path / TRAINING)


@pytest.mark.parametrize("name", ["values", "values_second", "new_row"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_table_with_a_value_that_is_not_finite_is_refused(name, value, tmp_path):
    path, table = tmp_path / "table.safetensors", {"values": np.zeros((4, 2)), "sums": np.array([np.inf, -np.inf])}
    save_file(table, path)
    assert read_table(path).keys() == table.keys()
    save_file({**table, name: np.array([[0.0, value]])}, path)
    with pytest.raises(FormatError, match=r"1 of 2 values of the table are NaN or infinite\. Use another checkpoint"):
        read_table(path)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_saved_learner_with_a_value_that_is_not_finite_is_refused(value, tmp_path):
    from safetensors import safe_open

    path = tmp_path / "learner.safetensors"
    TabularLearner(4, 2).save(path)
    with safe_open(path, "numpy") as file:
        facts = file.metadata()
    arrays = load_file(path)
    arrays["values"].flat[3] = value
    save_file(arrays, path, facts)
    with pytest.raises(FormatError, match="1 of 8 values of the table are NaN or infinite"):
        TabularLearner.load(path)
