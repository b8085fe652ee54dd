"""policies_to_train: names, functions of a policy and of (policy, batch), and signatures that are refused."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.trained_policies import BatchRule, read_trained

NAMES = ("red", "blue")
WIDTH = 3


def only_red(policy):
    return policy == "red"


def full_red(policy, batch):
    return policy == "red" and batch["red"] > 10


def both_ways(policy, batch=None):
    return policy == "blue"


def nobody():
    return True


def three(policy, batch, more):
    return True


def keyword(policy, *, batch):
    return True


def says_yes(policy):
    return "yes"


def fails(policy):
    raise KeyError(policy)


async def later(policy):
    return True


class Rule:
    def __init__(self, policy):
        pass


class Callable:
    def __call__(self, policy, batch):
        return True


instance = Callable()


def own(name):
    return f"python:{__name__}:{name}"


def refusal(asked, **also):
    with pytest.raises(InputError) as caught:
        read_trained(asked, NAMES, **also)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("honours_batches", [True, False])
def test_names_and_a_function_of_the_policy_decide_once(honours_batches):
    for asked in (("red",), own("only_red")):
        found = read_trained(asked, NAMES, honours_batches=honours_batches)
        assert (found.trained, found.by_batch) == ((True, False), None)
    assert read_trained(None, NAMES).trained == (True, True)


@pytest.mark.parametrize("name", ["full_red", "instance"])
def test_a_function_of_policy_and_batch_is_passed_on_or_refused(name):
    found = read_trained(own(name), NAMES, honours_batches=True)
    assert (found.trained, found.by_batch) == ((True, True), own(name))
    assert refusal(own(name)) == (
        f"{own(name)} takes (policy, batch), so it decides for every batch, and this worker decides once, before "
        "training. Write it as a function of the policy's name, def f(policy) -> bool, or train with --worker rllib."
    )


def test_a_function_that_needs_no_batch_is_asked_once_where_there_is_none():
    assert read_trained(own("both_ways"), NAMES).trained == (False, True)
    assert read_trained(own("both_ways"), NAMES, honours_batches=True).by_batch == own("both_ways")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", "nobody() cannot be called with a policy's name, nor with (policy, batch): write def f(policy)"),
        ("three", "three(policy, batch, more) cannot be called"),
        ("keyword", "keyword(policy, *, batch) cannot be called"),
        ("WIDTH", "WIDTH is a int, not a function of a policy's name"),
        ("Rule", "Rule is the class Rule, not a function"),
        ("later", "later returns a coroutine or generator"),
        ("says_yes", "says_yes('red') returned 'yes' instead of true or false."),
        ("fails", "fails('red') raised KeyError: 'red'"),
    ],
)
@pytest.mark.parametrize("honours_batches", [True, False])
def test_wrong_functions_are_refused(name, said, honours_batches):
    assert said in refusal(own(name), honours_batches=honours_batches)


def test_the_rule_is_asked_for_every_batch_in_any_process():
    rule = pickle.loads(pickle.dumps(BatchRule(own("full_red"), {"default_policy": "red"})))
    assert [rule("default_policy", {"red": rows}) for rows in (5, 20)] == [False, True]
    assert rule("blue") is True, "without a batch RLlib asks which policies may change at all"
    with pytest.raises(InputError, match="returned 'yes' instead"):
        BatchRule(own("says_yes_to_all"), {})("red", {})


def says_yes_to_all(policy, batch):
    return "yes"


def says_nothing(policy, batch):
    batch == 3  # noqa: B015  # a forgotten return


def says_what_it_is_given(policy, batch):
    return batch


def one_or_zero(policy):
    return int(policy == "red")


@pytest.mark.parametrize("answer", [1, True, 0.5, np.bool_(True), np.array([2])])
def test_answers_are_understood_as_rllib_does(answer):
    rule = BatchRule(own("says_what_it_is_given"), {})
    assert rule("red", answer) is True
    assert rule("red", type(answer)(0) if not isinstance(answer, np.ndarray) else np.zeros(1)) is False
    assert read_trained(own("one_or_zero"), NAMES).trained == (True, False)


@pytest.mark.parametrize("answer", ["no", [], {"red": True}, np.zeros(2)])
def test_answers_that_are_neither_true_nor_false_are_refused_with_the_form_to_write(answer):
    with pytest.raises(InputError, match=r"\('red'\) returned.*Return True or False: def f") as caught:
        BatchRule(own("says_what_it_is_given"), {})("red", answer)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["says_yes_to_all", "says_nothing"])
def test_wrong_answers_are_found_before_training_where_no_batch_is_needed(name):
    with pytest.raises(InputError, match="instead of true or false"):
        BatchRule(own(name), {"red": "red"}).rehearse()


def test_a_function_that_needs_a_batch_is_left_for_training():
    BatchRule(own("full_red"), {"red": "red"}).rehearse()


def by_reward(policy, batch):
    return batch.policy_batches[policy]["reward"].mean() > 0


def test_a_function_that_fails_on_a_batch_is_named_with_what_it_was_given():
    batch = SimpleNamespace(policy_batches={"default_policy": {"obs": [], "rewards": []}})
    for given, said in (
        (batch, "a SimpleNamespace: batch.policy_batches has ['red'] with obs, rewards. Correct"),
        ({}, "The batch is a dict."),
    ):
        with pytest.raises(MosaicError, match=r"by_reward\('red', batch\) raised \w+Error: .*The batch is a") as caught:
            BatchRule(own("by_reward"), {"default_policy": "red"})("default_policy", given)
        assert said in str(caught.value)


def rewarded(policy, batch):
    return batch.policy_batches[policy]["rewards"].mean() > 0


def test_the_batch_has_the_names_that_the_function_is_asked_about():
    rule = BatchRule(own("rewarded"), {"default_policy": "red"})
    for reward in (1.0, 0.0):
        batch = SimpleNamespace(policy_batches={"default_policy": {"rewards": np.full(3, reward)}})
        assert rule("default_policy", batch) is bool(reward)
        assert list(batch.policy_batches) == ["default_policy"], "RLlib trains with the batch as it was"
