"""Every cell of the table of algorithms and policy configurations is true."""

from dataclasses import replace

import pytest

from mosaic.workers.rllib.config.support import ALGORITHMS, FEATURES, check_support, is_supported
from mosaic.workers.rllib.self_play import LeagueManager
from tests.workers.rllib.rllib_setups import make_setup

CELLS = [(algorithm, feature) for algorithm in ALGORITHMS for feature in FEATURES if is_supported(algorithm, feature)]
NUMBERS = {"max_cycles": 10, "continuous_actions": True}  # as SAC has them

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]


def setup_of(tmp_path, algorithm, feature):
    options = NUMBERS if algorithm in ("sac", "tqc") else {"max_cycles": 10}
    if feature == "shared_encoder":
        said = {"policy_configuration": "independent", "params": {"shared_encoder": True}}
        return make_setup(tmp_path, "mpe/simple_spread_v3", algorithm, env_options=options, **said)
    if feature == "self_play":
        return make_setup(tmp_path, "classic/tictactoe_v3", algorithm, policy_configuration=feature)
    return make_setup(tmp_path, "mpe/simple_tag_v3", algorithm, env_options=options, policy_configuration=feature)


def weights(algo):
    state = algo.learner_group.get_state(components="learner/rl_module")["learner"]["rl_module"]
    return {(module, name): value.copy() for module, found in state.items() for name, value in found.items()}


@pytest.mark.parametrize(("algorithm", "feature"), CELLS)
def test_it_trains_every_policy(tmp_path, algorithm, feature):
    from mosaic.workers.rllib.config.build import configure

    setup = setup_of(tmp_path, algorithm, feature)
    check_support(algorithm, setup.options, setup.roles, setup.spec)
    self_play = LeagueManager(setup) if feature == "self_play" else None
    algo = configure(setup, self_play.mapping() if self_play else None).build_algo()
    try:
        if self_play:
            self_play.begin(algo)
        before = weights(algo)
        for _ in range(3):
            result = algo.train()
            if self_play:
                self_play.after_iteration(algo, result, 0)
        after = weights(algo)
    finally:
        algo.stop()
    changed = {module for (module, name), value in before.items() if (value != after[module, name]).any()}
    assert changed == set(setup.modules)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context")  # Ray's own, about its own defaults
def test_two_learners_train_alike_and_in_balance(tmp_path):
    from mosaic.workers.rllib.config.build import configure

    setup = make_setup(tmp_path, "mpe/simple_tag_v3", env_options={"max_cycles": 10}, params={"num_epochs": 2})
    algo = configure(replace(setup, placement=replace(setup.placement, learners=2))).build_algo()
    try:
        learners = algo.train()["learners"]
        sums = algo.learner_group.foreach_learner(
            lambda learner: {
                name: float(sum(v.sum() for v in m.get_state().values())) for name, m in learner.module.items()
            }
        )
        first, second = (found.get() for found in sums)
    finally:
        algo.stop()
    assert first == second
    trained = {name: float(learners[name]["num_module_steps_trained"]) for name in ("agent", "adversary")}
    assert trained["adversary"] == 3 * trained["agent"] > 0
