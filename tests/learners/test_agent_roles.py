"""Who learns what: the four policy configurations, explicit mappings, and what is refused."""

from functools import cache

import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.learners.agent_roles import read_agent_roles
from tests.learners.small_runs import SPREAD, TICTACTOE, run_config

TAG, ADVERSARY = "mpe/simple_tag_v3", "mpe/simple_adversary_v3"


@cache
def spec_of(env_id):
    env = make_env(env_id)
    try:
        return env.spec
    finally:
        env.close()


def cast(env_id, **settings):
    return read_agent_roles(run_config(env_id, **settings), spec_of(env_id))


def refusal(env_id, **settings):
    with pytest.raises(InputError) as caught:
        cast(env_id, **settings)
    return str(caught.value)


def policies(roles):
    return {agent: roles.plan.names[k] for agent, k in zip(roles.learners, roles.plan.policy_of, strict=True)}


def test_parameter_sharing_is_one_policy_for_all():
    assert policies(cast(SPREAD)) == dict.fromkeys(("agent_0", "agent_1", "agent_2"), "shared")
    assert cast(SPREAD) == cast(SPREAD, policy_configuration="PARAMETER_SHARING")


def test_agents_that_see_or_act_differently_get_policies_of_their_own():
    assert policies(cast(TAG)) == {
        "adversary_0": "adversary",
        "adversary_1": "adversary",
        "adversary_2": "adversary",
        "agent_0": "agent",
    }
    assert policies(cast(ADVERSARY)) == {"adversary_0": "adversary", "agent_0": "agent", "agent_1": "agent"}


def test_independent_is_one_policy_each():
    roles = cast(SPREAD, policy_configuration="independent")
    assert policies(roles) == {agent: agent for agent in ("agent_0", "agent_1", "agent_2")}
    assert not roles.plan.central


def test_a_shared_value_function_has_an_actor_for_each_agent():
    plan = cast(SPREAD, policy_configuration="shared_value_function").plan
    assert plan.central
    assert plan.shares_critic
    assert plan.names == ("agent_0", "agent_1", "agent_2")


def test_groups_beside_a_shared_critic_have_one_actor():
    roles = cast(SPREAD, policy_configuration="shared_value_function", agents={"agent_0": "lead", "*": "pack"})
    assert policies(roles) == {"agent_0": "lead", "agent_1": "pack", "agent_2": "pack"}


def test_a_shared_actor_is_an_option():
    said = {"policy_configuration": "shared_value_function", "training": {"params": {"shared_actor": True}}}
    plan = cast(SPREAD, **said).plan
    assert (plan.central, plan.names, plan.shares_critic) == (True, ("shared",), False)
    assert cast(ADVERSARY, **said).plan.names == ("adversary", "agent")


def test_a_shared_actor_without_a_shared_critic_is_refused():
    assert refusal(SPREAD, policy_configuration="independent", training={"params": {"shared_actor": True}}) == (
        "shared_actor=true: only shared_value_function has actors of their own beside a shared critic, and this run "
        "trains with independent. Leave it out, or add --policies shared_value_function."
    )


def test_self_play_is_one_learner_as_every_agent():
    roles = cast(TICTACTOE, policy_configuration="self_play", agents={"player_2": "self@-500"})
    assert policies(roles) == {"player_1": "learner", "player_2": "learner"}
    assert roles.plan.self_play
    assert roles.ages == {"player_2": 500}
    assert roles.unbound == ("player_1",)


def test_rules_with_patterns_say_who_shares_what():
    roles = cast(TAG, agents={"adversary_0": "leader", "adversary_*": "pack", "agent_0": "prey"})
    assert policies(roles) == {
        "adversary_0": "leader",
        "adversary_1": "pack",
        "adversary_2": "pack",
        "agent_0": "prey",
    }
    partly = cast(SPREAD, agents={"agent_1,agent_2": "pair"}, policy_configuration="independent")
    assert policies(partly) == {"agent_0": "agent_0", "agent_1": "pair", "agent_2": "pair"}


def test_a_policy_that_exists_plays_and_does_not_learn():
    roles = cast(TAG, agents={"agent_0": "random"})
    assert roles.played == {"agent_0": "random"}
    assert set(policies(roles)) == {"adversary_0", "adversary_1", "adversary_2"}
    assert cast(TICTACTOE, agents={"player_2": "minimax:depth=2"}).played == {"player_2": "minimax:depth=2"}


def by_side(agent, episode):
    return agent.split("_")[0]


def fickle(agent, episode):
    return f"policy_{episode % 2}"


def only_agent(policy):
    return policy == "agent"


def test_a_function_may_map():
    assert policies(cast(TAG, agents=f"python:{__name__}:by_side")) == {
        "adversary_0": "adversary",
        "adversary_1": "adversary",
        "adversary_2": "adversary",
        "agent_0": "agent",
    }


def test_some_policies_may_stay_as_they_are():
    assert cast(TAG, policies_to_train=["agent"]).plan.trained == (False, True)
    assert cast(TAG, policies_to_train=f"python:{__name__}:only_agent").plan.trained == (False, True)
    assert "There is no policy that learns named 'agents'. Did you mean 'agent'?" in refusal(
        TAG, policies_to_train=["agents"]
    )


def test_what_does_not_fit_is_refused_with_the_reason():
    assert refusal(TICTACTOE, agents={"player_2": "human"}) == (
        "A person cannot play player_2 while a policy trains: training plays thousands of steps in a second. "
        "Train without it, then type: mosaic play ENV --agent NAME=human --agent OTHER=run:latest. To learn from what "
        "people do, type --algo dagger --set training.params.expert=human --demo NAME; or train on games with a "
        "person: mosaic train external:PORT --set environment.options.env=classic/tictactoe_v3 --agent player_2=human, "
        "which waits for a program that reports what the person does (docs/external.md)"
    )
    assert refusal(TICTACTOE, agents={"*": "random"}) == (
        "There is nothing to learn: every agent of classic/tictactoe_v3 has a fixed policy. Leave one --agent out."
    )
    assert refusal(TICTACTOE, agents={"player_2": "self@-9"}) == (
        "self@-N is an opponent in self-play: add --policies self_play."
    )
    for misspelt in ("self@-x", "self@5"):
        assert refusal(TICTACTOE, agents={"player_2": misspelt}, policy_configuration="self_play") == (
            f"'{misspelt}' is not a snapshot. Type self@-N, where N is its age in env steps: self@-10000."
        )
    assert refusal(TICTACTOE, agents={"player_2": "random"}, policy_configuration="self_play") == (
        "In self-play at least two agents learn, but here only player_1 does. Add --policies parameter_sharing."
    )
    assert refusal(TICTACTOE, agents={"player_9": "random"}).startswith("There is no agent 'player_9'. Did you mean")
    said = refusal(TICTACTOE, agents={"player_2": "strong"}, policy_configuration="self_play")
    assert said.startswith("There is no policy named 'strong' for player_2 to be played by, and in self-play one ")
    assert said.endswith(
        "Leave --agent out, or train a policy named 'strong' with --policies parameter_sharing or independent."
    )


@pytest.mark.parametrize("policy", ["randon", "Random", "minmax", "minmax:depth=2", "engine:depth=2", "a,b"])
def test_a_policy_that_does_not_exist_is_not_taken_for_the_name_of_a_new_one(policy):
    assert refusal(SPREAD, agents={"agent_0": policy}).startswith(f"There is no policy named '{policy}'.")


def test_options_that_a_policy_does_not_have_are_refused():
    said = refusal(TICTACTOE, agents={"player_2": "minimax:dept=3"})
    assert said.startswith("'minimax:dept=3': there is no option 'dept'. Did you mean 'depth'?")
    assert "A person cannot play player_2" in refusal(TICTACTOE, agents={"player_2": "human:keys=wasd"})


def test_a_name_like_that_of_a_kind_can_be_insisted_on():
    said = refusal(SPREAD, agents={"agent_0": "randoms"})
    assert "To train a policy of that name, list it in policies_to_train: [randoms]." in said
    roles = cast(SPREAD, agents={"agent_0": "randoms"}, policies_to_train=["randoms", "shared"])
    assert policies(roles)["agent_0"] == "randoms"
    assert policies(cast(SPREAD, agents={"agent_0": "runner"}))["agent_0"] == "runner"  # not run:


def nothing(policy):
    return False


def test_something_must_be_left_to_learn():
    assert refusal(TAG, policies_to_train=f"python:{__name__}:nothing") == (
        "policies_to_train leaves nothing to learn. Policies here: adversary, agent."
    )
    assert "not a function of a policy's name" in refusal(TAG, policies_to_train=f"python:{__name__}:TAG")


def test_a_plan_must_fit_what_agents_see_and_do():
    assert refusal(TAG, agents={"*": "one"}) == (
        "The agents adversary_0 and agent_0 cannot share the policy 'one': their observations or actions differ. "
        "Use --policies independent, or map them to policies of their own: --agent adversary_0=NAME "
        "--agent agent_0=OTHER."
    )
    assert refusal(TICTACTOE, policy_configuration="shared_value_function") == (
        "shared_value_function needs agents that act at the same time; in a turn-based env no other agent's "
        "observation "
        "is known. Use --policies parameter_sharing, independent or self_play."
    )
