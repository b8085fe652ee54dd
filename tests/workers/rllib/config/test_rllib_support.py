"""What cannot be trained is refused before anything starts, and the message says what can."""

import pytest

from mosaic.core.errors import InputError
from mosaic.workers.rllib.config.algorithms import OFFLINE
from mosaic.workers.rllib.config.options import OPTIONS
from mosaic.workers.rllib.config.support import ALGORITHMS, CONFIGURATIONS, check_support, is_supported, table
from mosaic.workers.rllib.worker import worker
from tests.workers.rllib.rllib_setups import make_setup


def check(tmp_path, env, algorithm="ppo", learners=1, **said):
    setup = make_setup(tmp_path, env, algorithm, **said)
    check_support(algorithm, setup.options, setup.roles, setup.spec, learners=learners)


def test_the_table_knows_the_algorithms_that_have_options():
    assert {*ALGORITHMS, *OFFLINE} == set(OPTIONS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_worker_declares_what_is_supported(algorithm):
    supported = {each for each in CONFIGURATIONS if is_supported(algorithm, each)}
    assert set(worker.info.paradigms_of(algorithm)) == supported


def test_self_play_with_replay_names_who_can_and_what_else_can_be_done(tmp_path):
    with pytest.raises(InputError) as caught:
        check(tmp_path, "classic/tictactoe_v3", "dqn", policy_configuration="self_play")
    assert str(caught.value) == (
        "RLlib's dqn cannot train with self_play: its replay buffer keeps what every snapshot did, and RLlib samples "
        "all of that again and again. Use --algo ppo, appo, impala or a2c, or leave dqn and use --policies "
        "parameter_sharing or independent."
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("algorithm", ["dqn", "sac"])
def test_a_central_critic_needs_a_critic(tmp_path, algorithm):
    with pytest.raises(InputError, match=f"RLlib's {algorithm} cannot train with shared_value_function"):
        check(tmp_path, "mpe/simple_spread_v3", algorithm, policy_configuration="shared_value_function")


def test_self_play_needs_a_learner_that_makes_its_own_batches(tmp_path):
    params = {"num_aggregator_actors_per_learner": 1}
    with pytest.raises(InputError, match=r"num_aggregator_actors_per_learner: in self-play .* set it to 0"):
        check(tmp_path, "classic/tictactoe_v3", "impala", policy_configuration="self_play", params=params)


def test_one_policy_has_nobody_to_share_an_encoder_with(tmp_path):
    with pytest.raises(InputError, match=r"only one policy, 'shared', and none to share with\. Leave it out"):
        check(tmp_path, "mpe/simple_spread_v3", params={"shared_encoder": True})


def test_an_encoder_is_shared_among_those_who_see_alike(tmp_path):
    with pytest.raises(InputError, match="shared_encoder: adversary_0 and agent_0 see different things"):
        check(tmp_path, "mpe/simple_tag_v3", policy_configuration="independent", params={"shared_encoder": True})


def test_shared_parts_have_one_learner(tmp_path):
    said = {"policy_configuration": "independent", "params": {"shared_encoder": True}}
    check(tmp_path, "mpe/simple_spread_v3", **said)
    with pytest.raises(InputError, match=r"num_learners=2: parts that policies share .* Set num_learners to 1"):
        check(tmp_path, "mpe/simple_spread_v3", learners=2, **said)


def test_the_table_for_the_docs_says_what_the_check_says():
    rows = [line.strip("| ").split(" | ") for line in table().splitlines() if line.startswith("| ")]
    said = {row[0]: row[1:] for row in rows[1:]}
    assert list(said) == list(ALGORITHMS)
    for algorithm, cells in said.items():
        for configuration, cell in zip(CONFIGURATIONS, cells, strict=False):
            assert cell == ("yes" if is_supported(algorithm, configuration) else "no")
    assert "- dqn without `self_play`: its replay buffer" in table()
