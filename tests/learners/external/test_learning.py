"""Learning from external programs: PPO from the actions it chose, DQN from the actions of others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from typing import Any

import gymnasium
import numpy as np
import pytest

from mosaic.learners.base import Assembled
from mosaic.learners.bc.build import assemble_dagger
from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.learners.dqn.build import assemble_dqn
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions

from .external_programs import Client, RefusedError, Service, external_config, play_gym, playing

CARTPOLE = "gym/CartPole-v1"


@pytest.fixture
def service() -> Iterator[Service]:
    with closing(Service()) as service:
        yield service


def cartpole_loop(choose: Callable[[Random], Callable[[Any], Any]] | None = None) -> Callable[..., None]:
    def loop(client: Client, number: int, over: Callable[[], bool]) -> None:
        env, random = gymnasium.make("CartPole-v1"), Random(number)
        while not over():
            play_gym(client, env, random.randrange(2**31), choose and choose(random))

    return loop


def ppo(service: Service, **sections: Any) -> Assembled:
    options = PpoOptions(n_steps=64, batch_size=64, n_epochs=10, learning_rate=1e-3)
    config = external_config(CARTPOLE, **{"environment": {"num_envs": 4}, **sections})
    return assemble(config, options, listen=service.listen)


def test_a_run_counts_what_its_programs_did(service: Service) -> None:
    learner = ppo(service).learner
    with playing(service, 2, cartpole_loop()), closing(learner):
        learner.iterate()
        learner.iterate()
        progress = learner.progress()
    assert progress.env_steps >= 2 * 256
    assert progress.env_steps == progress.agent_steps
    assert progress.episodes >= 2
    assert progress.losses[0].keys() >= {"policy_loss", "value_loss", "entropy"}
    assert progress.losses[0]["approx_kl"] < 1  # the probabilities are those of the weights that decided
    lengths = progress.lengths[: progress.episodes]
    assert progress.returns[0][: progress.episodes].tolist() == lengths.tolist()  # each step of CartPole pays 1


def test_a_rollout_ends_when_a_stop_is_asked_for_even_without_programs(service: Service) -> None:
    learner = ppo(service).learner
    weights = learner.weights(0)
    learner.watch(lambda: True)
    learner.iterate()
    assert learner.progress().env_steps == 0
    assert (learner.weights(0) == weights).all()
    learner.close()


def test_a_program_that_vanishes_loses_its_episode_alone(service: Service) -> None:
    learner = ppo(service).learner
    lost, stayed = service.client("lost"), service.client("stayed")

    def play() -> None:
        broken = lost.start_episode()
        for _ in range(5):
            lost.get_action(broken, np.zeros(4, np.float32), reward=100.0)
        lost.drop()
        with pytest.raises(RefusedError) as refused:
            lost.get_action(broken, np.zeros(4, np.float32))
        assert (refused.value.code, refused.value.retry) == ("episode_lost", "episode")
        env = gymnasium.make("CartPole-v1")
        for seed in range(100):
            try:
                play_gym(stayed, env, seed)
            except RefusedError:
                return

    thread = threading.Thread(target=play)
    thread.start()
    learner.iterate()
    progress = learner.progress()
    learner.close()
    thread.join()
    assert progress.episodes >= 1
    assert progress.returns[0].max() < 100
    assert progress.env_steps == progress.agent_steps
    assert progress.env_steps - progress.lengths.sum() <= 500  # the steps of the one that was running


def test_ppo_refuses_actions_that_it_did_not_choose_and_the_episode_goes_on(service: Service) -> None:
    learner = ppo(service).learner
    client = service.client("one")
    told: list[RefusedError] = []

    def play() -> None:
        episode = client.start_episode()
        client.get_action(episode, np.zeros(4, np.float32))
        try:
            client.log_action(episode, np.zeros(4, np.float32), 1, reward=1.0)
        except RefusedError as error:
            told.append(error)
        client.get_action(episode, np.zeros(4, np.float32), reward=2.0)
        client.end_episode(episode, np.zeros(4, np.float32))
        done.set()

    done = threading.Event()
    threading.Thread(target=play, daemon=True).start()
    learner.watch(done.is_set)
    learner.iterate()
    assert told[0].code == "refused"
    assert "train with --algo dqn" in str(told[0])
    assert learner.progress().returns[0].tolist() == [2.0]
    learner.close()


@pytest.mark.parametrize("options", [BcOptions(hidden=(16,)), DaggerOptions(hidden=(16,), rollout_steps=200)])
def test_what_programs_report_is_cloned_and_the_clone_acts_where_it_is_asked(
    service: Service, options: BcOptions | DaggerOptions
) -> None:
    def play(client: Client, number: int, over: Callable[[], bool]) -> None:
        env, chooses = gymnasium.make("CartPole-v1"), [lambda seen: int(seen[2] > 0), None]
        for seed in itertools.count():
            if over():
                return
            play_gym(client, env, seed, chooses[seed % 2])  # the program acts, then the clone

    config = external_config(CARTPOLE, "dagger", training={"total_timesteps": 200})
    learner = assemble_dagger(config, options, (), listen=service.listen).learner
    with playing(service, 1, play), closing(learner):
        learner.iterate()
        progress, data = learner.progress(), learner.clones[0].data
    losses = progress.losses[0]
    assert progress.env_steps == progress.agent_steps >= 200
    assert progress.returns[0].sum() == progress.env_steps  # each step pays 1
    assert 0 < losses["labels"] == data.labels < progress.agent_steps
    assert losses["expert_share"] == data.labels / progress.agent_steps
    labels = np.concatenate([data.learned, data.held_out])
    assert (data.rows.act[labels, 0] == (data.rows.obs[labels, 2] > 0)).all()  # those of the program alone


@pytest.mark.slow
def test_cartpole_in_four_programs_is_learned_by_ppo(service: Service) -> None:
    learner = ppo(service, training={"total_timesteps": 60_000}).learner
    with playing(service, 4, cartpole_loop()), closing(learner):
        while learner.progress().env_steps < 60_000 and (learner.progress().return_mean or 0) < 150:
            learner.iterate()
        reached = learner.progress().return_mean
    assert reached is not None
    assert reached >= 150


def balance(random: Random) -> Callable[[Any], int]:
    """Return a policy that keeps the pole up, with few or many mistakes."""
    mistakes = random.random()
    return lambda seen: random.randrange(2) if random.random() < mistakes else int(seen[2] + 0.5 * seen[3] > 0)


@pytest.mark.slow
def test_dqn_learns_cartpole_from_what_another_policy_did(service: Service) -> None:
    options = DqnOptions(
        learning_rate=5e-4, learning_starts=500, train_freq=1, target_update_interval=500, batch_size=64, double_q=True
    )
    config = external_config(CARTPOLE, "dqn", training={"total_timesteps": 15_000})
    assembled = assemble_dqn(config, options, listen=service.listen)
    learner = assembled.learner
    with playing(service, 2, cartpole_loop(balance)), closing(learner):
        reached = 0.0
        while reached < 100 and learner.progress().env_steps < 15_000:  # by chance: 22
            before = learner.progress().env_steps
            while learner.progress().env_steps < before + 1000:
                learner.iterate()
            reached = greedy_return(learner.weights(0))
    assert reached >= 100


def greedy_return(weights: np.ndarray) -> float:
    """Return the mean return of the best actions by these action values."""
    from mosaic.envs.catalog import make_env
    from mosaic.envs.vector.in_process import shape_of
    from mosaic.learners.dqn.build import q_architecture
    from mosaic.learners.engines.fused import FusedEngine

    env = make_env(CARTPOLE)
    engine = FusedEngine(q_architecture(shape_of(env.spec, 1, None, masked=False), DqnOptions()), 0)
    engine.load(weights)
    raw, paid = gymnasium.make("CartPole-v1"), 0.0
    act = np.zeros((1, 1), np.float32)
    for seed in range(10):
        seen, over = raw.reset(seed=seed)[0], False
        while not over:
            engine.greedy(seen[None], np.zeros((0, 0), np.uint8), np.zeros(1, np.int64), np.ones(1, np.uint8), act)
            seen, reward, terminated, truncated, _ = raw.step(int(act[0, 0]))
            paid, over = paid + float(reward), terminated or truncated
    return paid / 10
