"""A worker is never started in an env that it did not promise to train in."""

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.testing.toys import crowd
from mosaic.workers import resolution
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.capability_check import cares, check_fit, space_kind
from mosaic.workers.resolution import resolve
from mosaic.workers.toy import ToyWorker
from tests.workers.hosting import run_config

COIN = spaces.Discrete(2)


def capabilities(**promises):
    told = {"name": "some", "version": "1", "algorithms": ("a",), "paradigms": ("parameter_sharing",), **promises}
    return WorkerCapabilities(**told)


def spec(agents=1, observation=COIN, action=COIN):
    names = tuple(f"agent_{n}" for n in range(agents))
    return EnvSpec(EnvFacts(crowd(agents)), names, dict.fromkeys(names, observation), dict.fromkeys(names, action))


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Discrete(3), "discrete"),
        (spaces.MultiDiscrete([2, 3]), "multi_discrete"),
        (spaces.MultiBinary(4), "multi_binary"),
        (spaces.Box(-1, 1, (4,)), "box"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), "pictures"),
        (spaces.Box(0, 255, (128,), np.uint8), "box"),
        (spaces.Box(0, 1, (8, 8), np.float32), "box"),
        (spaces.Dict(a=spaces.Discrete(2)), "dict"),
        (spaces.Tuple([spaces.Discrete(2)]), "tuple"),
        (spaces.Text(4), None),
    ],
)
def test_kinds_of_spaces(space, kind):
    assert space_kind(space) == kind


def test_as_many_agents_as_promised_fit_and_no_more():
    info = capabilities(max_agents=2)
    check_fit(info, spec(agents=2))
    with pytest.raises(InputError, match=r"The worker some trains at most 2 agents, and python:.* has 3. Take an env"):
        check_fit(info, spec(agents=3))
    with pytest.raises(InputError, match="trains at most 1 agent, and"):
        check_fit(capabilities(max_agents=1), spec(agents=2))


def test_spaces_of_other_kinds_are_refused():
    info = capabilities(action_kinds=("discrete",), observation_kinds=("box", "discrete"))
    check_fit(info, spec())
    with pytest.raises(InputError, match=r"the action of 'agent_0' is Box.*, and it knows discrete. Take another"):
        check_fit(info, spec(action=spaces.Box(-1, 1, (1,))))
    with pytest.raises(InputError, match=r"the observation of 'agent_0' is Text.*, and it knows box, discrete\."):
        check_fit(info, spec(observation=spaces.Text(3)))


def test_a_worker_that_names_nothing_takes_anything():
    info = capabilities()
    assert not cares(info)
    check_fit(info, spec(agents=9, observation=spaces.Text(3), action=spaces.Text(3)))


def test_a_run_that_does_not_fit_is_refused_before_it_starts():
    with pytest.raises(InputError, match="The worker toy cannot train gym/Pendulum-v1: the action of 'agent_0' is Box"):
        resolve(run_config("toy", environment={"env_id": "gym/Pendulum-v1"}))


def test_max_agents_counts_the_envs_agents(monkeypatch):
    pair = ToyWorker()
    pair.info = pair.info.model_copy(update={"max_agents": 2})
    monkeypatch.setattr(resolution, "load_worker", lambda name: pair)
    assert resolve(run_config("toy", environment=crowd(2).model_dump())).config.training.algorithm == "walk"
    with pytest.raises(InputError, match=r"The worker toy trains at most 2 agents, and .*Crowd has 3"):
        resolve(run_config("toy", environment=crowd(3).model_dump()))


def test_a_program_may_train_in_an_env_that_nobody_knows():
    config = run_config("script", {"command": "true"}, environment={"env_id": "mine/SecretEnv"})
    assert resolve(config).config.training.algorithm == "program"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"worker": "tyo"}, "There is no worker named 'tyo'. Did you mean 'toy'?"),
        ({"worker": "toy", "training": {"algorithm": "wolk"}},
         "There is no algorithm of the worker toy named 'wolk'. Did you mean 'walk'?"),
        ({"worker": "toy", "policy_configuration": "shared_value_function"},
         "The worker toy has no policy configuration 'shared_value_function'. It has: parameter_sharing, independent"),
        ({"worker": "toy", "params": {"nose": 1}}, "there is no option 'nose'. Did you mean 'noise'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_explained(config, message):
    with pytest.raises(InputError) as caught:
        resolve(run_config(**config))
    assert message in str(caught.value)
