"""Mapping functions while training: policies that change from episode to episode, in the native learner."""

from contextlib import closing

import numpy as np
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.agent_roles import read_mapping
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from tests.learners.small_runs import SPREAD, TICTACTOE, assembled, run_config
from tests.learners.test_agent_roles import TAG, cast, refusal, spec_of


def in_turns(agent, episode):
    """Give agent_0 `even` and `odd` in turns; the other two agents always have `rest`."""
    return ("even", "odd")[episode % 2] if agent == "agent_0" else "rest"


def late(agent, episode):
    return "late" if episode > 1500 else in_turns(agent, episode)


def sometimes_random(agent, episode):
    return "random" if episode % 2 else "red"


def mostly_random(agent, episode):
    return "red" if episode % 2 else "random"


def sometimes_frozen(agent, episode):
    return "learner" if agent == "player_1" else f"self@-{100 + 100 * (episode % 2)}"


def sometimes_human(agent, episode):
    return "mine" if agent == "player_1" else ("random", "human")[episode == 30]


def many_opponents(agent, episode):
    """Let player_1 learn against `random` and `minimax` in turns."""
    return "mine" if agent == "player_1" else ("random", "minimax")[episode % 2]


def pairs(agent, episode):
    """Let `even` meet `random`, and `odd` meet `minimax`."""
    return (("even", "random"), ("odd", "minimax"))[episode % 2][agent == "player_2"]


def swapped(agent, episode):
    return "one" if (agent == "agent_0") == (episode % 2 == 0) else "other"


def own(name):
    return f"python:{__name__}:{name}"


def test_all_names_are_found_before_the_run():
    plan = cast(SPREAD, agents=own("in_turns")).plan
    assert plan.names == ("even", "rest", "odd")
    assert plan.agents_of(2, ("agent_0", "agent_1", "agent_2")) == ("agent_0",)
    assert cast(SPREAD, agents=own("in_turns"), policies_to_train=["odd"]).plan.trained == (False, False, True)


def test_what_cannot_vary_is_refused():
    for function in ("sometimes_random", "mostly_random"):  # also where a fixed policy plays the first episode
        said = refusal(SPREAD, agents=own(function))
        assert "gives agent_0 the policy 'red', which learns, in some episodes, and 'random', which does not" in said
        assert "--policies self_play --set training.params.opponents='[\"random\"]'" in said
    said = refusal(TICTACTOE, agents=own("sometimes_frozen"), policy_configuration="self_play")
    assert "gives player_2 'self@-100' in some episodes only (self@-100, self@-200)" in said
    assert "A person cannot play player_2" in refusal(TICTACTOE, agents=own("sometimes_human"))
    assert "The agents adversary_0 and agent_0 cannot share the policy" in refusal(TAG, agents=own("swapped"))
    said = refusal(SPREAD, agents=own("in_turns"), policy_configuration="shared_value_function")
    assert said.endswith("train with --policies parameter_sharing or independent, not shared_value_function.")
    with pytest.raises(InputError, match="with this worker an agent keeps its policy while training"):
        read_mapping(run_config(SPREAD, agents=own("in_turns")), spec_of(SPREAD))
    with pytest.raises(
        InputError, match=r"gives player_2 different policies in different episodes \(minimax, random\)"
    ):
        read_mapping(run_config(TICTACTOE, agents=own("many_opponents")), spec_of(TICTACTOE))


def test_a_name_that_comes_later_is_an_error_that_says_so():
    episodes = cast(SPREAD, agents=own("late")).episodes
    assert episodes.policy("agent_0", 1001) == "odd"
    with pytest.raises(MosaicError, match=r"late\('agent_0', 2000\) returned 'late', and in the first 1,000 episodes"):
        episodes.policy("agent_0", 2000)


@pytest.mark.parametrize("options", [{}, {"engine": "torch"}])
def test_each_episode_is_played_and_learned_by_its_own_policy(options):
    settings = {"agents": own("in_turns"), "envs": 3, "env_options": {"max_cycles": 5}}
    with assembled(SPREAD, {**options, "n_steps": 20}, **settings) as made:
        assert "policies change from episode to episode" in made.said
        learner = made.learner
        (worker,) = learner.workers
        names, before = learner.plan.names, [learner.weights(k) for k in range(3)]
        first = worker.assignment.policy_of[:, 0].copy()
        learner.iterate()
        after = [learner.weights(k) for k in range(3)]
    assert [names[k] for k in first] == ["even", "odd", "even"], "episodes are numbered as they begin"
    played = worker.buffer.track.policy_of.reshape(20, 3, 3)  # step, env, agent
    assert (played[:, :, 1:] == names.index("rest")).all()
    for env in range(3):
        episodes = played[:, env, 0].reshape(4, 5)
        assert (episodes == episodes[:, :1]).all(), "a policy plays whole episodes"
        assert [names[k] for k in episodes[:, 0]] == [("even", "odd")[(env + 3 * k) % 2] for k in range(4)]
    assert all(not np.array_equal(*pair) for pair in zip(before, after, strict=True))
    assert [len(returns) for returns in learner.progress().returns] == [6, 24, 6]


def test_a_resumed_run_continues_to_count():
    config = run_config(SPREAD, agents=own("in_turns"), envs=1, env_options={"max_cycles": 5})
    with closing(assemble(config, PpoOptions(n_steps=5, batch_size=5), episodes_before=7).learner) as learner:
        assert learner.plan.names[learner.workers[0].assignment.policy_of[0, 0]] == "odd"


def test_fixed_policies_change_with_the_policies_that_learn():
    assert cast(TICTACTOE, agents=own("many_opponents")).every_played == {"player_2": ("random", "minimax")}
    with assembled(TICTACTOE, {"n_steps": 7}, agents=own("pairs"), envs=3) as made:
        learner, met = made.learner, []
        (worker,) = learner.workers
        for restarted in (False, True):
            if restarted:
                worker.restore_envs({}, 100)
            for _ in range(4):
                learner.iterate()
                learned = [learner.plan.names[policy] for policy in worker.assignment.policy_of[:, 0]]
                met += zip(learned, (worker.vector._others._by_env[env]["player_2"] for env in range(3)), strict=True)
    assert set(met) == {("even", "random"), ("odd", "minimax")}


def of_nothing():
    return "red"


def test_a_wrong_signature_is_refused():
    said = refusal(SPREAD, agents=own("of_nothing"))
    assert (
        "of_nothing('agent_0', 0) raised TypeError: of_nothing() takes 0 positional arguments but 2 were given." in said
    )


def test_the_example_maps_and_chooses():
    from examples.mapping import in_turns

    roles = cast(TAG, agents="python:examples.mapping:two_preys")
    assert roles.plan.names == ("hunters", "fast", "slow")
    roles = cast(TICTACTOE, agents="python:examples.mapping:harder_and_harder")
    assert (roles.plan.names, roles.every_played) == (("student",), {"player_2": ("random", "minimax")})
    answers = [(in_turns("adversary", {}), in_turns("agent", {})) for _ in range(20)]
    assert answers == [(True, False)] * 10 + [(False, True)] * 10
