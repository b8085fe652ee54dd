"""A network in an agent's place."""

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.models.architecture import Architecture
from mosaic.models.layout import initial_weights, tensors
from mosaic.policies.controller import Explains, Explanation
from mosaic.policies.network import NetworkPolicyController

BOX = spaces.Box(-5, 5, (4,), np.float32)
AGENTS = ("a", "b", "c")


def turn_of(observations, masks=None):
    return Turn(observations, masks or {}, {}, {}, {}, {}, {})


def seen(agents=AGENTS, seed=0, width=4):
    random = np.random.default_rng(seed)
    return {agent: random.standard_normal(width).astype(np.float32) for agent in agents}


def network(action_space, agents=AGENTS, observation_space=BOX, width=4, seed=0, **options):
    """A controller of lively weights, and what its logits are."""
    action = action_code(action_space)
    critic = options.pop("critic_observation", 0)
    architecture = Architecture(width, action.head, (16, 16), critic_observation=critic)
    flat = initial_weights(architecture, seed)
    flat += (np.random.default_rng(seed).standard_normal(flat.size) * 0.5).astype(np.float32)
    codes = dict.fromkeys(agents, row_code(observation_space)), dict.fromkeys(agents, action)
    controller = NetworkPolicyController(architecture, flat, *codes, **options)

    def outputs(row, net="policy."):
        x = np.asarray(row, float)
        places = [place.of(flat) for place in tensors(architecture) if place.name.startswith(net)]
        for layer in range(0, 6, 2):
            x = x @ places[layer] + places[layer + 1]
            x = np.tanh(x) if layer < 4 else x
        return x

    return controller, outputs


def test_the_best_action_is_played_alone_and_together():
    controller, logits = network(spaces.Discrete(5, start=3))
    controller.begin(AGENTS, 0)
    for seed in range(20):
        observations = seen(seed=seed)
        expected = {agent: 3 + int(logits(row).argmax()) for agent, row in observations.items()}
        assert controller.act(turn_of(observations)) == expected
        for agent in AGENTS:
            assert controller.act(turn_of({agent: observations[agent]})) == {agent: expected[agent]}
    assert isinstance(controller, Explains)
    assert controller.act(turn_of({})) == {}


@pytest.mark.parametrize("sample", [False, True])
def test_masks_are_law_for_those_who_have_one(sample):
    controller, logits = network(spaces.Discrete(5), sample=sample)
    controller.begin(AGENTS, 0)
    for seed in range(30):
        observations = seen(seed=seed)
        best = int(logits(observations["a"]).argmax())
        mask = np.arange(5) != best
        mask.setflags(write=False)
        played = controller.act(turn_of(observations, {"a": mask}))
        assert played["a"] != best
        if not sample:
            assert played["a"] == int(np.where(mask, logits(observations["a"]), -np.inf).argmax())
            assert controller.act(turn_of({"a": observations["a"]}, {"a": mask})) == {"a": played["a"]}
            assert played["b"] == int(logits(observations["b"]).argmax())


def test_numbers_are_cut_to_the_space_and_choices_keep_their_dtype():
    box = spaces.Box(np.float32([-0.1, -9]), np.float32([0.1, 9]))
    controller, means = network(box)
    observations = seen()
    for turn in (turn_of(observations), turn_of({"a": observations["a"]})):
        action = controller.act(turn)["a"]
        np.testing.assert_allclose(action, np.clip(means(observations["a"]), box.low, box.high), rtol=1e-4)
        assert box.contains(action)
    choices = spaces.MultiDiscrete([3, 2])
    controller, logits = network(choices)
    for turn in (turn_of(observations), turn_of({"a": observations["a"]})):
        action, expected = controller.act(turn)["a"], logits(observations["a"])
        assert action.tolist() == [expected[:3].argmax(), expected[3:].argmax()]
        assert choices.contains(action)


def test_actions_are_not_changed_by_the_next_decision():
    controller, _ = network(spaces.Box(-9, 9, (2,)))
    first = controller.act(turn_of(seen(("a",), 1)))["a"]
    kept = first.copy()
    controller.act(turn_of(seen(("a",), 2)))
    assert (first == kept).all()


def test_an_agent_that_shows_less_is_filled_with_zeros():
    small = spaces.Box(-5, 5, (2,), np.float32)
    architecture = Architecture(4, action_code(spaces.Discrete(5)).head, (16,))
    flat = initial_weights(architecture, 0) * np.float32(50)
    codes = {"a": row_code(small), "b": row_code(BOX)}
    actions = dict.fromkeys(codes, action_code(spaces.Discrete(5)))
    controller = NetworkPolicyController(architecture, flat, codes, actions, (np.full(4, 0.5), np.full(4, 3.0)))
    for seed in range(20):
        row = seen(("a",), seed, 2)["a"]
        padded = np.concatenate((row, [0, 0])).astype(np.float32)
        expected = controller.act(turn_of({"b": padded}))["b"]
        other = seen(("b",), seed + 50)["b"]
        assert controller.act(turn_of({"a": row})) == {"a": expected}
        assert controller.act(turn_of({"b": other, "a": row}))["a"] == expected
        assert controller.act(turn_of({"a": row, "b": other}))["a"] == expected


def test_scaled_observations_are_shifted_stretched_and_cut():
    shift, scale = np.float32([1, 0, -2, 0, 9]), np.float32([2, 30, 1, 0.5, 9])  # wider than the network reads
    controller, logits = network(spaces.Discrete(5), scaler=(shift, scale))
    for seed in range(20):
        observations = seen(seed=seed)
        rows = {a: np.clip((row - shift[:4]) * scale[:4], -10, 10) for a, row in observations.items()}
        expected = {agent: int(logits(row).argmax()) for agent, row in rows.items()}
        assert controller.act(turn_of(observations)) == expected
        assert controller.act(turn_of({"a": observations["a"]})) == {"a": expected["a"]}


def test_samples_follow_the_seed_and_the_probabilities():
    controller, logits = network(spaces.Discrete(3), sample=True)
    turn = turn_of(seen())
    episodes = []
    for seed in (1, 1, 2):
        controller.begin(AGENTS, seed)
        episodes.append([controller.act(turn)["b"] for _ in range(400)])
    assert episodes[0] == episodes[1] != episodes[2]
    shares = np.exp(logits(turn.observations["b"]))
    frequencies = np.bincount(np.concatenate(episodes[1:]), minlength=3) / 800
    np.testing.assert_allclose(frequencies, shares / shares.sum(), atol=0.06)


def test_room_that_grows_in_an_episode_changes_no_draw():
    grown, _ = network(spaces.Discrete(5), sample=True)
    ready, _ = network(spaces.Discrete(5), sample=True)
    ready.act(turn_of(seen()))
    turns = [turn_of(seen(("a",), 1)), turn_of(seen(AGENTS, 2)), turn_of(seen(AGENTS, 3))]
    played = []
    for controller in (grown, ready):
        controller.begin(AGENTS, 5)
        played.append([controller.act(turn) for turn in turns])
    assert played[0] == played[1]


def test_explanations_are_probabilities_and_values():
    controller, outputs = network(spaces.Discrete(5), sample=True)
    observations = seen()
    turn = turn_of(observations, {"b": np.array([0, 1, 0, 1, 1], bool)})
    controller.begin(AGENTS, 0)
    explained = controller.explain(turn)
    for agent, row in observations.items():
        shares = np.exp(outputs(row)) * turn.action_masks.get(agent, 1)
        np.testing.assert_allclose(explained[agent].probabilities, shares / shares.sum(), atol=1e-5)
        assert explained[agent].probabilities.dtype == np.float64
        assert explained[agent].value == pytest.approx(outputs(row, "value.")[0], rel=1e-4)
    after = [controller.act(turn) for _ in range(5)]
    controller.begin(AGENTS, 0)
    assert after == [controller.act(turn) for _ in range(5)]  # asking drew nothing


def test_action_values_say_what_is_played_and_what_it_is_worth():
    controller, values = network(spaces.Discrete(5))
    controller.has_value = False  # as of a network that DQN has trained
    observations, legal = seen(), np.array([0, 1, 0, 1, 1], bool)
    turn = turn_of(observations, {"b": legal})
    explained, played = controller.explain(turn), controller.act(turn)
    for agent, row in observations.items():
        found = np.where(legal, values(row), -np.inf) if agent == "b" else values(row)
        assert explained[agent].probabilities.tolist() == np.eye(5)[played[agent]].tolist()
        assert explained[agent].value == pytest.approx(found.max(), rel=1e-4)


def test_no_opinion_where_there_is_none():
    controller, _ = network(spaces.MultiDiscrete([3, 2]))
    assert controller.explain(turn_of(seen()))["a"].probabilities is None
    controller, _ = network(spaces.Box(-1, 1, (2,)), critic_observation=12)
    assert controller.explain(turn_of(seen()))["a"] == Explanation(None, None)


def test_networks_of_other_spaces_are_refused():
    with pytest.raises(InputError, match=r"reads 3 numbers .* but a observes 4 numbers and takes .* trained in"):
        network(spaces.Discrete(2), width=3)
    action = action_code(spaces.Discrete(2))
    architecture = Architecture(4, action.head)
    codes = {"a": row_code(BOX)}
    flat = initial_weights(architecture, 0)
    with pytest.raises(InputError, match="play it in the env that it was trained in"):
        NetworkPolicyController(architecture, flat, codes, {"a": action_code(spaces.Discrete(3))})
    with pytest.raises(InputError, match=rf"has {flat.size} weights, but {flat.size - 1} were given"):
        NetworkPolicyController(architecture, flat[1:], codes, {"a": action})
    with pytest.raises(InputError, match=r"scaler of shapes \(3,\) and \(3,\) does not fit .* reads 4 numbers"):
        NetworkPolicyController(architecture, flat, codes, {"a": action}, (np.zeros(3), np.ones(3)))
    controller = NetworkPolicyController(architecture, flat, codes, {"a": action})
    with pytest.raises(InputError, match="mask has 3 actions, but this network was built for 2"):
        controller.act(turn_of(seen(("a",)), {"a": np.ones(3, bool)}))


def test_the_controller_keeps_its_own_weights():
    action = action_code(spaces.Discrete(4))
    architecture = Architecture(4, action.head)
    flat = initial_weights(architecture, 0) * np.float32(30)
    controller = NetworkPolicyController(architecture, flat, {"a": row_code(BOX)}, {"a": action})
    before = [controller.act(turn_of(seen(("a",), seed))) for seed in range(20)]
    flat[:] = 0
    assert [controller.act(turn_of(seen(("a",), seed))) for seed in range(20)] == before
    controller.close()
    controller.close()


@pytest.mark.parametrize("shared", [False, True])
def test_a_temperature_divides_the_logits(shared):
    architecture = Architecture(4, action_code(spaces.Discrete(3)).head, hidden=(8,), shared=shared)
    flat = initial_weights(architecture, 3)
    flat += np.random.default_rng(1).normal(0, 0.7, len(flat)).astype(np.float32)
    rows, actions = {"b": row_code(spaces.Box(-9, 9, (4,)))}, {"b": action_code(spaces.Discrete(3))}
    turn = turn_of({"b": np.ones(4, np.float32)})
    plain = NetworkPolicyController(architecture, flat, rows, actions)
    shares = plain.explain(turn)["b"].probabilities
    value = plain.explain(turn)["b"].value
    for temperature in (0.5, 3.0):
        drawn = NetworkPolicyController(architecture, flat, rows, actions, sample=True, temperature=temperature)
        wanted = shares ** (1 / temperature) / (shares ** (1 / temperature)).sum()
        np.testing.assert_allclose(drawn.explain(turn)["b"].probabilities, wanted, atol=1e-5)
        assert drawn.explain(turn)["b"].value == pytest.approx(value, rel=1e-5)


def test_a_temperature_multiplies_deviations():
    architecture = Architecture(4, action_code(spaces.Box(-99, 99, (2,))).head, hidden=(8,))
    flat = initial_weights(architecture, 3)
    rows, actions = {"b": row_code(spaces.Box(-9, 9, (4,)))}, {"b": action_code(spaces.Box(-99, 99, (2,)))}
    turn = turn_of({"b": np.ones(4, np.float32)})
    drawn = NetworkPolicyController(architecture, flat, rows, actions, sample=True, temperature=3.0)
    drawn.begin(("b",), 1)
    numbers = np.array([drawn.act(turn)["b"] for _ in range(500)])
    np.testing.assert_allclose(numbers.std(0), 3.0, rtol=0.12)
