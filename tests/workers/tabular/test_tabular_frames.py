"""Tables that are watched while they learn: true pictures, and not one number of the training is another."""

import itertools

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.connect_four import drop_stone, key_of
from mosaic.envs.compiled.board_games.tictactoe import position_of
from mosaic.envs.compiled.reference import bare_env
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.hashed.training import HashedTraining
from mosaic.learners.tabular.kernels.loops import NOWHERE, RETURN, STATE
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining, TwoTableTraining
from mosaic.runs.trainer import Trainer
from mosaic.runtimes.parallel import ParallelTraining
from mosaic.telemetry.events.reader import read_events
from mosaic.workers.context import WorkerContext
from mosaic.workers.tabular import frames as tabular_scene
from mosaic.workers.tabular.frames import Pieces, TwinScene
from tests.workers.hosting import run_config
from tests.workers.watching import EagerContext, assert_in_order, collect, distinct, looking, train_here, without_clocks

LAKE = EnvironmentConfig(env_id="gym/FrozenLake-v1")
FIRM_LAKE = EnvironmentConfig(env_id="gym/FrozenLake-v1", options={"is_slippery": False})
TAXI = EnvironmentConfig(env_id="gym/Taxi-v3")
BLACKJACK = EnvironmentConfig(env_id="gym/Blackjack-v1")
TICTACTOE = EnvironmentConfig(env_id="classic/tictactoe_v3")
OWN_TICTACTOE = EnvironmentConfig(env_id="mosaic/tictactoe")
CONNECT_FOUR = EnvironmentConfig(env_id="classic/connect_four_v3")
OPTIONS = TabularOptions(epsilon=0.5, epsilon_schedule="constant", learning_rate=0.37, discount_factor=0.93)


def twin_training(environment, algorithm="q_learning", opponent="self", seed=3):
    return TwinTraining(find_twin(environment), algorithm, OPTIONS, seed, opponent)


TRAININGS = {
    "lake": lambda: twin_training(LAKE),
    "lake, sarsa": lambda: twin_training(LAKE, "sarsa"),
    "lake, expected sarsa": lambda: twin_training(LAKE, "expected_sarsa"),
    "blackjack": lambda: twin_training(BLACKJACK),
    "tic-tac-toe": lambda: twin_training(TICTACTOE),
    "tic-tac-toe against random": lambda: twin_training(TICTACTOE, opponent="random"),
    "two tables": lambda: TwoTableTraining(find_twin(TICTACTOE), "q_learning", OPTIONS, 3),
    "connect four": lambda: HashedTraining("q_learning", OPTIONS, 3),
    "two threads": lambda: ParallelTraining(lambda number: twin_training(LAKE, seed=number), 2, 700),
}


class Glances:
    """A camera that looks and shows nothing."""

    def __init__(self):
        self.number = 0

    def glance(self):
        self.number += 1


class Stared(TwinScene):
    def is_watched(self):
        return True


def odd_clock():
    """Pieces of ever other sizes: a second goes by between two looks at it, then hardly anything."""
    times = itertools.count()
    return lambda: (number := next(times)) + 0.999 * (number % 3 == 1)


def is_same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", TRAININGS)
def test_a_training_that_stops_for_pictures_comes_to_the_same_end_bit_for_bit(kind):
    left_alone, stared_at, camera = TRAININGS[kind](), TRAININGS[kind](), Glances()
    pieces = Pieces(stared_at, Stared(stared_at, LAKE), camera, clock=odd_clock())
    for steps, more_episodes in ((20_001, 0), (5_000, 0), (100_000, 500)):
        episodes = left_alone.episodes + more_episodes if more_episodes else 0
        left_alone.advance(steps, episodes)
        pieces.advance(steps, episodes)
        assert is_same(left_alone.tensors(), stared_at.tensors())
        assert left_alone.read_statistics() == stared_at.read_statistics()
    assert camera.number > 3, camera.number


def test_nobody_looks_and_the_loop_is_not_cut():
    training, camera, asked = twin_training(LAKE), Glances(), []
    scene, advance = TwinScene(training, LAKE), training.advance
    training.advance = lambda steps, episodes: (asked.append(steps), advance(steps, episodes))
    Pieces(training, scene, camera).advance(30_000, 0)
    assert (asked, camera.number) == ([30_000], 1)


def picture(training, environment):
    scene = TwinScene(training, environment)
    shot = scene.shoot(0)
    drawn = shot.draw()
    scene.close()
    return shot, drawn


def played(environment, actions):
    """The env itself after these actions of whoever moves; its last Turn and picture."""
    env = make_env(environment)
    turn = env.reset(seed=0)
    for action in actions:
        turn = env.step(dict.fromkeys(turn.observations, action))
    drawn = env.render().copy()
    env.close()
    return turn, drawn


@pytest.mark.parametrize("environment", [TICTACTOE, OWN_TICTACTOE], ids=str)
@pytest.mark.parametrize("actions", [(), (4,), (4, 0, 8)])
def test_a_position_of_tictactoe_looks_as_in_the_env_itself(environment, actions):
    turn, wanted = played(environment, actions)
    training = twin_training(environment)
    (observation,) = turn.observations.values()
    training.progress.counts[STATE] = position_of(observation) if actions else NOWHERE
    shot, drawn = picture(training, environment)
    np.testing.assert_array_equal(drawn, wanted)
    assert list(shot.returns) == ["player_1", "player_2"]


def test_a_position_of_connect_four_looks_as_in_the_env_itself():
    columns = (3, 3, 2, 4, 3, 0, 6)
    mine = taken = np.uint64(0)
    for column in columns:
        mine, taken = (np.uint64(word) for word in drop_stone(mine, taken, column)[:2])
    training = HashedTraining("q_learning", OPTIONS, 0)
    training.progress.counts[STATE] = np.int64(key_of(mine, taken))
    shot, drawn = picture(training, CONNECT_FOUR)
    np.testing.assert_array_equal(drawn, played(CONNECT_FOUR, columns)[1])
    assert list(shot.returns) == ["player_0", "player_1"]


def test_a_walk_over_the_lake_shows_where_it_is_how_it_came_and_what_it_earned():
    """Where the agent has moved, one action alone leads there: the elf looks the way it went."""
    training = twin_training(FIRM_LAKE)
    counts, scene = training.progress.counts, TwinScene(training, FIRM_LAKE)
    before = after = NOWHERE
    while NOWHERE in (before, after) or before == after:
        before = int(counts[STATE])
        scene.settle(1, 0)
        after = int(counts[STATE])
    env = make_env(FIRM_LAKE)
    env.reset(seed=0)
    raw, _ = bare_env(env)
    (raw.lastaction,) = (action for action in range(4) if raw.P[before][action][0][1] == after)
    raw.s = after
    shot = scene.shoot(0)
    np.testing.assert_array_equal(shot.draw(), env.render())
    assert (shot.env_steps, shot.episode) == (training.env_steps, training.episodes)
    env.close()
    scene.close()


def test_the_last_reward_and_the_return_belong_to_the_picture():
    """Taxi pays -1 a step, -10 for a mistake."""
    training = twin_training(TAXI)
    scene = TwinScene(training, TAXI)
    seen = set()
    for _ in range(60):
        earned = float(training.progress.sums[RETURN])
        scene.settle(1, 0)
        shot = scene.shoot(0)
        (total,) = shot.returns.values()
        assert shot.reward == total - earned or training.progress.counts[STATE] == NOWHERE
        seen.add(shot.reward)
    assert seen == {-1.0, -10.0}


def test_between_episodes_there_is_a_picture_only_where_the_next_begins_for_sure():
    assert picture(twin_training(LAKE), LAKE)[1].shape == (256, 256, 3)
    assert picture(twin_training(TAXI), TAXI)[1] is None


def test_each_thread_is_an_env_that_can_be_looked_at():
    training = TRAININGS["two threads"]()
    training.advance(1_400)
    scene = TwinScene(training, LAKE)
    assert scene.envs == 2
    shots = [scene.shoot(index) for index in range(2)]
    assert [shot.env for shot in shots] == [0, 1]
    assert sum(shot.episode for shot in shots) == training.episodes
    assert shots[1].draw().shape == (256, 256, 3)
    scene.close()


WAYS = {
    "twin": ({"env_id": "gym/FrozenLake-v1"}, {"report_every_steps": 30_000}, {"total_timesteps": 120_000}),
    "game": ({"env_id": "classic/tictactoe_v3"}, {"opponent": "random"}, {"total_timesteps": 60_000}),
    "connect four": ({"env_id": "classic/connect_four_v3"}, {}, {"total_timesteps": 20_000}),
    "played": (
        {"env_id": "gym/FrozenLake-v1"},
        {"report_every_steps": 60},
        {"total_timesteps": 200, "algorithm": "double_q_learning"},
    ),
    "played in seats": ({"env_id": "mosaic/tictactoe"}, {"table": "hashed"}, {"total_timesteps": 150}),
}


def config_of(way, **settings):
    environment, params, training = WAYS[way]
    return run_config(
        "tabular", params, environment=environment, training=training, evaluation={"episodes": 1}, **settings
    )


@pytest.mark.parametrize("way", WAYS)
def test_whoever_looks_changes_no_metric(way, tmp_path):
    alone = train_here(tmp_path / "a", config_of(way, telemetry={"frames": False}), WorkerContext)
    seen = train_here(tmp_path / "b", config_of(way), EagerContext)
    events, others = (without_clocks(read_events(context.folder.metrics)) for context in (alone, seen))
    assert events == others
    assert [event["kind"] for event in events].count("iteration") >= 1
    assert seen.shown
    steps = [facts["step"] for _, facts in seen.shown]
    assert steps == sorted(steps)
    assert 0 <= steps[0] <= steps[-1] <= events[-1]["env_steps"]
    assert all(rgb.dtype == np.uint8 and rgb.ndim == 3 and rgb.any() for rgb, _ in seen.shown)


def test_the_env_itself_is_shown_step_by_step_with_names_and_returns(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular_scene, "ASK_EVERY_S", 0.0)
    shown = train_here(tmp_path, config_of("played in seats"), EagerContext).shown
    assert [facts["step"] for _, facts in shown[:5]] == [1, 2, 3, 4, 5]
    assert shown[0][1]["agent"] == "player_1=0, player_2=0"
    assert {"player_1=1, player_2=-1", "player_1=-1, player_2=1"} & {facts["agent"] for _, facts in shown}


@pytest.mark.parametrize("way", ["twin", "played"])
def test_nobody_looks_and_nothing_is_drawn(way, tmp_path, monkeypatch):
    """Through the ring of a real context, which nobody has opened."""
    drawn = []

    def count(*_):
        drawn.append(1)

    monkeypatch.setattr(tabular_scene, "_drawing_board", count)
    monkeypatch.setattr("mosaic.envs.adapters.gymnasium.GymnasiumEnv.render", count)
    train_here(tmp_path, config_of(way), WorkerContext)
    assert drawn == []


@pytest.mark.slow
@pytest.mark.chosen
def test_a_real_run_is_seen_from_another_process(tmp_path):
    config = run_config(
        "tabular", environment={"env_id": "gym/FrozenLake-v1"}, training={"total_timesteps": 10**12},
        evaluation={"episodes": 1},
    )  # fmt: skip
    run = Trainer(tmp_path).submit(config)
    with looking(run) as reader:
        frames = collect(run, reader, lambda frames: distinct(frames) >= 5)
        run.stop()
        assert reader.state() == "finished"
    assert_in_order(frames)
    assert {frame.pixels.shape for frame in frames} == {(256, 256, 3)}
