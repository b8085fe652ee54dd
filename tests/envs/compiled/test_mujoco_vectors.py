"""Compiled MuJoCo envs: step by step what Gymnasium computes."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MissingExtraError, MosaicError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from tests.envs.compiled.lockstep import unwrapped, walk

mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed")

WALKS = [  # env, options, whether it terminates, whether it is truncated within 300 steps
    ("Ant", {"max_episode_steps": 40}, True, True),
    ("HalfCheetah", {"max_episode_steps": 90}, False, True),
    ("Hopper", {"max_episode_steps": 25}, True, True),
    ("Walker2d", {"max_episode_steps": 25}, True, True),
    ("Swimmer", {"max_episode_steps": 90}, False, True),
    ("InvertedPendulum", {"max_episode_steps": 9}, True, True),
    ("InvertedDoublePendulum", {"max_episode_steps": 7}, True, True),
    ("Reacher", {}, False, True),
]
OPTIONS = [  # other constants
    ("Ant", {"include_cfrc_ext_in_observation": False, "healthy_z_range": (0.4, 0.9), "contact_cost_weight": 0.1}),
    ("HalfCheetah", {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2, "frame_skip": 3}),
    ("Hopper", {"terminate_when_unhealthy": False, "healthy_reward": 3.0, "healthy_angle_range": (-0.1, 0.3)}),
    ("Reacher", {"reward_dist_weight": 0.5, "reward_control_weight": 2}),
]


def config(name, options=None):
    return EnvironmentConfig(env_id=f"gym/{name}-v5", options=options or {})


def load(raw, state):
    mujoco.mj_resetData(raw.model, raw.data)
    raw.set_state(state[: raw.model.nq], state[raw.model.nq : raw.model.nq + raw.model.nv])


def walk_robot(name, steps, options):
    actions = find_kernel(config(name)).heads[0].width

    def policy(rng, obs):
        """Beyond the bounds as well: actions are clipped."""
        return (rng.normal(size=(len(obs), actions)) * np.linspace(0.1, 1.5, len(obs))[:, None]).astype(np.float32)

    return walk(f"gym/{name}-v5", 4, steps, policy, load, options=options)


@pytest.mark.parametrize(("name", "options", "terminates", "truncates"), WALKS, ids=[walk[0] for walk in WALKS])
def test_a_short_walk_is_the_references(name, options, terminates, truncates):
    tally = walk_robot(name, 100, options)
    assert (tally.terminated > 0, tally.truncated > 0) == (terminates, truncates)


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=[name for name, _ in OPTIONS])
def test_options_are_the_references(name, options):
    walk_robot(name, 40, options)


@pytest.mark.slow
@pytest.mark.parametrize("name", [walk[0] for walk in WALKS])
def test_a_long_walk_is_the_references(name):
    assert walk_robot(name, 26_000, {}).steps >= 10**5


def test_envs_of_a_vector_do_not_influence_each_other():
    """They share one simulation: alone or among others, an env has the same episode."""
    many, one = (make_compiled_vector(config("Hopper"), count) for count in (5, 1))
    acts = np.random.default_rng(2).normal(size=(30, 5, 3)).astype(np.float32)
    many.reset(7)
    one.reset(7)
    for act in acts:
        many.step(act)
        one.step(act[:1].copy())
        assert many.obs[0].tobytes() == one.obs[0].tobytes()
        assert (many.rew[0], many.term[0]) == (one.rew[0], one.term[0])


def test_starts_are_spread_as_in_the_reference():
    vector = make_compiled_vector(config("HalfCheetah"), 2_000)
    vector.reset(3)
    env = unwrapped(make_env("gym/HalfCheetah-v5"))
    theirs = np.array([env.reset(seed=seed)[0] for seed in range(300)])
    np.testing.assert_allclose(vector.obs.mean(0), theirs.mean(0), atol=0.03)
    np.testing.assert_allclose(vector.obs.std(0), theirs.std(0), rtol=0.2)
    reacher = make_compiled_vector(config("Reacher"), 500)
    reacher.reset(1)
    assert (np.hypot(reacher.obs[:, 4], reacher.obs[:, 5]) < 0.2).all()


def test_other_rules_have_no_kernel():
    assert find_kernel(EnvironmentConfig(env_id="gym/Humanoid-v5")) is None
    assert find_kernel(EnvironmentConfig(env_id="gym/Hopper-v5", wrappers=("clip_reward:low=-1,high=1",))) is None


@pytest.mark.slow
def test_a_cached_kernel_holds_no_address_of_another_process():
    """Machine code is loaded from the cache, and the library lies elsewhere in every process."""
    code = (
        "import numpy as np; from mosaic.config.sections import EnvironmentConfig as C;"
        "from mosaic.envs.compiled.vector import make_compiled_vector as make;"
        "v = make(C(env_id='gym/InvertedPendulum-v5'), 2); v.reset(1);"
        "[v.step(np.full((2, 1), 0.3, np.float32)) for _ in range(9)]; print(v.kernel.facts[0], v.obs.sum())"
    )
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    (first, sum_1), (second, sum_2) = (each.stdout.split() for each in said)
    assert first != second
    assert sum_1 == sum_2


@pytest.fixture
def _opengl():
    os.environ.setdefault("MUJOCO_GL", "egl")
    probe = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8).close()"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("OpenGL does not work here")


@pytest.mark.slow
@pytest.mark.usefixtures("_opengl")
def test_pictures_of_two_envs_in_two_threads():
    vectors = [make_compiled_vector(config(name), 1) for name in ("HalfCheetah", "Reacher")]
    for vector in vectors:
        vector.reset(0)
    here = [vector.render(0) for vector in vectors]
    there = []
    thread = Thread(target=lambda: there.extend(vector.render(0) for vector in vectors))
    thread.start()
    thread.join()
    for ours, theirs in zip(here, there, strict=True):
        assert ours.shape == (480, 480, 3)
        assert ours.std() > 10
        assert ours.tobytes() == theirs.tobytes()
    assert here[0].tobytes() != here[1].tobytes()
    for vector in vectors:
        vector.close()


OURS = "from mosaic.envs.catalog import make_env; e = make_env('gym/Hopper-v5'); e.reset(0); e.render()"
THEIRS = "import gymnasium; e = gymnasium.make('Hopper-v5', render_mode='rgb_array'); e.reset(); e.render()"


@pytest.mark.slow
@pytest.mark.usefixtures("_opengl")
@pytest.mark.parametrize(("code", "says"), [(OURS, False), (THEIRS, True)], ids=["ours", "theirs"])
def test_an_env_that_was_drawn_and_not_closed_ends_with_the_interpreter(code, says):
    """Upstream frees the context when EGL is gone; without that error our repair can go."""
    if os.environ["MUJOCO_GL"] != "egl":
        pytest.skip("only EGL is ended by the interpreter")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("EGLError" in ended.stderr) == says
    assert says or not ended.stderr


class _Broken:
    viewer = None

    def render(self, mode):
        raise RuntimeError("no display")

    def close(self):
        pass


def test_a_picture_that_cannot_be_drawn_says_what_to_install():
    env = make_env("gym/Hopper-v5")
    env.reset(0)
    unwrapped(env).mujoco_renderer._renderer = _Broken()
    with pytest.raises(MosaicError, match=r"gym/Hopper-v5 cannot be drawn here: .*RuntimeError.*apt install libegl1"):
        env.render()
    env.close()


@pytest.mark.parametrize("package", ["imageio", "packaging.version"])  # imported by Gymnasium's renderer
def test_a_part_of_the_extra_that_is_missing_is_named(monkeypatch, package):
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"Hopper-v5 needs .*'{package}'.* pip install 'mosaic-rl\[mujoco\]'"):
        make_env("gym/Hopper-v5")


def test_without_the_extra_it_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("mujoco", "gymnasium.envs.mujoco"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mosaic-rl\[mujoco\]'"):
        find_kernel(config("Hopper"))
