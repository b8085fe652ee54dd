"""External envs with several agents: policies by mapping, agents with fixed policies, masks; and what is refused."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.learners.base import Assembled
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from mosaic.workers.resolution import resolve
from tests.server.policy.policy_kit import FIRST, TOKEN, serving

from .external_programs import Client, RefusedError, Service, external_config, playing

BOARD = "classic/tictactoe_v3"
BOT = Path(__file__).parents[3] / "examples" / "scripts" / "process_bot.py"


@pytest.fixture
def service() -> Iterator[Service]:
    with closing(Service()) as service:
        yield service


def train(service: Service, **sections: Any) -> Assembled:
    options = PpoOptions(n_steps=32, batch_size=32)
    return assemble(external_config(BOARD, environment={"num_envs": 2}, **sections), options, listen=service.listen)


def play_board(client: Client, number: int, over: Callable[[], bool]) -> None:
    """Play tic-tac-toe with the actions of the run for both agents; an illegal one raises in the env."""
    env, seed = make_env(BOARD), 0
    while not over():
        episode, turn, seed = client.start_episode(), env.reset(seed), seed + 1
        while not turn.over:
            seen = {agent: value.tolist() for agent, value in turn.observations.items()}
            masks = {agent: mask.tolist() for agent, mask in turn.action_masks.items()}
            turn = env.step(client.get_action(episode, seen, action_mask=masks))
            client.log_returns(episode, {agent: reward for agent, reward in turn.rewards.items() if reward})
        client.end_episode(episode, {})


def test_both_agents_learn_policies_of_their_own(service: Service) -> None:
    assembled = train(service, policy_configuration="independent")
    learner = assembled.learner
    with playing(service, 2, play_board), closing(learner):
        learner.iterate()
        progress = learner.progress()
    assert learner.plan.names == ("player_1", "player_2")
    assert [set(losses) >= {"policy_loss"} for losses in progress.losses] == [True, True]
    assert 0 <= progress.env_steps - progress.agent_steps <= 2  # one agent moves at a time; two may wait for an outcome
    finished = min(progress.episodes, 100)
    first, second = (returns[:finished] for returns in progress.returns)
    assert (first == -second).all()  # a zero-sum game
    assert abs(first).max() == 1


@pytest.mark.parametrize("policy", ["random", f"process:{shlex.join([sys.executable, str(BOT)])}"])
def test_a_fixed_policy_plays_an_agent_through_the_same_calls(service: Service, policy: str) -> None:
    check_opponent(service, policy)


def test_a_policy_behind_http_does_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_TOKEN_127_0_0_1", TOKEN)
    with serving(FIRST, BOARD) as server:
        check_opponent(service, server.url)


def check_opponent(service: Service, policy: str) -> None:
    assembled = train(service, policy_configuration="parameter_sharing", agents={"player_2": policy})
    learner = assembled.learner
    with playing(service, 2, play_board), closing(learner):
        learner.iterate()
        progress = learner.progress()
    assert assembled.roles.learners == ("player_1",)
    assert progress.agent_steps < progress.env_steps  # of player_1 alone
    assert {*progress.returns[0].tolist()} <= {-1.0, 0.0, 1.0}


def test_a_person_at_the_program_plays_an_agent_and_ppo_trains_the_other(service: Service) -> None:
    assembled = train(service, policy_configuration="parameter_sharing", agents={"player_2": "human"})
    learner, told = assembled.learner, []

    def play(client: Client, number: int, over: Callable[[], bool]) -> None:
        env = make_env(BOARD)
        while not over():
            episode, turn = client.start_episode(), env.reset(0)
            while not turn.over:
                seen = {agent: value.tolist() for agent, value in turn.observations.items()}
                masks = {agent: mask.tolist() for agent, mask in turn.action_masks.items()}
                if "player_1" in turn.observations:
                    actions = client.get_action(episode, seen, action_mask=masks)
                else:
                    if not told:
                        with pytest.raises(RefusedError) as refused:
                            client.get_action(episode, seen, action_mask=masks)
                        told.append(str(refused.value))
                    actions = {"player_2": masks["player_2"].index(1)}  # the person takes the first free field
                    client.log_action(episode, seen, actions, action_mask=masks)
                turn = env.step(actions)
                client.log_returns(episode, {agent: reward for agent, reward in turn.rewards.items() if reward})
            client.end_episode(episode, {})

    with playing(service, 1, play), closing(learner):
        learner.iterate()
        progress = learner.progress()
    assert told == ["The policy acts for player_1 in this episode, not for 'player_2'."]
    assert assembled.roles.learners == ("player_1",)
    assert progress.agent_steps < progress.env_steps
    assert {*progress.returns[0].tolist()} <= {-1.0, 0.0, 1.0}


def test_an_agent_that_ends_early_is_learned_from_and_cannot_act_again(service: Service) -> None:
    assembled = train(service, policy_configuration="parameter_sharing")
    learner, client = assembled.learner, service.client("one")
    told: list[str] = []
    done = threading.Event()

    def play() -> None:
        env = make_env(BOARD)
        turn = env.reset(0)
        seen = {agent: value.tolist() for agent, value in turn.observations.items()}
        episode = client.start_episode()
        client.get_action(episode, seen)
        client.log_returns(episode, {"player_1": -3.0}, terminated={"player_1": True})
        try:
            client.get_action(episode, seen)
        except RefusedError as error:
            told.append(str(error))
        client.get_action(episode, {"player_2": seen["player_1"]})
        client.end_episode(episode, {"player_2": seen["player_1"]}, truncated=True)
        done.set()

    threading.Thread(target=play, daemon=True).start()
    learner.watch(done.is_set)
    learner.iterate()
    assert "player_1" in told[0]
    assert "ended" in told[0]
    assert sorted(learner.progress().returns[0][:2].tolist()) == [-3.0, 0.0]
    assert learner.progress().episodes == 1
    learner.close()


REFUSED = [
    ({"worker": "sb3", "algorithm": "ppo"}, {}, r"The worker sb3 steps its envs itself.*--worker native"),
    ({"worker": "tabular", "algorithm": "q_learning"}, {}, "The worker tabular steps its envs itself"),
    ({}, {"evaluation": {"episodes": 3}}, "Mosaic cannot make one to evaluate in"),
    ({}, {"resources": {"num_env_runners": 2}}, "start more programs"),
    ({"params": {"memory": "lstm"}}, {}, "memory=lstm"),
    ({"params": {"env_processes": 2}}, {}, "training.params.env_processes=2"),
    ({}, {"policy_configuration": "self_play", "options": {"env": BOARD}}, "a league needs envs"),
    ({}, {"policy_configuration": "shared_value_function"}, "needs all observations of a step together"),
    ({}, {"environment": {"wrappers": ["flatten"]}}, "which has to wrap it"),
    ({}, {"options": {"env": "godot/debug"}}, "should be an env that Mosaic can make"),
    ({}, {"options": {"fragments": 3}}, "fragments"),
]


@pytest.mark.parametrize(("training", "sections", "message"), REFUSED)
def test_what_needs_envs_of_mosaic_is_refused(training: dict[str, Any], sections: dict[str, Any], message: str) -> None:
    config = external_config("gym/CartPole-v1", training=training, **sections)
    with pytest.raises(InputError, match=message):
        resolve(config)


def test_an_env_with_few_states_is_trained_by_the_native_worker_unless_another_is_named() -> None:
    config = external_config("gym/FrozenLake-v1")
    training = config.training.model_copy(update={"worker": None, "algorithm": None})
    assert resolve(config.model_copy(update={"training": training})).config.training.worker == "native"
