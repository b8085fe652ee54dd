"""policies_to_train as RLlib's function of (policy, batch): called with every batch, and obeyed."""

import pytest

from mosaic.core.errors import MosaicError
from tests.workers.rllib.test_rllib_policies import TAG, built, equal, weights_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]

asked: list[tuple[str, set[str]]] = []


def in_turns(policy, batch):
    """Train each policy in every other batch, beginning with `adversary`; the batch holds those of both."""
    asked.append((policy, set(batch.policy_batches)))
    batches = sum(name == policy for name, _ in asked)
    return (policy == "adversary") == (batches % 2 == 1)


def only_named_shared(policy, batch):
    return policy == "shared"


def nobody(policy, batch):
    return False


def test_each_batch_trains_what_the_function_chooses(tmp_path):
    asked.clear()
    with built(tmp_path, TAG, policies_to_train=f"python:{__name__}:in_turns") as algo:
        for trained, kept in (("adversary", "agent"), ("agent", "adversary")):
            before = {name: weights_of(algo, name) for name in ("agent", "adversary")}
            algo.train()
            assert not equal(before[trained], weights_of(algo, trained))
            assert equal(before[kept], weights_of(algo, kept))
    assert sorted(name for name, _ in asked) == ["adversary", "adversary", "agent", "agent"]
    assert {"agent", "adversary"} in [names for _, names in asked]


def test_a_single_agent_has_its_policys_name_and_something_must_be_chosen(tmp_path):
    from mosaic.workers.rllib.config.build import configure
    from tests.workers.rllib.rllib_setups import make_setup

    for function, fails in (("only_named_shared", False), ("nobody", True)):
        setup = make_setup(tmp_path, "gym/CartPole-v1", policies_to_train=f"python:{__name__}:{function}")
        algo = configure(setup).build_algo()
        try:
            before = weights_of(algo, "default_policy")
            if fails:
                with pytest.raises(MosaicError, match="nobody chose no policy to train for a batch"):
                    algo.train()
            else:
                algo.train()
                assert not equal(before, weights_of(algo, "default_policy"))
        finally:
            algo.stop()
