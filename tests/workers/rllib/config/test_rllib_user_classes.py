"""A user's own classes for RLlib: what is refused before a run exists, and how they are put together with Mosaic's."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from mosaic.core.errors import InputError
from mosaic.workers.rllib.config.build import configure, has_twin
from mosaic.workers.rllib.config.support import check_support
from mosaic.workers.rllib.env.filters import ObservationFilter
from mosaic.workers.rllib.learner.balanced import Balanced
from mosaic.workers.rllib.learner.modules import MaskedPpoModule, with_masks
from mosaic.workers.rllib.reporting.callbacks import MosaicCallback
from tests.workers.rllib.rllib_setups import make_setup

EXAMPLES = f"python:{Path(__file__).parents[4] / 'examples' / 'rllib_classes.py'}:"
HERE = "python:tests.workers.rllib.config.test_rllib_user_classes:"
CARTPOLE, TAG = "gym/CartPole-v1", "mpe/simple_tag_v3"


class Plain:
    pass


class NeedsMore(MosaicCallback):
    pass


class OwnDefault(DefaultPPOTorchRLModule):
    pass


class OwnLearner(PPOTorchLearner):
    pass


def one_argument(env: object) -> None:
    pass


def changes_env(config: Any) -> None:
    config.environment("CartPole-v1")
    config.env_runners(num_env_runners=7)


def changes_lr(config: Any) -> None:
    config.training(lr=1.0)


def changes_in_place(config: Any) -> None:
    config.env_config["seed"] = 1


def makes_another(config: Any) -> Any:
    return config.copy()


def stumbles(config: Any) -> None:
    config.training(no_such_setting=1)


def allowed(config: Any) -> Any:
    config.reporting(log_gradients=True)
    config.training(learner_config_dict={"mine": 3})
    return config


def refusal(tmp_path: Path, env: str = CARTPOLE, algorithm: str = "ppo", **params: Any) -> str:
    with pytest.raises(InputError) as refused:
        configure(make_setup(tmp_path, env, algorithm, params=params))
    return str(refused.value)


@pytest.mark.parametrize(
    ("option", "name", "told"),
    [
        ("rl_module", "Plain", "is the class Plain. It should be a class derived from ray.rllib.core.rl_module.torch"),
        ("rl_module", "one_argument", "is a function. It should be a class derived from"),
        ("rl_module", "Missing", "There is no name in tests.workers.rllib.config.test_rllib_user_classes named 'Mis"),
        ("learner", "Plain", "It should be a class derived from ray.rllib.algorithms.ppo.torch.ppo_torch_learner.PPO"),
        ("env_to_module", "Plain", "It should be a ConnectorV2 class, or a function of (env, spaces, device) that"),
        ("env_to_module", "one_argument", "is called with (env, spaces, device), and its signature is (env: 'object')"),
        ("module_to_env", "one_argument", "is called with (env, spaces)"),
        ("learner_connector", "one_argument", "is called with (observation_space, action_space)"),
        ("configure", "Plain", "It should be a function of an AlgorithmConfig."),
        ("configure", "changes_env", "may not change env, num_env_runners: Mosaic sets them itself, from the settings"),
        ("configure", "changes_lr", "Set lr with --set training.params.NAME=VALUE."),
        ("configure", "changes_in_place", "may not change env_config: Mosaic sets it itself"),
        ("configure", "makes_another", "it should change the configuration that it is given"),
        ("configure", "stumbles", "raised TypeError"),
    ],
)
def test_what_rllib_cannot_use_is_refused(tmp_path: Path, option: str, name: str, told: str):
    assert told in refusal(tmp_path, **{option: HERE + name})


def test_callbacks_are_refused_one_by_one(tmp_path: Path):
    assert "is the class Plain. It should be a class derived from ray" in refusal(tmp_path, callbacks=[HERE + "Plain"])
    assert "is called with ()" in refusal(tmp_path, callbacks=[HERE + "NeedsMore"])


def test_a_module_needs_what_the_algorithm_trains(tmp_path: Path):
    said = refusal(tmp_path, algorithm="appo", rl_module=EXAMPLES + "SkipModule")
    assert "APPOTorchLearner trains modules with TargetNetworkAPI, and SkipModule does not derive from it" in said


def test_a_learner_of_another_algorithm_is_refused(tmp_path: Path):
    said = refusal(tmp_path, algorithm="impala", learner=EXAMPLES + "DecayLearner")
    assert said.endswith("impala_torch_learner.IMPALATorchLearner.")


def test_the_hook_may_change_what_mosaic_does_not_set(tmp_path: Path):
    config = configure(make_setup(tmp_path, CARTPOLE, params={"configure": HERE + "allowed"}))
    assert config.log_gradients is True
    assert config.learner_config_dict == {"mine": 3}


def test_own_classes_stay_together_with_mosaics(tmp_path: Path):
    params = {
        "rl_module": HERE + "OwnDefault",
        "learner": HERE + "OwnLearner",
        "callbacks": [EXAMPLES + "PoleAngles"],
        "env_to_module": EXAMPLES + "Scaled",
        "observation_filter": "MeanStdFilter",
    }
    setup = make_setup(tmp_path, TAG, params=params)
    assert not has_twin(setup)
    config = configure(setup)
    assert issubclass(config.learner_class, Balanced)
    assert issubclass(config.learner_class, OwnLearner)
    (spec,) = {each.module_class for each in config.rl_module_spec.rl_module_specs.values()}
    assert issubclass(spec, OwnDefault)
    assert issubclass(spec, MaskedPpoModule.__mro__[1]), "masks stay"
    assert config.callbacks_class[0].func is MosaicCallback
    assert config.callbacks_class[1].__name__ == "PoleAngles"
    made = config._env_to_module_connector(None, None, None)
    assert [type(each).__name__ for each in made] == [ObservationFilter.__name__, "Scaled"]
    assert with_masks(MaskedPpoModule) is MaskedPpoModule


def test_parts_of_an_own_module_are_not_shared(tmp_path: Path):
    said = {"policy_configuration": "shared_value_function", "params": {"rl_module": HERE + "OwnDefault"}}
    setup = make_setup(tmp_path, "mpe/simple_spread_v3", **said)
    with pytest.raises(InputError, match="Add shared_actor=true, or leave rl_module out"):
        check_support("ppo", setup.options, setup.roles, setup.spec)


def test_a_class_reaches_processes_that_do_not_have_its_file(tmp_path: Path):
    """As with env runners: neither the file nor the module beside it can be imported there."""
    (tmp_path / "beside.py").write_text("WIDTH = 5\n")
    (tmp_path / "mine.py").write_text(
        "import beside\nfrom ray.rllib.callbacks.callbacks import RLlibCallback\n\n"
        "class Mine(RLlibCallback):\n    def width(self):\n        return beside.WIDTH\n"
    )
    try:
        setup = make_setup(tmp_path, CARTPOLE, params={"callbacks": [f"python:{tmp_path / 'mine.py'}:Mine"]})
        packed = tmp_path / "packed.pkl"
        packed.write_bytes(cloudpickle.dumps(configure(setup).callbacks_class[1]))
    finally:
        sys.path.remove(str(tmp_path))
    read = f"import pickle; print(pickle.load(open({str(packed)!r}, 'rb'))().width())"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout.strip() == "5"
    assert pickle.loads(packed.read_bytes())().width() == 5
