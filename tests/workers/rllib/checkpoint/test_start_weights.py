"""Weights that an RLlib run starts from: read, compared with its networks, and loaded."""

from dataclasses import replace

import pytest
import torch

from mosaic.core.errors import InputError, TrustError
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.policies.init_source import find_init
from mosaic.workers.rllib.checkpoint.start_weights import check_start, network_shapes, read_start, shapes_of, start_from
from mosaic.workers.rllib.config.build import configure
from tests.workers.rllib.rllib_setups import make_setup

CARTPOLE = "gym/CartPole-v1"


def setup_of(folder, env, reference=None, **params):
    made = make_setup(folder, env, params=params, policy_configuration="parameter_sharing")
    training = made.config.training.model_copy(update={"init": reference})
    return replace(made, config=made.config.model_copy(update={"training": training}))


@pytest.fixture(scope="module")
def saved(ray, tmp_path_factory):
    """A checkpoint of RLlib's, written by an algorithm of the same networks that learned a little."""
    folder = tmp_path_factory.mktemp("saved")
    setup = setup_of(folder, CARTPOLE, fcnet_hiddens=[8], train_batch_size_per_learner=50, minibatch_size=50)
    algo = configure(setup).build_algo()
    try:
        algo.train()
        algo.save_to_path(str(folder / "one"))
    finally:
        algo.stop()
    return folder / "one"


@pytest.fixture
def trusted(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")


@pytest.mark.slow
def test_weights_and_optimizer_are_those_of_the_checkpoint(ray, saved, trusted, tmp_path):
    algo = configure(setup_of(tmp_path, CARTPOLE, fcnet_hiddens=[8], lr=0.5)).build_algo()
    try:
        for reference, moments in ((f"checkpoint:{saved}", False), (f"checkpoint:{saved},optimizer=true", True)):
            setup = setup_of(tmp_path, CARTPOLE, reference, fcnet_hiddens=[8], lr=0.5)
            start_from(reference, setup, algo)
            wanted = read_start(find_init(reference), setup).arrays["default_policy"]
            for name, array in algo.learner_group.get_weights()["default_policy"].items():
                assert (array == wanted[name]).all(), name
            state = algo.learner_group._learner.get_optimizer("default_policy").state_dict()
            assert bool(state["state"]) == moments
            assert state["param_groups"][0]["lr"] == 0.5  # this run's own
        own = algo.env_runner.module.state_dict()
        assert all(torch.equal(value, torch.as_tensor(wanted[name])) for name, value in own.items())
    finally:
        algo.stop()


@pytest.mark.slow
def test_other_shapes_are_refused_before_the_run_with_both(ray, saved, trusted, tmp_path):
    check_start(
        find_init(f"checkpoint:{saved}"), setup_of(tmp_path, CARTPOLE, f"checkpoint:{saved}", fcnet_hiddens=[8])
    )
    with pytest.raises(InputError, match=r"has another network than 'default_policy' of this run: .* is 8×4 there and "
                       r"16×4 here \(\d+ more differ\). Set fcnet_hiddens"):  # fmt: skip
        check_start(
            find_init(f"checkpoint:{saved}"), setup_of(tmp_path, CARTPOLE, f"checkpoint:{saved}", fcnet_hiddens=[16])
        )
    with pytest.raises(InputError, match=r"There is no policy of 'checkpoint:.*' named 'red'"):
        check_start(
            find_init(f"checkpoint:{saved},policy=red"),
            setup_of(tmp_path, CARTPOLE, f"checkpoint:{saved},policy=red", fcnet_hiddens=[8]),
        )


@pytest.mark.slow
def test_a_filter_must_be_alike(ray, saved, trusted, tmp_path):
    reference = f"checkpoint:{saved}"
    setup = setup_of(tmp_path, CARTPOLE, reference, fcnet_hiddens=[8], observation_filter="MeanStdFilter")
    algo = configure(setup).build_algo()
    try:
        with pytest.raises(InputError, match=r"was trained without an observation filter. Set training.params.observ"):
            start_from(reference, setup, algo)
    finally:
        algo.stop()


@pytest.mark.slow
def test_nothing_is_unpickled_without_trust(ray, saved, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(TrustError, match="was not written by Mosaic and holds pickles"):
        check_start(
            find_init(f"checkpoint:{saved}"), setup_of(tmp_path, CARTPOLE, f"checkpoint:{saved}", fcnet_hiddens=[8])
        )


def test_what_is_no_network_of_rllib_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no networks of RLlib, and RLlib starts from those alone"):
        read_start(find_init(f"checkpoint:{tmp_path / 'empty'}"), setup_of(tmp_path, CARTPOLE))
    with pytest.raises(InputError, match=r"training.init 'random' is none of run:RUN"):
        find_init("random")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "appo", "dqn", "sac"])
def test_shapes_known_before_the_run_are_those_of_the_learner(ray, tmp_path, algorithm):
    env = "gym/Pendulum-v1" if algorithm == "sac" else CARTPOLE
    setup = make_setup(tmp_path, env, algorithm, policy_configuration="parameter_sharing")
    algo = configure(setup).build_algo()
    try:
        weights = algo.learner_group.get_weights()
        assert network_shapes(setup) == {name: shapes_of(each) for name, each in weights.items()}
    finally:
        algo.stop()


@pytest.mark.slow
def test_each_policy_takes_the_one_of_its_name(ray, trusted, tmp_path):
    teams = {"agents": {"adversary_*": "hunters", "agent_*": "prey"}, "params": {"fcnet_hiddens": [8]}}
    algo = configure(make_setup(tmp_path, "mpe/simple_tag_v3", **teams)).build_algo()
    try:
        algo.save_to_path(str(tmp_path / "saved"))
    finally:
        algo.stop()
    setup = make_setup(tmp_path, "mpe/simple_tag_v3", **teams)
    start = read_start(find_init(f"checkpoint:{tmp_path / 'saved'}"), setup)
    assert start.modules == {"hunters": "hunters", "prey": "prey"}
    check_start(find_init(f"checkpoint:{tmp_path / 'saved'}"), setup)
    with pytest.raises(InputError, match=r"has another network than '(prey|hunters)' of this run"):
        check_start(find_init(f"checkpoint:{tmp_path / 'saved'},policy=hunters"), setup)
    other = make_setup(tmp_path, "mpe/simple_tag_v3", agents={"adversary_*": "wolves", "agent_*": "prey"})
    with pytest.raises(InputError, match=r"has no policy named 'wolves', and several others: hunters, prey. Name one"):
        read_start(find_init(f"checkpoint:{tmp_path / 'saved'}"), other)
