"""Envs that raise while an episode is played: the error names the env, the seed and the step."""

import gymnasium
import pytest

import mosaic
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.seeding import child_seed
from mosaic.runners.local import EnvFailedError, LocalEnvRunner

CODE = """
import gymnasium

class Hot(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at += 1
        if self.at == 4:
            raise RuntimeError("the motor is too hot")
        return self.at, 1.0, False, False, {}
"""


class Failing(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)

    def __init__(self, error, where):
        self.error, self.where = error, where

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        if self.where == "reset":
            raise self.error
        return 0, {}

    def step(self, action):
        self.at += 1
        if self.at == 3:
            raise self.error
        return 0, 1.0, False, False, {}


@pytest.mark.parametrize(("where", "named"), [("reset", "reset"), ("step", "step 2")])
def test_the_error_names_env_seed_and_step_and_has_its_cause(where, named):
    cause = RuntimeError("the motor is too hot")
    runner = LocalEnvRunner(mosaic.make_env(Failing(cause, where)), {"*": "random"})
    with runner, pytest.raises(EnvFailedError) as caught:
        runner.run(17)
    text = f"failed in {named} of the episode with seed 17: RuntimeError: the motor is too hot."
    assert str(caught.value).endswith(text)
    assert ":Failing " in str(caught.value)
    assert caught.value.__cause__ is cause
    assert (caught.value.exit_code, isinstance(caught.value, MosaicError)) == (1, True)


@pytest.mark.parametrize("where", ["reset", "step"])
def test_errors_of_mosaic_pass_through(where):
    error = InputError("the port is taken")
    runner = LocalEnvRunner(mosaic.make_env(Failing(error, where)), {"*": "random"})
    with runner, pytest.raises(InputError) as caught:
        runner.run(17)
    assert caught.value is error


@pytest.mark.parametrize("runners", [1, 2])
def test_an_evaluation_names_the_episode_also_from_another_process(tmp_path, monkeypatch, runners):
    (tmp_path / "hot_env.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MosaicError) as caught:
        mosaic.evaluate("python:hot_env.py:Hot", {"*": "random"}, episodes=2, seed=5, num_env_runners=runners)
    seeds = [child_seed(5, "episode", index) for index in range(2)]
    assert any(
        f"step 3 of the episode with seed {seed}: RuntimeError: the motor is" in str(caught.value) for seed in seeds
    )
    told = [str(caught.value.__cause__), *getattr(caught.value, "__notes__", ())]
    assert any("the motor is too hot" in each for each in told)
