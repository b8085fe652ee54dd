"""The example game itself: what it says about its agents, seeds, ends and its own end."""

from random import Random

import pytest

from tests.godot.raw_game import needs_engine, raw_game

pytestmark = needs_engine
STAY = ((0.0, 0.0), 0)
WASTE = ((0.0, 0.0), 1)


@pytest.fixture(scope="module")
def game():
    """Return one game for all tests that leave it running."""
    with raw_game("--env_seed=3") as started:
        started.info = started.ask("env_info")
        yield started


def drawn(random):
    return tuple(((random.uniform(-1, 1), random.uniform(-1, 1)), random.randrange(2)) for _ in range(2))


def towards_target(observation):
    """Return the action of a good player: straight to the target, and act when near."""
    _, _, x, y, near, _ = observation["obs"]
    length = max(1e-6, (x * x + y * y) ** 0.5)
    return (x / length, y / length), int(near > 0)


def test_it_declares_two_agents_with_two_policies_and_mixed_actions(game):
    assert game.info["n_agents"] == 2
    assert game.info["agent_policy_names"] == ["picker", "dog"]
    assert game.info["observation_space"] == [{"obs": {"size": [6], "space": "box"}}] * 2
    move, act = {"size": 2, "action_type": "continuous"}, {"size": 2, "action_type": "discrete"}
    assert game.info["action_space"] == [{"move": move, "act": act}] * 2


def test_the_same_seed_gives_the_same_game(game):
    def played(seed):
        random = Random(1)
        return [game.ask("reset", seed=seed), *(game.act(*drawn(random)) for _ in range(130))]

    first = played(7)
    assert played(8) != first
    assert played(7) == first
    with raw_game("--env_seed=99") as other:
        other.ask("env_info")
        random = Random(1)
        assert [other.ask("reset", seed=7), *(other.act(*drawn(random)) for _ in range(130))] == first


def test_an_agent_that_waits_runs_out_of_time(game):
    game.ask("reset", seed=1)
    steps = [game.act(STAY, WASTE) for _ in range(60)]
    assert [step["done"] for step in steps[:-1]] == [[False, False]] * 59
    assert steps[-1]["done"] == steps[-1]["truncated"] == [True, True]
    assert [sum(step["reward"][0] for step in steps), steps[5]["reward"][1]] == [0.0, -0.05]
    assert game.act(STAY, STAY)["done"] == [False, False]  # both play their next episode


def test_a_good_player_wins_and_each_agent_ends_by_itself(game):
    step = game.ask("reset", seed=1)
    won = {}
    for number in range(1, 61):
        step = game.act(*map(towards_target, step["obs"]))
        for agent, done in enumerate(step["done"]):
            if done and agent not in won:
                won[agent] = number, step["truncated"][agent], step["info"][agent]["reached"]
    assert won[1][0] < won[0][0]  # the dog runs faster
    assert won[0][1:] == won[1][1:] == (False, 8)


def test_every_number_is_within_its_bounds(game):
    random, seen = Random(2), [game.ask("reset", seed=5)]
    seen += [game.act(*drawn(random)) for _ in range(100)]
    numbers = [number for step in seen for agent in step["obs"] for number in agent["obs"]]
    assert min(numbers) >= -1.0
    assert max(numbers) <= 1.0


def test_methods_of_the_agents_can_be_called(game):
    game.ask("reset", seed=1)
    assert game.ask("call", method="get_info") == {"type": "call", "returns": [{}, {}]}


def test_the_camera_is_eight_by_eight_hex_bytes():
    with raw_game("--camera") as game:
        camera = game.ask("env_info")["observation_space"][0]["camera_2d"]
        assert camera == {"size": [8, 8, 1], "space": "box"}
        picture = bytes.fromhex(game.ask("reset", seed=1)["obs"][0]["camera_2d"])
    assert len(picture) == 64
    assert sorted({*picture}) == [0, 128, 255]


def test_it_ends_when_asked_and_when_the_trainer_has_gone():
    for leave in (lambda game: game.send(type="close"), lambda game: game.hang_up()):
        with raw_game() as game:
            game.ask("env_info")
            leave(game)
            assert game.process.wait(60) == 0
