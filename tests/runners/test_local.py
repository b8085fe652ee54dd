"""Episodes: who acted, how it ended, what went wrong."""

import threading

import gymnasium
import numpy as np
import pytest

from mosaic import PolicyMapping, make_env
from mosaic.core.errors import UnknownNameError
from mosaic.policies.mapping import MappingError
from mosaic.policies.python import FunctionPolicyController
from mosaic.runners.local import ControllerError, IllegalActionError, LocalEnvRunner, TimeLimitError, play_episode
from mosaic.testing.toys import Alternating, Fading

TICTACTOE = "classic/tictactoe_v3"


def runner_of(env, function, **options):
    return LocalEnvRunner(env, {"*": "p"}, controllers={"p": FunctionPolicyController(function)}, **options)


def test_an_episode_says_who_did_what_and_how_each_agent_ended():
    episode = runner_of(Fading(), lambda o, m: 1).run(0)
    assert episode.ends == {"a": (2, "terminated"), "b": (4, "truncated"), "c": (4, "terminated")}
    assert episode.returns == {"a": 3.0, "b": 10.0, "c": 9.0}
    assert (episode.env_steps, episode.agent_steps) == (4, 9)
    assert [sorted(actions) for actions in episode.actions] == [["a", "b"], ["a", "b", "c"], ["b", "c"], ["b", "c"]]


def test_the_one_who_waits_is_paid():
    episode = runner_of(Alternating(), lambda o, m: 1).run(0)
    assert episode.returns["x"] < 0  # it lost while o moved


def test_same_seed_same_episode_whatever_came_before():
    env = make_env("mpe/simple_tag_v3")
    runner = LocalEnvRunner(env, PolicyMapping.of(["adversary_*=random", "*=random"]))
    one, other, again = (runner.run(seed, digests=True) for seed in (1, 2, 1))
    assert one.digests == again.digests != other.digests
    assert one.actions == again.actions


def test_two_seats_with_one_policy_draw_from_two_streams():
    runner = LocalEnvRunner(make_env("mpe/simple_spread_v3"), {"agent_0": "random", "agent_1": "random", "*": "random"})
    episode = runner.run(1)
    assert [a["agent_0"] for a in episode.actions] != [a["agent_1"] for a in episode.actions]


def test_a_cut_episode_says_so():
    episode = runner_of(make_env("gym/CliffWalking-v1"), lambda o, m: 0).run(0, max_steps=7)
    assert episode.cut
    assert episode.env_steps == 7


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (
            lambda o, m: 0,
            IllegalActionError,
            "Step 1: policy 'p' played 0, which is illegal here (legal: 1, 2, 3, 4, 5, 6, 7, 8), for agent 'player_2'.",
        ),
        (lambda o, m: -1, IllegalActionError, "Step 0: policy 'p' played -1, outside 0..8, for agent 'player_1'."),
        (lambda o, m: 1.0, IllegalActionError, "Step 0: policy 'p' played 1.0, which is not an integer, for agent"),
        (lambda o, m: np.array(1), IllegalActionError, "Step 0: policy 'p' played array(1), which is not an integer"),
        (lambda o, m: True, IllegalActionError, "Step 0: policy 'p' played True, which is not an integer"),
        (
            lambda o, m: 1 // 0,
            ControllerError,
            "Step 0: policy 'p' for agent 'player_1' failed: ZeroDivisionError: integer division or modulo by zero.",
        ),
    ],
)
def test_a_bad_answer_ends_the_episode_with_names(function, kind, text):
    with pytest.raises(kind) as caught:
        runner_of(make_env(TICTACTOE), function).run(0)
    assert str(caught.value).startswith(text)
    assert caught.value.exit_code == (2 if kind is IllegalActionError else 1)


class Silent:
    def __init__(self, answer):
        self.answer = answer

    def begin(self, agents, seed):
        pass

    def act(self, turn):
        return self.answer

    def close(self):
        pass


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "None"), ({}, r"for \[\]"), ({"player_2": 0}, r"for \['player_2'\]")]
)
def test_an_answer_for_nobody_or_for_others_is_refused(answer, said):
    runner = LocalEnvRunner(make_env(TICTACTOE), {"*": "p"}, controllers={"p": Silent(answer)})
    with pytest.raises(ControllerError, match=rf"policy 'p' for agent 'player_1' returned {said} instead"):
        runner.run(0)


def hang(observation, mask):
    threading.Event().wait(30)
    return 0


def test_a_hang_in_the_main_thread_is_broken():
    with pytest.raises(ControllerError, match=r"agent 'player_1' did not return within its time limit of 0\.05 s"):
        runner_of(make_env(TICTACTOE), hang, time_limit_s=0.05).run(0)


def fails_when_interrupted(observation, mask):
    try:
        return hang(observation, mask)
    except TimeLimitError:
        raise KeyError("state of the interrupted code") from None


def catches_everything(observation, mask):
    try:
        return hang(observation, mask)
    except TimeLimitError:
        return int(np.argmax(mask))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (fails_when_interrupted, r"did not return within its time limit of 0\.05 s"),
        (catches_everything, r"took 0\.\d+ s; its time limit is 0\.05 s"),
    ],
)
def test_code_that_hides_its_interruption_has_still_exceeded_the_limit(policy, said):
    with pytest.raises(ControllerError, match=said):
        runner_of(make_env(TICTACTOE), policy, time_limit_s=0.05).run(0)


def test_an_overrun_in_another_thread_is_an_error_too():
    def slow(observation, mask):
        threading.Event().wait(0.05)
        return int(mask.argmax())

    caught = []

    def play():
        try:
            runner_of(make_env(TICTACTOE), slow, time_limit_s=0.01).run(0)
        except ControllerError as error:
            caught.append(str(error))

    thread = threading.Thread(target=play)
    thread.start()
    thread.join(60)
    assert "its time limit is 0.01 s" in caught[0]


def test_the_timer_is_gone_after_the_episode():
    import signal

    before = signal.getsignal(signal.SIGALRM)
    runner_of(make_env(TICTACTOE), lambda o, m: int(m.argmax()), time_limit_s=0.5).run(0)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_each_controller_sees_its_own_agents_only():
    seen = []

    class Looks(Silent):
        def act(self, turn):
            seen.append({key for part in turn for key in part})
            return dict.fromkeys(turn.observations, 0)

    env = make_env("mpe/simple_spread_v3")
    LocalEnvRunner(env, {"agent_0": "looks", "*": "random"}, controllers={"looks": Looks(None)}).run(0)
    assert set().union(*seen) == {"agent_0"}


def test_a_policy_is_swapped_between_two_steps_and_the_record_shows_it():
    runner = LocalEnvRunner(make_env("classic/connect_four_v3"), {"*": "random"})
    for step, _ in enumerate(runner.turns(3, digests=True)):
        if step == 4:
            runner.set_policy_for_agent("player_0", "minimax:depth=1")
            with pytest.raises(UnknownNameError, match="There is no policy named 'minmax'"):
                runner.set_policy_for_agent("player_1", "minmax")
            with pytest.raises(UnknownNameError, match="There is no agent named 'player_7'"):
                runner.set_policy_for_agent("player_7", "random")
    record = runner.record
    assert record.changes == [(4, "player_0", "minimax:depth=1")]
    assert [record.policy_of("player_0", step) for step in (3, 4)] == ["random", "minimax:depth=1"]
    assert record.policy_of("player_1", 5) == "random"
    again = runner.run(3)
    assert again.changes == []  # the next episode is cast as the mapping says
    assert again.actions[:4] == record.actions[:4]


def test_a_mapping_that_does_not_fit_is_refused_before_anything_starts():
    with pytest.raises(MappingError, match="No policy for agent 'player_2'"):
        LocalEnvRunner(make_env(TICTACTOE), {"player_1": "random"})


def test_agents_that_are_born_without_a_name_ahead_get_a_policy():
    from pettingzoo.test.example_envs import generated_agents_parallel_v0

    from mosaic.envs.adapters.pettingzoo import from_pettingzoo

    env = from_pettingzoo(generated_agents_parallel_v0.parallel_env())
    episode = LocalEnvRunner(env, {"*": "random"}).run(0, max_steps=300)
    assert len(episode.ends) > 3
    assert set(episode.policies) >= set(episode.ends)


class Closes(gymnasium.Env):
    """Counts how often an env of this class was closed."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, 2.0, True, False, {}

    def close(self):
        Closes.closed += 1


def test_an_episode_is_played_in_an_env_given_by_its_id_a_class_or_an_object():
    assert play_episode("gym/CartPole-v1", {"*": "random"}, 3).env_steps > 0
    Closes.closed = 0
    made = Closes()
    played = [play_episode(env, {"*": "random"}) for env in (Closes, lambda: Closes(), made, make_env(made))]
    assert [episode.returns for episode in played] == [{"agent_0": 2.0}] * 4
    assert Closes.closed == 2  # the two that were made here
