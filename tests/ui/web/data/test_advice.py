"""Advice in error messages, as changes of a draft; names of new runs."""

from __future__ import annotations

from mosaic.ui.web.data.advice import advice_in, places_in, without_advice
from mosaic.ui.web.data.draft import Draft, next_name, suggest_name


def test_advice_becomes_a_change_of_the_draft() -> None:
    draft = Draft(env="classic/connect_four_v3", worker="native", algorithm="dqn", paradigm="self_play")
    draft.agents = {"player_1": "minimax"}
    error = "DQN does not support it. Use --policies parameter_sharing, or PPO: --algo ppo. Type: --worker native"
    found = advice_in(error, draft)
    assert [advice.label for advice in found] == ["Use parameter sharing", "Use the algorithm ppo"]
    for advice in found:
        advice.apply(draft)
    assert (draft.paradigm, draft.algorithm, draft.agents) == ("parameter_sharing", "ppo", {"player_1": "minimax"})


def test_a_proposed_setting_is_set_where_it_belongs() -> None:
    draft = Draft(worker="native", algorithm="ppo")
    error = "Type: --set resources.num_gpus=1. Or --set training.params.memory=lstm, not --set nonsense=1."
    found = advice_in(error, draft)
    assert [advice.label for advice in found] == ["Set num gpus to 1", "Set memory to lstm"]
    for advice in found:
        advice.apply(draft)
    assert draft.sections["resources"] == {"num_gpus": 1}
    assert draft.params == {"memory": "lstm"}


def test_what_a_button_does_is_not_said_too() -> None:
    draft = Draft(worker="native", algorithm="ppo", paradigm="self_play")
    error = "In self-play two agents learn, but here only a does. Add --policies parameter_sharing."
    found = advice_in(error, draft)
    assert without_advice(error, found) == "In self-play two agents learn, but here only a does."
    assert without_advice(error, []) == error
    assert without_advice("Type: --policies independent", advice_in("Type: --policies independent", draft)) != ""


def test_a_message_without_advice_offers_nothing() -> None:
    assert advice_in("There is no env 'x'.", Draft()) == []


def test_settings_in_a_message_are_found() -> None:
    assert places_in("resources.num_gpus is 1, and training.params.lr: it should be less") == [
        ("resources", "num_gpus"),
        ("params", "lr"),
    ]


def test_a_run_without_a_name_gets_a_short_one() -> None:
    draft = Draft(env="gym/CartPole-v1", algorithm="q_learning")
    assert suggest_name(draft, []) == "cartpole-q-learning"
    assert suggest_name(draft, ["cartpole-q-learning"]) == "cartpole-q-learning-2"
    assert suggest_name(draft, ["cartpole-q-learning-1"]) == "cartpole-q-learning-2"
    assert [next_name(name) for name in ("walk", "walk-9", "")] == ["walk-2", "walk-10", ""]
