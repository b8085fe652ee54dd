"""What several policies learn from which rows, in workers with and without Python inside."""

from functools import partial
from time import perf_counter

import numpy as np
import pytest

from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.agent_roles import read_agent_roles
from mosaic.learners.ppo.build import _compiled_rollouts, _learn_settings, make_architectures, make_engine
from mosaic.learners.ppo.gae import rows_of
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.rollout.base import Rates, RolloutSettings
from mosaic.learners.rollout.compiled import CompiledRollouts
from mosaic.learners.rollout.engine_policies import EnginePolicies
from mosaic.learners.rollout.python import PythonRollouts
from mosaic.policies.network import NetworkPolicyController
from tests.learners.small_runs import SMALL, SPREAD, assembled, learner, run_config

CARTPOLE, TAG, ADVERSARY = "gym/CartPole-v1", "mpe/simple_tag_v3", "mpe/simple_adversary_v3"
ONE_ACTOR = {"policy_configuration": "shared_value_function", "training": {"params": {"shared_actor": True}}}
FADING = "python:mosaic.testing.toys:Fading"


def rows_for(worker, policy):
    """(time, slot) of the decisions that this policy learns from."""
    idx = np.zeros(worker.buffer.track.policy_of.size, np.int64)
    count = rows_of(worker.buffer.track.policy_of, worker.buffer._known, policy, idx)
    return np.divmod(idx[:count], worker.buffer.track.policy_of.shape[1])


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_independent_policies_differ_and_learn_from_their_own_agent_alone(engine):
    with learner(SPREAD, {"engine": engine}, envs=4, policy_configuration="independent") as made:
        worker = made.workers[0]
        assert isinstance(worker, CompiledRollouts if engine == "fused" else PythonRollouts)
        start = [made.weights(policy) for policy in range(3)]
        made.iterate()
        for policy in range(3):
            time, slot = rows_for(worker, policy)
            assert set(worker.buffer.track.who[time, slot]) == {policy}
            assert len(time) == 16 * 4
            assert not np.array_equal(made.weights(policy), start[policy])
        assert len({made.weights(policy).tobytes() for policy in range(3)}) == 3


def test_what_one_agent_sees_changes_nobody_elses_policy():
    after = []
    for noise in (0.0, 1.0):
        with learner(SPREAD, envs=4, policy_configuration="independent") as made:
            worker = made.workers[0]
            worker.collect()
            worker.buffer.rows.obs[(worker.buffer.track.who[:-1] == 1).ravel()] += noise
            worker.learn(made.rates(), made.normalization.reward_scale)
            after.append([made.weights(policy) for policy in range(3)])
    np.testing.assert_array_equal(after[0][0], after[1][0])
    np.testing.assert_array_equal(after[0][2], after[1][2])
    assert not np.array_equal(after[0][1], after[1][1])


def test_a_shared_policy_learns_from_everybody():
    with learner(SPREAD, envs=4) as made:
        made.iterate()
        time, slot = rows_for(made.workers[0], 0)
        assert len(time) == 16 * 4 * 3
        assert set(made.workers[0].buffer.track.who[time, slot]) == {0, 1, 2}


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_centralised_critic_sees_all_and_the_actor_its_own(engine):
    with assembled(SPREAD, {"engine": engine}, envs=4, policy_configuration="shared_value_function") as whole:
        made, worker = whole.learner, whole.learner.workers[0]
        made.iterate()
        width = made.vector.shape.width
        architecture = whole.architectures[0]
        assert (architecture.observation, architecture.critic_observation) == (width, 3 * width)
        obs, critic = worker.buffer.rows.obs, worker.buffer.rows.critic_obs
        for agent in range(3):
            for k in range(3):
                seen = critic[agent::3, k * width : (k + 1) * width]
                np.testing.assert_array_equal(seen, obs[(agent + k) % 3 :: 3])
        value, logp = answers(whole, obs[:3], critic[:3])
        other = critic[:3].copy()
        other[:, width:] += 1.0  # what the others see
        changed_value, same_logp = answers(whole, obs[:3], other)
        assert (np.abs(changed_value - value) > 1e-6).all()
        np.testing.assert_array_equal(same_logp, logp)


def answers(whole, obs, critic):
    """Value of rows, and the log-probability of what the same chance decides on."""
    from mosaic.learners.engines.fused import FusedEngine

    engine = FusedEngine(whole.architectures[0], 7)
    engine.load(whole.learner.weights(0))
    act, logp, value = (
        np.zeros((len(obs), 1), np.float32),
        np.zeros(len(obs), np.float32),
        np.zeros(len(obs), np.float32),
    )
    slots, first = np.arange(len(obs)), np.ones(len(obs), np.uint8)
    engine.act(obs.copy(), critic.copy(), np.zeros((0, 5), np.uint8), slots, first, act, logp, value)
    return value, logp


def test_a_policy_with_a_centralised_critic_plays_from_its_own_observation():
    with assembled(SPREAD, policy_configuration="shared_value_function") as whole:
        whole.learner.iterate()
        spec = whole.spec
        rows = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
        actions = {agent: action_code(spec.action_spaces[agent]) for agent in spec.possible_agents}
        player = NetworkPolicyController(whole.architectures[0], whole.learner.weights(0), rows, actions)
        env = make_env(SPREAD)
        turn = env.reset(1)
        player.begin(spec.possible_agents, 0)
        together = player.act(turn)
        alone = {agent: player.act(turn.only((agent,)))[agent] for agent in spec.possible_agents}
        assert together == alone
        assert player.explain(turn)["agent_0"].value is None
        env.close()


@pytest.mark.parametrize(
    ("env_id", "kind", "policies"),
    [
        (TAG, "parameter_sharing", ("adversary", "agent")),
        (ADVERSARY, "parameter_sharing", ("adversary", "agent")),
        (ADVERSARY, "shared_value_function", ("adversary_0", "agent_0", "agent_1")),
        (TAG, "independent", ("adversary_0", "adversary_1", "adversary_2", "agent_0")),
    ],
)
def test_policies_of_different_spaces_learn_side_by_side(env_id, kind, policies):
    with assembled(env_id, envs=4, policy_configuration=kind) as whole:
        made = whole.learner
        assert made.plan.names == policies
        widths = [architecture.observation for architecture in whole.architectures]
        assert len(set(widths)) == 2
        start = [made.weights(policy) for policy in range(len(policies))]
        made.iterate()
        for policy, before in enumerate(start):
            assert not np.array_equal(made.weights(policy), before)
            assert np.isfinite(made.weights(policy)).all()
            time, slot = rows_for(made.workers[0], policy)
            owners = {made.plan.policy_of[agent] for agent in made.workers[0].buffer.track.who[time, slot]}
            assert owners == {policy}
            assert made.progress().losses[policy]["entropy"] > 0


@pytest.mark.parametrize(("env_id", "kind"), [(SPREAD, "independent"), (TAG, "parameter_sharing")])
def test_a_policy_that_is_not_to_train_stays_as_it_is(env_id, kind):
    trained = "agent_1" if env_id == SPREAD else "agent"
    with learner(env_id, envs=4, policy_configuration=kind, policies_to_train=[trained]) as made:
        names = made.plan.names
        start = {name: made.weights(k) for k, name in enumerate(names)}
        for _ in range(2):
            made.iterate()
        for k, name in enumerate(names):
            assert np.array_equal(made.weights(k), start[name]) == (name != trained)


def test_a_mapping_with_patterns_trains():
    with learner(TAG, envs=4, agents={"adversary_0": "leader", "adversary_*": "pack"}) as made:
        made.iterate()
        assert made.plan.names == ("leader", "pack", "agent")
        counts = [len(rows_for(made.workers[0], policy)[0]) for policy in range(3)]
        assert counts == [64, 128, 64]


@pytest.mark.parametrize("kind", ["parameter_sharing", "independent", "shared_value_function"])
@pytest.mark.parametrize("normalised", [False, True])
def test_agents_that_are_born_late_and_die_early(kind, normalised):
    options = {"n_steps": 8, "normalize_observations": normalised}
    with learner(FADING, options, envs=2, policy_configuration=kind) as made:
        for _ in range(3):
            made.iterate()
        worker = made.workers[0]
        assert (
            worker.buffer.track.active[:8].reshape(8, 2, 3)[:, 0].tolist()
            == [[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 1, 1]] * 2
        )
        progress = made.progress()
        assert progress.episodes == 2 * 2 * 3
        assert sorted(set(np.concatenate(progress.returns).tolist())) == [3, 9, 10]
        assert progress.agent_steps == 3 * 2 * 2 * (2 + 3 + 2 + 2)
        assert sum(len(rows_for(worker, policy)[0]) for policy in range(len(made.plan.names))) == 2 * 2 * 9
        assert all(np.isfinite(made.weights(policy)).all() for policy in range(len(made.plan.names)))


@pytest.mark.slow
@pytest.mark.chosen
def test_walkers_that_fall_leave_the_others_walking():
    facts = {"terminate_on_fall": False, "remove_on_fall": True, "max_cycles": 80}
    with learner("sisl/multiwalker_v9", {"n_steps": 64}, envs=2, env_options=facts) as made:
        for _ in range(3):
            made.iterate()
        assert made.progress().episodes > 0
        assert not made.workers[0].buffer.track.active.all()
        assert np.isfinite(made.weights(0)).all()


@pytest.mark.slow
@pytest.mark.chosen
def test_a_hundred_agents(capsys):
    with learner(SPREAD, {"n_steps": 25}, envs=2, env_options={"N": 100}) as made:
        before = made.weights(0)
        made.iterate()
        started = perf_counter()
        for _ in range(2):
            made.iterate()
        spent = perf_counter() - started
        progress = made.progress()
        assert progress.agent_steps == 100 * progress.env_steps == 100 * 3 * 25 * 2
        assert not np.array_equal(made.weights(0), before)
        with capsys.disabled():
            print(f"\nsimple_spread N=100: {2 * 50 / spent:.0f} env steps/s, {2 * 5000 / spent:.0f} agent steps/s")


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_an_update_ends_where_the_policy_has_moved_far_enough(engine):
    def steps(target):
        with learner(CARTPOLE, {"engine": engine, "n_epochs": 10, "target_kl": target, "threads": 1}) as made:
            made.iterate()
            return made.workers[0].policies.training_state(0)["optimiser.count"].item()

    minibatches = 10 * (8 * 16 // 64)
    assert steps(None) == minibatches
    assert 1 <= steps(1e-6) < minibatches


@pytest.mark.parametrize(
    ("env_id", "options", "settings"),
    [
        (CARTPOLE, {}, {}),
        (CARTPOLE, {"normalize_observations": True, "normalize_rewards": True}, {}),
        (SPREAD, {}, {}),
        (SPREAD, {"normalize_observations": True}, ONE_ACTOR),
        (SPREAD, {}, ONE_ACTOR),
    ],
)
def test_both_workers_learn_the_same_from_the_same_random_numbers(env_id, options, settings):
    config = run_config(env_id, **settings)
    options = PpoOptions.model_validate({**SMALL, "n_steps": 40, **options})
    env = make_env(config.environment)
    roles = read_agent_roles(config, env.spec)
    rows = {agent: row_code(env.spec.observation_spaces[agent]) for agent in roles.learners}
    env.close()
    workers, each = [], [options] * len(roles.plan.names)
    settings = RolloutSettings(40, 1, normalize_observations=options.normalize_observations)
    for made in ("fused", "played"):
        vector = make_compiled_vector(config.environment, 4)
        architectures = make_architectures(roles, each, vector.shape, rows)
        if made == "fused":
            workers.append(_compiled_rollouts(vector, roles.plan, architectures, each, settings, 0))
        else:
            engines = partial(make_engine, "fused", architectures, each, 0)
            policies = EnginePolicies(architectures, engines, vector.shape, settings)
            learning = _learn_settings(each, vector.shape, settings)
            workers.append(PythonRollouts(vector, roles.plan, policies, learning, settings))
    fused, played = workers
    np.testing.assert_array_equal(fused.policies.weights(0), played.policies.weights(0))
    engine = played.policies.engines[0]
    engine._buffers.reserve(max(fused.vector.shape.slots, options.batch_size))
    engine._buffers.streams[: fused.vector.shape.slots] = fused._inference.rng
    engine._shuffle[:] = fused._shuffle
    rates, scale = [Rates(0.01, 0.2, 0.01)] * len(each), np.ones(len(roles.learners), np.float32)
    for _ in range(2):
        for worker in workers:
            worker.collect()
            worker.learn(rates, scale)
        np.testing.assert_array_equal(fused.buffer.rows.act, played.buffer.rows.act)
        np.testing.assert_array_equal(fused.buffer.track.ended, played.buffer.track.ended)
        for name in ("obs", "critic_obs", "logp", "val", "adv", "ret"):
            np.testing.assert_allclose(
                getattr(fused.buffer.rows, name), getattr(played.buffer.rows, name), rtol=1e-4, atol=1e-4, err_msg=name
            )
        np.testing.assert_allclose(fused.policies.weights(0), played.policies.weights(0), atol=1e-4)
        one, two = (worker.policies.take_moments() for worker in workers)
        if options.normalize_observations:
            np.testing.assert_array_equal(one.count, two.count)
            np.testing.assert_allclose(one.sums, two.sums, rtol=1e-5, atol=1e-4)
            shift, squares = one.sums[0] / one.count[0]
            spread = 1 / np.sqrt(squares - shift**2 + 1e-8)
            for worker in workers:
                worker.policies.set_scaler(0, shift.astype(np.float32), spread.astype(np.float32))
        np.testing.assert_allclose(fused.tally.spread, played.tally.spread, rtol=1e-5)
        for worker in workers:
            worker.tally.spread[:] = 0
    assert fused.tally.finished.tolist() == played.tally.finished.tolist()
    for worker in workers:
        worker.vector.close()
