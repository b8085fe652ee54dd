"""What upstream gets wrong is still wrong there, and right with us: a failure here may mean that a repair can go."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import gymnasium
import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.core.turn import digest, digest_value
from mosaic.envs.adapters import upstream as repairs
from mosaic.envs.adapters.upstream import keep_pygame, quiet
from mosaic.envs.catalog import make_env
from mosaic.envs.contract.session import Sampler
from tests.envs.env_cases import PONG, raw_aec, raw_parallel, turns

MOVES = np.random.default_rng(0).uniform(-1, 1, (60, 4)).astype(np.float32)


def test_multiwalker_calls_its_time_limit_an_end():
    still = {f"walker_{index}": np.zeros(4, np.float32) for index in range(3)}
    raw = raw_parallel("sisl/multiwalker_v9", max_cycles=3)
    raw.reset(seed=1)
    for _ in range(3):
        _, _, terminated, truncated, _ = raw.step(still)
    assert set(terminated.values()) == {True}
    assert set(truncated.values()) == {False}
    for api_type in ("auto", "aec"):
        env = make_env(_config("sisl/multiwalker_v9", api_type, max_cycles=3))
        turn = env.reset(1)
        while not turn.over:
            turn = env.step({agent: still[agent] for agent in turn.observations})
        assert set(turn.truncated.values()) == {True}
        assert set(turn.terminated.values()) == {False}


def test_a_walker_that_falls_is_still_terminated():
    *_, last = turns(make_env("sisl/multiwalker_v9"), 1, 400)
    assert set(last.terminated.values()) == {True}
    assert set(last.truncated.values()) == {False}


def _config(env_id, api_type, **options):
    from mosaic.config.sections import EnvironmentConfig

    return EnvironmentConfig(env_id=env_id, api_type=api_type, options=options)


def test_the_world_of_bipedal_walker_remembers_earlier_episodes():
    def walk(reset, step, seed):
        looks = [digest_value(reset(seed))]
        for move in MOVES:
            observation, over = step(move)
            looks.append(digest_value(observation))
            if over:
                break
        return looks

    def raw_walker():
        with quiet():  # Box2D crashes where warnings are errors while it is imported
            raw = gymnasium.make("BipedalWalker-v3", disable_env_checker=True)

        def step(move):
            observation, _, terminated, truncated, _ = raw.step(move)
            return observation, terminated or truncated

        return lambda seed: raw.reset(seed=seed)[0], step

    def our_walker():
        env = make_env("gym/BipedalWalker-v3")

        def step(move):
            turn = env.step({"agent_0": move})
            return (turn.observations or turn.final_observations)["agent_0"], turn.over

        return lambda seed: env.reset(seed).observations["agent_0"], step

    def differing(walker):
        used = walker()
        return sum(walk(*used, seed) != walk(*walker(), seed) for seed in range(12))

    assert differing(raw_walker) > 0
    assert differing(our_walker) == 0


def test_gin_rummy_forgets_its_rewards_when_it_is_seeded():
    rewards = {"knock_reward": 0.7, "gin_reward": 0.9}
    env, raw = make_env("classic/gin_rummy_v4", **rewards), raw_aec("classic/gin_rummy_v4", **rewards)
    sampler, seed = Sampler(env.action_spaces, 37), 37  # a hand in which random play knocks
    turn = env.reset(seed)
    raw.reset(seed=seed)
    while not turn.over:
        actions = sampler.draw(turn)
        (action,) = actions.values()
        raw.step(action)
        turn = env.step(actions)
    assert turn.rewards["player_1"] == 0.7
    assert raw.rewards["player_1"] == 0.2


def test_hanabi_without_a_seed_draws_new_entropy():
    def hands(env):
        return [digest_value(env()) for _ in range(4)]

    def raw_hands():
        raw = raw_aec("classic/hanabi_v5")
        raw.reset(seed=1)
        return hands(lambda: raw.reset() or raw.observe(raw.agent_selection)["observation"])

    def our_hands():
        env = make_env("classic/hanabi_v5")
        env.reset(1)
        return hands(lambda: env.reset().observations["player_0"])

    assert raw_hands() != raw_hands()
    assert our_hands() == our_hands()
    assert len(set(our_hands())) == 4


@pytest.mark.filterwarnings("ignore:.*You are calling render method without specifying any render mode")
@pytest.mark.parametrize(("env_id", "steps", "black"), [(PONG, 5, True), ("butterfly/pistonball_v6", 5, False)])
def test_envs_that_show_pictures_draw_them_only_with_a_render_mode(env_id, steps, black):
    raw = raw_parallel(env_id, render_mode=None)
    observations, _ = raw.reset(seed=1)
    agent = raw.agents[0]
    looks = [observations[agent]]
    for _ in range(steps):
        observations, *_ = raw.step({a: raw.action_space(a).sample() for a in raw.agents})
        looks.append(observations[agent])
    assert all((look == looks[0]).all() for look in looks)
    assert looks[0].any() != black
    ours = [turn.observations[agent] for turn in turns(make_env(env_id), 1, steps)]
    assert len({digest_value(look) for look in ours}) > 2
    assert ours[0].any()


_TWO_SIZES = """
from pettingzoo.classic import go_v5
one = go_v5.env(board_size=9)
one.reset(seed=1)
other = go_v5.env(board_size=5)
try:
    one.step(80)  # the last point of a 9×9 board
    print(one.observe("white_0")["observation"].shape)
except Exception as error:
    print(type(error).__name__)
"""


def test_a_second_size_of_go_breaks_the_first():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _TWO_SIZES], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] != "(9, 9, 17)"


def test_a_second_size_of_go_is_refused(monkeypatch):
    monkeypatch.setattr(repairs, "_go_size", 9)
    with pytest.raises(
        InputError, match=r"board_size=19 cannot be used together with board_size=9 in one process.*one size"
    ):
        make_env("classic/go_v5")


def test_go_of_the_same_size_is_opened_again(monkeypatch):
    monkeypatch.setattr(repairs, "_go_size", None)
    one, other = make_env("classic/go_v5"), make_env("classic/go_v5", board_size=19)
    assert digest(one.reset(1)) == digest(other.reset(1))


def test_chess_tells_engines_the_position():
    env = make_env("classic/chess_v6")
    turn = env.reset(1)
    assert turn.infos["player_0"]["fen"] == "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    turn = env.step(Sampler(env.action_spaces, 1).draw(turn))
    assert turn.infos["player_1"]["fen"].split()[1] == "b"


def test_mpe_confuses_names_and_we_do_not():
    one, _ = make_env("mpe/simple_spread_v3"), make_env("mpe/simple_tag_v3")
    assert str(one.env) != "simple_spread_v3"
    assert one.spec.env_id == "mpe/simple_spread_v3"


def test_an_env_that_closes_while_another_one_does_leaves_pygame_alone():
    pygame = pytest.importorskip("pygame")
    quit_pygame = pygame.quit
    with ExitStack() as second:
        with ExitStack() as first:
            first.enter_context(keep_pygame())
            second.enter_context(keep_pygame())
        assert pygame.quit is not quit_pygame  # the second one still closes
    assert pygame.quit is quit_pygame


@pytest.mark.skipif(sys.platform != "linux", reason="Mesa draws for MuJoCo on Linux only")
def test_triton_is_imported_before_the_first_picture_of_mujoco(tmp_path, monkeypatch):
    (tmp_path / "triton.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    imported = []

    class Renderer:
        viewer = None

        def render(self, mode):
            imported.append("triton" in sys.modules)

        def close(self):
            pass

    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    renderer = repairs.OpenGLRenderer(Renderer(), "gym/any")
    renderer.render("rgb_array")
    renderer.close()
    assert imported == [True]
    monkeypatch.delitem(sys.modules, "triton", raising=False)
