"""Actions that are drawn have the distribution of the model, and come from the seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.policies.controller import PolicyController, Sampling
from tests.workers.sb3.models import CHOICE, FORCE, PARTS, PICTURE, VECTOR, action_of, make_model
from tests.workers.sb3.test_sb3_controllers import AGENT, act, written

DRAWS = 1500
SDE = {"use_sde": True}


@pytest.fixture(autouse=True)
def same_observations() -> None:
    """Show the same observations every time: a sample of actions has the distribution within bounds, not always."""
    for space in (VECTOR, PICTURE, PARTS):
        space.seed(5)


def drawn(controller: PolicyController, observation: Any, episodes: bool = False) -> Any:
    """Actions for one observation; `episodes`: one of each of many episodes."""
    found = []
    controller.begin((AGENT,), 1)
    for seed in range(DRAWS):
        if episodes:
            controller.begin((AGENT,), seed)
        found.append(act(controller, observation))
    return np.array(found)


def unsquashed(actions: Any) -> Any:
    low, high = FORCE.low, FORCE.high
    return np.arctanh(np.clip(2 * (actions - low) / (high - low) - 1, -0.999999, 0.999999))


@pytest.mark.parametrize("case", ["ppo", "maskable_ppo", "a2c", "recurrent_ppo", "images", "parts"])
def test_choices_have_the_probabilities_of_the_model(case: str, tmp_path: Path) -> None:
    observation = {"images": PICTURE, "parts": PARTS}.get(case, VECTOR)
    model = make_model("ppo" if observation is not VECTOR else case, observation, CHOICE)
    shown = observation.sample()
    tensor, _ = model.policy.obs_to_tensor(shown)
    zeros = torch.zeros(1, 1, 16)
    memory = ((zeros, zeros), torch.zeros(1)) if case == "recurrent_ppo" else ()
    distribution: Any = model.policy.get_distribution(tensor, *memory)
    wanted = (distribution[0] if memory else distribution).distribution.probs[0].detach().numpy()

    chosen = drawn(written(model, tmp_path, Sampling()), shown, episodes=bool(memory))

    np.testing.assert_allclose(np.bincount(chosen, minlength=4) / DRAWS, wanted, atol=0.045)


def test_numbers_have_the_mean_and_deviation_of_the_model(tmp_path: Path) -> None:
    model = make_model("ppo", VECTOR, FORCE)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(0.1)
        model.policy.action_net.bias.copy_(torch.tensor([0.0, 2.0]))
        model.policy.log_std.fill_(-1.5)  # far from the bounds, where actions are clipped
    shown = VECTOR.sample()
    normal = model.policy.get_distribution(model.policy.obs_to_tensor(shown)[0]).distribution

    chosen = drawn(written(model, tmp_path, Sampling()), shown)

    np.testing.assert_allclose(chosen.mean(0), normal.mean[0].detach(), atol=0.03)
    np.testing.assert_allclose(chosen.std(0), normal.stddev[0].detach(), atol=0.02)


@pytest.mark.parametrize("algorithm", ["sac", "tqc", "crossq"])
def test_squashed_numbers_have_the_distribution_of_the_model(algorithm: str, tmp_path: Path) -> None:
    model = make_model(algorithm, VECTOR, FORCE)
    with torch.no_grad():
        model.actor.mu.weight.mul_(0.1)
        model.actor.log_std.weight.mul_(0.05)
        model.actor.log_std.bias.fill_(-1.0)
    model.policy.set_training_mode(False)
    shown = VECTOR.sample()
    means, logs, _ = model.actor.get_action_dist_params(model.policy.obs_to_tensor(shown)[0])

    chosen = unsquashed(drawn(written(model, tmp_path, Sampling()), shown))

    np.testing.assert_allclose(chosen.mean(0), means[0].detach(), atol=0.05)
    np.testing.assert_allclose(chosen.std(0), logs.exp()[0].detach(), rtol=0.1)
    colder = unsquashed(drawn(written(model, tmp_path, Sampling(0.5)), shown))
    np.testing.assert_allclose(colder.std(0), 0.5 * chosen.std(0), rtol=0.12)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("sac", {"log_std_init": -2.0}),
        ("a2c", {"squash_output": True, "use_expln": True}),
        ("a2c", {"full_std": False, "squash_output": True}),
    ],
)
def test_state_dependent_noise_is_drawn_once_an_episode(
    algorithm: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model = make_model(algorithm, VECTOR, FORCE, **SDE, policy_kwargs=options)
    owner = model.actor if algorithm == "sac" else model.policy
    layer = owner.mu[0] if algorithm == "sac" else owner.action_net
    with torch.no_grad():
        layer.weight.mul_(0.05)
        owner.log_std.fill_(-2.0)
    shown = VECTOR.sample()
    tensor = model.policy.obs_to_tensor(shown)[0]
    if algorithm == "sac":
        means, logs, extra = owner.get_action_dist_params(tensor)
        normal = owner.action_dist.proba_distribution(means, logs, **extra).distribution
    else:
        normal = owner.get_distribution(tensor).distribution
    controller = written(model, tmp_path, Sampling())

    controller.begin((AGENT,), 3)
    assert np.array_equal(act(controller, shown), act(controller, shown))
    chosen = unsquashed(drawn(controller, shown, episodes=True))

    np.testing.assert_allclose(chosen.mean(0), normal.mean[0].detach(), atol=0.05)
    np.testing.assert_allclose(chosen.std(0), normal.stddev[0].detach(), rtol=0.1)


@pytest.mark.parametrize("algorithm", ["dqn", "qrdqn"])
def test_policies_of_values_explore_as_in_training_or_draw_by_their_values(algorithm: str, tmp_path: Path) -> None:
    model = make_model(algorithm, VECTOR, CHOICE)
    model.exploration_rate = 0.4
    shown = VECTOR.sample()
    best = int(model.predict(shown, deterministic=True)[0])

    chosen = drawn(written(model, tmp_path, Sampling()), shown)

    assert abs(np.mean(chosen == best) - 0.7) < 0.045  # 0.6, and a quarter of the rest
    assert set(drawn(written(model, tmp_path, Sampling(1e-6)), shown)) == {best}
    assert len(set(drawn(written(model, tmp_path, Sampling(1e6)), shown))) == 4


def test_a_deterministic_policy_has_nothing_to_draw_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"td3 policy has one action for each observation.*Leave sample"):
        written(make_model("td3", VECTOR, FORCE), tmp_path, Sampling())


@pytest.mark.parametrize("algorithm", ["ppo", "sac", "dqn", "recurrent_ppo"])
def test_the_same_seed_draws_the_same_actions(algorithm: str, tmp_path: Path) -> None:
    model = make_model(algorithm, VECTOR, action_of(algorithm))
    model.exploration_rate = 0.5
    controller = written(model, tmp_path, Sampling())
    shown = [VECTOR.sample() for _ in range(20)]

    def game(seed: int) -> list[Any]:
        controller.begin((AGENT,), seed)
        return [np.asarray(act(controller, each)).tolist() for each in shown]

    assert game(4) == game(4)
    assert game(4) != game(5)


def test_agents_in_one_turn_draw_apart(tmp_path: Path) -> None:
    controller = written(make_model("sac", VECTOR, FORCE), tmp_path, Sampling())
    shown = VECTOR.sample()
    controller.begin((AGENT,), 0)

    turn = Turn({AGENT: shown}, {}, {}, {}, {}, {}, {})
    assert not np.array_equal(controller.act(turn)[AGENT], controller.act(turn)[AGENT])
