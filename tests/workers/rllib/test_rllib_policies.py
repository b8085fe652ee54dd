"""Each policy configuration, by the weights it has and the samples that reach them."""

from contextlib import contextmanager

import numpy as np
import pytest

from tests.workers.rllib.rllib_setups import make_setup

SPREAD, TAG = "mpe/simple_spread_v3", "mpe/simple_tag_v3"
SHORT = {"max_cycles": 10}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]


@contextmanager
def built(tmp_path, env, algorithm="ppo", **said):
    from mosaic.workers.rllib.config.build import configure

    algo = configure(make_setup(tmp_path, env, algorithm, env_options=SHORT, **said)).build_algo()
    try:
        yield algo
    finally:
        algo.stop()


def learner_of(algo):
    return algo.learner_group._learner


def weights_of(algo, module):
    return {name: value.copy() for name, value in learner_of(algo).module[module].get_state().items()}


def equal(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first)


def watch_batches(algo):
    """What each agent saw, and what reached the networks, in every update from now on."""
    learner = learner_of(algo)
    make, seen = learner._make_batch_if_necessary, []

    def watched(training_data):
        agents = {}
        for episode in training_data.episodes:
            for agent, own in episode.agent_episodes.items():
                agents.setdefault(agent, []).append(np.array(own.get_observations(slice(0, len(own)))))
        batch = make(training_data)
        modules = {name: rows["obs"][rows["loss_mask"]].numpy().copy() for name, rows in batch.policy_batches.items()}
        seen.append(({agent: np.concatenate(pieces) for agent, pieces in agents.items()}, modules))
        return batch

    learner._make_batch_if_necessary = watched
    return seen


def watch_updates(algo):
    """Rows of each module in every minibatch from now on."""
    learner = learner_of(algo)
    update, seen = learner._update, []

    def watched(batch, **also):
        seen.append({name: len(rows["obs"]) for name, rows in batch.items()})
        return update(batch, **also)

    learner._update = watched
    return seen


def in_order(rows):
    return rows[np.lexsort(rows.T)]


@pytest.mark.chosen
def test_parameter_sharing_has_one_network_and_all_samples_reach_it(tmp_path):
    with built(tmp_path, SPREAD, policy_configuration="parameter_sharing") as algo:
        assert set(algo.env_runner.module.keys()) == {"shared"}
        seen = watch_batches(algo)
        algo.train()
        agents, modules = seen[0]
    assert set(agents) == {"agent_0", "agent_1", "agent_2"}
    assert set(modules) == {"shared"}
    np.testing.assert_array_equal(in_order(modules["shared"]), in_order(np.concatenate(list(agents.values()))))


@pytest.mark.chosen
def test_independent_policies_differ_and_each_learns_from_its_agent_alone(tmp_path):
    with built(tmp_path, SPREAD, policy_configuration="independent") as algo:
        names = ["agent_0", "agent_1", "agent_2"]
        before = {name: weights_of(algo, name) for name in names}
        seen = watch_batches(algo)
        algo.train()
        agents, modules = seen[0]
        after = {name: weights_of(algo, name) for name in names}
    for name in names:
        np.testing.assert_array_equal(in_order(modules[name]), in_order(agents[name]))
        assert not equal(before[name], after[name])
    assert not equal(after["agent_0"], after["agent_1"])
    assert not equal(after["agent_1"], after["agent_2"])


@pytest.mark.chosen
def test_a_policy_that_is_not_to_be_trained_stays_bit_for_bit(tmp_path):
    with built(tmp_path, TAG, policies_to_train=["agent"]) as algo:
        before = {name: weights_of(algo, name) for name in ("agent", "adversary")}
        seen = watch_batches(algo)
        algo.train()
        assert set(seen[0][1]) == {"agent"}, "its samples are not even made into a batch"
        assert equal(before["adversary"], weights_of(algo, "adversary"))
        assert not equal(before["agent"], weights_of(algo, "agent"))


def passes_over_each_sample(tmp_path, **params):
    with built(tmp_path, TAG, params={"num_epochs": 3, "minibatch_size": 32, **params}) as algo:
        batches, updates = watch_batches(algo), watch_updates(algo)
        algo.train()
        rows = {name: sum(update.get(name, 0) for update in updates) for name in ("agent", "adversary")}
        (_, modules), *_ = batches
        bootstrapped = {name: len(learner_rows) for name, learner_rows in modules.items()}
    assert bootstrapped["adversary"] == 3 * bootstrapped["agent"]
    return {name: rows[name] / bootstrapped[name] for name in rows}


@pytest.mark.chosen
def test_every_sample_counts_as_often_whoever_has_more_of_them(tmp_path):
    """RLlib adds one step to each piece of an episode, hence a little more than three."""
    passes = passes_over_each_sample(tmp_path)
    assert passes["agent"] == passes["adversary"] == pytest.approx(3.0, rel=0.15)


@pytest.mark.chosen
def test_without_it_rllib_trains_the_smaller_policy_three_times_as_often(tmp_path):
    passes = passes_over_each_sample(tmp_path, balanced=False)
    assert passes["agent"] > 2.5 * passes["adversary"]


@pytest.mark.parametrize("balanced", [pytest.param(True, marks=pytest.mark.chosen), False])
def test_replay_draws_from_each_policy_by_what_it_added(tmp_path, balanced):
    with built(tmp_path, TAG, "dqn", params={"balanced": balanced}) as algo:
        updates = watch_updates(algo)
        algo.train()
        rows = {name: sum(update[name] for update in updates) for name in ("agent", "adversary")}
    assert rows["adversary"] == (3 * rows["agent"] if balanced else rows["agent"]) > 0


@pytest.mark.chosen
def test_several_actors_have_one_critic_that_sees_everybody(tmp_path):
    import torch

    with built(tmp_path, TAG, policy_configuration="shared_value_function") as algo:
        modules = learner_of(algo).module
        assert set(modules.keys()) == {"adversary_0", "adversary_1", "adversary_2", "agent_0"}
        agent, adversary = modules["agent_0"], modules["adversary_0"]
        before = [parameter.detach().clone() for parameter in agent.critic.parameters()]
        algo.train()
        assert agent.critic is adversary.critic
        assert all(not torch.equal(old, new) for old, new in zip(before, agent.critic.parameters(), strict=True))
        assert not equal(agent.pi.state_dict(), adversary.pi.state_dict())
        holders = [
            name
            for name, optimizer in learner_of(algo)._named_optimizers.items()
            for group in optimizer.param_groups
            if any(parameter is next(agent.critic.parameters()) for parameter in group["params"])
        ]
        assert len(holders) == 1, "it is stepped once in an update"

        own, state = torch.randn(5, 14), torch.randn(5, 62 + 4)
        others = state.clone()
        others[:, :16] += 1.0  # what adversary_0 sees
        first, second = ({"obs": {"observation": own, "state": s}} for s in (state, others))
        assert not torch.equal(agent.compute_values(first), agent.compute_values(second))
        said = [agent.forward_inference(batch)["action_dist_inputs"] for batch in (first, second)]
        assert torch.equal(*said), "an actor needs its own observation alone"


def test_a_shared_critic_is_still_shared_after_going_on(tmp_path):
    said = {"policy_configuration": "shared_value_function"}
    with built(tmp_path, TAG, **said) as algo:
        algo.train()
        kept = weights_of(algo, "agent_0")
        algo.save_to_path(str(tmp_path / "kept"))
    with built(tmp_path, TAG, **said) as algo:
        assert not equal(kept, weights_of(algo, "agent_0"))
        algo.restore_from_path(str(tmp_path / "kept"))
        assert equal(kept, weights_of(algo, "agent_0"))
        modules = learner_of(algo).module
        assert modules["agent_0"].critic is modules["adversary_0"].critic
        algo.train()


def test_gradients_of_a_shared_part_are_clipped(tmp_path):
    said = {"policy_configuration": "independent", "params": {"shared_encoder": True, "grad_clip": 1e-3}}
    with built(tmp_path, SPREAD, **said) as algo:
        learner, lengths = learner_of(algo), []
        apply = learner.apply_gradients

        def watched(gradients):
            shared = {id(parameter) for parameter in learner.module["agent_0"].encoder.parameters()}
            found = [gradient for parameter, gradient in gradients.items() if id(parameter) in shared]
            lengths.append((len(found), sum(float((gradient**2).sum()) for gradient in found) ** 0.5))
            apply(gradients)

        learner.apply_gradients = watched
        algo.train()
        count = len(list(learner.module["agent_0"].encoder.parameters()))
    assert lengths
    assert all(found == count and 0 < length <= 1.001e-3 for found, length in lengths)


def test_a_shared_part_gets_the_mean_of_what_the_policies_want(tmp_path):
    said = {"policy_configuration": "independent", "params": {"shared_encoder": True}}
    with built(tmp_path, SPREAD, **said) as algo:
        learner = learner_of(algo)
        weight = next(learner.module["agent_0"].encoder.parameters())
        head = next(learner.module["agent_1"].pi.parameters())
        losses = {"agent_0": weight.sum(), "agent_1": 3.0 * weight.sum() + head.sum(), "agent_2": 5.0 * weight.sum()}
        gradients = learner.compute_gradients(losses)
        assert gradients[weight].unique().tolist() == [3.0]
        assert gradients[head].unique().tolist() == [1.0], "what is a policy's own stays as it is"


@pytest.mark.parametrize("algorithm", [pytest.param("ppo", marks=pytest.mark.chosen), "dqn"])
def test_policies_with_a_shared_encoder_have_heads_of_their_own(tmp_path, algorithm):
    said = {"policy_configuration": "independent", "params": {"shared_encoder": True}}
    head = {"ppo": "pi", "dqn": "af"}[algorithm]
    with built(tmp_path, SPREAD, algorithm, **said) as algo:
        before = weights_of(algo, "agent_0")
        algo.train()
        modules = learner_of(algo).module
        first, second = modules["agent_0"], modules["agent_1"]
        assert first.encoder is second.encoder is modules["agent_2"].encoder
        assert not equal(getattr(first, head).state_dict(), getattr(second, head).state_dict())
        after = weights_of(algo, "agent_0")
        assert not any(
            np.array_equal(before[name], after[name])
            for name in before
            if name.startswith("encoder.") and ".0." in name
        )
