"""A run whose envs are in processes of Ray's, seen from outside."""

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.frames.paths import ring_paths
from tests.workers.watching import assert_in_order, collect, distinct, looking

PARAMS = {
    "num_env_runners": 1,
    "train_batch_size_per_learner": 512,
    "minibatch_size": 256,
    "num_epochs": 1,
    "fcnet_hiddens": [8],
}


@pytest.mark.slow
@pytest.mark.chosen
def test_envs_in_an_env_runner_are_seen_and_their_end_too(tmp_path):
    run = Trainer(tmp_path).submit(
        {
            "environment": {"env_id": "gym/CartPole-v1", "num_envs": 4},
            "training": {"worker": "rllib", "preset": False, "total_timesteps": 10**9, "params": PARAMS},
            "evaluation": {"episodes": 1},
        }
    )
    with looking(run) as reader:
        frames = collect(run, reader, lambda frames: distinct(frames) >= 5)
        assert_in_order(frames)
        assert {frame.pixels.shape for frame in frames} == {(400, 600, 3)}
        assert all(frame.reward == 1.0 and frame.ret >= 1.0 for frame in frames)  # CartPole pays for every step
        reader.look(env=2, grid=2)
        (*_, tiles) = collect(run, reader, lambda frames: frames and frames[-1].env == 2)
        assert max(tiles.pixels.shape) > 600
        run.stop()
        assert reader.state() == "finished"
    assert not any(path.exists() for path in ring_paths(run.folder.path))
