"""What env runners tell and show: real runners of RLlib, in this process, without Ray."""

import importlib
import warnings
from contextlib import closing, contextmanager
from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from mosaic.core.errors import MosaicError
from mosaic.telemetry.frames.paths import request_pictures, ring_paths
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.run_pictures import RunPictures
from mosaic.telemetry.frames.sources import list_sources, source_folder
from mosaic.workers.rllib.reporting import callbacks as frames
from mosaic.workers.rllib.reporting.episodes import (
    alerts_of,
    records_of,
    returns_by_agent,
    returns_by_policy,
)
from tests.workers.rllib.rllib_setups import make_setup

pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")  # RLlib registers one name again and again

POLICIES = {"a": "shared", "b": "shared", "c": "other"}
LENGTH = 7  # of every episode: longer than a fragment, so that RLlib cuts it
FRAGMENT = 4


class Corridor(gymnasium.Env):
    """Pays the number of the step; its picture shows that number."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, config=None):
        self.render_mode = "rgb_array"
        self.observation_space = gymnasium.spaces.Box(0, LENGTH, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.breaks = bool((config or {}).get("breaks"))
        if (config or {}).get("without_render"):
            self.render = super().render
        self.t = 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), float(self.t), self.t == LENGTH, False, {}

    def render(self):
        if self.breaks:
            raise OSError("no screen")
        return np.full((2, 3, 3), self.t, np.uint8)


@pytest.fixture(scope="module", autouse=True)
def _rllib():
    with warnings.catch_warnings():  # RLlib's own, at its import
        warnings.simplefilter("ignore")
        importlib.import_module("ray.rllib.algorithms.ppo")


def three_agents():
    """The same for each of three agents, as RLlib wants it."""
    from ray.rllib.env.multi_agent_env import MultiAgentEnv

    class Corridors(MultiAgentEnv):
        render_mode = "rgb_array"

        def __init__(self, config=None):
            super().__init__()
            self.inner = Corridor(config)
            self.possible_agents = self.agents = list(POLICIES)
            self.observation_spaces = dict.fromkeys(POLICIES, self.inner.observation_space)
            self.action_spaces = dict.fromkeys(POLICIES, self.inner.action_space)

        def reset(self, *, seed=None, options=None):
            observation, _ = self.inner.reset()
            return dict.fromkeys(POLICIES, observation), {}

        def step(self, actions):
            observation, reward, over, *_ = self.inner.step(0)
            rewards = {"a": reward, "b": 2 * reward, "c": 0.0}
            return dict.fromkeys(POLICIES, observation), rewards, {"__all__": over}, {"__all__": False}, {}

        def render(self):
            return self.inner.render()

    return Corridors


def runner(folder, *, agents=None, worker_index=0, runners=0, show=True, host=None, envs=2, **env_config):
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from mosaic.workers.rllib.reporting.callbacks import MosaicCallback, callback_facts

    policies = agents or {"a": "shared"}
    facts = callback_facts(folder, policies, frames=show, undrawn="No pictures of a corridor.")
    if host is not None:
        facts["host"] = host
    config = (
        PPOConfig()
        .environment(three_agents() if agents else Corridor, env_config=env_config)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=FRAGMENT)
        .callbacks(partial(MosaicCallback, facts=facts))
        .debugging(seed=3)
    )
    if agents:
        config.multi_agent(policies=set(agents.values()), policy_mapping_fn=lambda agent, *_, **__: agents[agent])
    made = (MultiAgentEnvRunner if agents else SingleAgentEnvRunner)(config=config, worker_index=worker_index)
    return made


def told(made, samples=1):
    """The part of a result that comes from this runner."""
    for _ in range(samples):
        made.sample()
    return {"env_runners": {key: value.peek() for key, value in made.get_metrics().items() if key.startswith("mosaic")}}


def ring(folder, source="env-runner-1"):
    return [path for path in ring_paths(source_folder(folder, source)) if path.exists()]


@contextmanager
def looking(folder, source="env-runner-1"):
    """A viewer of one source, at whose request the runner opens its ring."""
    folder = source_folder(folder, source)
    request_pictures(folder)
    with FrameReader(folder) as reader:
        yield reader


def sample_until_seen(made, reader, **request):
    """Sample until the viewer has a frame: a request expires after a moment, which a crowded machine may use up."""
    frame = None
    while frame is None:
        reader.look(**request)
        made.sample()
        frame = reader.read()
    return frame


def end(made, finished=True):
    from mosaic.workers.rllib.reporting.callbacks import _close

    _close(made, finished=finished)
    made.stop()


TOTAL = float(sum(range(1, LENGTH + 1)))


def test_an_episode_that_is_cut_is_told_whole_and_once(tmp_path):
    made = runner(tmp_path, show=False)
    assert records_of(told(made)) == []  # no episode yet
    record = {"length": LENGTH, "returns": {"a": TOTAL}, "played": {}, "policies": {"a": "shared"}}
    assert records_of(told(made)) == [record, record]
    end(made)


def test_steps_of_all_envs_are_counted(tmp_path):
    made = runner(tmp_path, envs=3)
    sampled = [len(piece) for _ in range(2) for piece in made.sample()]
    callback = made._callbacks[0]
    assert callback._counters.env_steps == callback._camera.steps == sum(sampled) > 2 * FRAGMENT
    end(made)


def test_returns_are_told_per_agent_and_per_policy(tmp_path):
    made = runner(tmp_path, agents=POLICIES, show=False, envs=1)
    records = records_of(told(made, 2))
    assert [record["length"] for record in records] == [LENGTH]
    assert returns_by_agent(records) == {"a": [TOTAL], "b": [2 * TOTAL], "c": [0.0]}
    assert returns_by_policy(records) == {"shared": [TOTAL, 2 * TOTAL], "other": [0.0]}
    end(made)


@pytest.mark.parametrize("result", [{}, {"env_runners": {}}, {"env_runners": {"mosaic_episodes": float("nan")}}])
def test_nothing_told_is_no_episode_rather_than_a_number(result):
    assert records_of(result) == []
    assert alerts_of(result) == []


def test_whoever_looks_sees_the_env_that_is_trained(tmp_path):
    made = runner(tmp_path)
    with looking(tmp_path) as reader:
        frame = sample_until_seen(made, reader, env=1)
        assert frame.pixels.shape == (2, 3, 3)
        step = int(frame.pixels[0, 0, 0])
        assert (frame.env, frame.reward, frame.ret) == (1, step, sum(range(step + 1)))
        end(made)
        assert reader.state() == "finished"
    assert ring(tmp_path) == []
    assert list_sources(tmp_path) == ()


def test_gymnasiums_checker_does_not_warn_of_metadata_that_pictures_do_not_need(monkeypatch):
    from mosaic.workers.rllib.reporting.callbacks import _picture

    monkeypatch.setattr(Corridor, "metadata", {"render_modes": ["rgb_array"]})  # without render_fps
    checked = OrderEnforcing(PassiveEnvChecker(Corridor()))
    checked.reset(seed=0)
    assert _picture(checked).shape == (2, 3, 3)  # a warning would be an error
    with pytest.warns(UserWarning, match="No render fps was declared"):
        checked.render()


def test_a_picture_of_several_agents_says_what_each_of_them_got(tmp_path):
    made = runner(tmp_path, agents=POLICIES)
    with looking(tmp_path) as reader:
        frame = sample_until_seen(made, reader)
        so_far = sum(range(int(frame.pixels[0, 0, 0]) + 1))
        assert frame.agent == f"a={so_far}, b={2 * so_far}, c=0"
        end(made)


@pytest.mark.parametrize("env", ["mpe/simple_spread_v3", "classic/tictactoe_v3"])
def test_envs_of_mosaic_are_seen_compiled_or_not(tmp_path, env):
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from mosaic.workers.rllib.config.build import configure, runner_class

    setup = make_setup(tmp_path, env, telemetry={"frames": True})
    chosen = runner_class(setup) or MultiAgentEnvRunner
    assert (chosen is MultiAgentEnvRunner) is (env == "classic/tictactoe_v3")
    made = chosen(config=configure(setup), worker_index=0)
    with looking(tmp_path) as reader:
        frame = sample_until_seen(made, reader)
        assert frame.pixels.ndim == 3
        shown = dict(part.split("=") for part in frame.agent.split(", "))
        assert tuple(shown) == setup.roles.learners
        assert float(shown[setup.roles.learners[0]]) == pytest.approx(frame.ret, abs=0.01)
        end(made)


def test_nothing_is_drawn_and_there_is_no_ring_while_nobody_looks(tmp_path):
    made = runner(tmp_path, breaks=True)
    assert alerts_of(told(made, 3)) == []
    assert ring(tmp_path) == []
    assert list_sources(tmp_path) == ("env-runner-1",)
    end(made)


def test_an_env_that_cannot_be_drawn_ends_the_pictures_and_not_the_training(tmp_path):
    made = runner(tmp_path, breaks=True)
    alerts, records = [], []
    with looking(tmp_path) as reader:
        while not alerts:
            reader.look()
            result = told(made)
            alerts += alerts_of(result)
        records += records_of(told(made, 2))
        assert alerts == ["No more pictures: drawing env 0 raised OSError: no screen"]
        assert len(records) == 2
        assert reader.read() is None
        end(made)


def test_a_viewer_of_an_env_without_pictures_is_told_so_once(tmp_path):
    made = runner(tmp_path, without_render=True)
    alerts = []
    with looking(tmp_path) as reader:
        while not alerts:
            reader.look()
            alerts += alerts_of(told(made))
        reader.look()
        alerts += alerts_of(told(made, 2))
        assert alerts == ["No pictures of a corridor."]
        end(made)


def test_a_ring_without_room_ends_the_pictures_and_not_the_training(tmp_path, monkeypatch):
    def full(folder):
        raise MosaicError("There is no room for live pictures.")

    monkeypatch.setattr("mosaic.telemetry.frames.writer.FrameWriter", full)
    made = runner(tmp_path)
    with looking(tmp_path):
        assert alerts_of(told(made, 2)) == ["No pictures: There is no room for live pictures."]
    end(made)


@pytest.mark.parametrize(
    ("worker_index", "runners", "sources"),
    [(0, 0, ("env-runner-1",)), (1, 2, ("env-runner-1",)), (2, 2, ("env-runner-2",))],
)
def test_every_runner_that_steps_envs_is_a_source(tmp_path, worker_index, runners, sources):
    made = runner(tmp_path, worker_index=worker_index, runners=runners)
    assert list_sources(tmp_path) == sources
    end(made)
    assert list_sources(tmp_path) == ()


def test_two_runners_show_their_own_envs(tmp_path):
    two = {f"env-runner-{index}": runner(tmp_path, worker_index=index, runners=2) for index in (1, 2)}
    assert list_sources(tmp_path) == tuple(two)
    with looking(tmp_path, "env-runner-2") as reader:
        sample_until_seen(two["env-runner-2"], reader)
        two["env-runner-1"].sample()
        assert ring(tmp_path, "env-runner-1") == []  # nobody looks at this one
    for each in two.values():
        end(each)


@pytest.mark.parametrize("settings", [{"show": False}, {"host": "somewhere else"}])
def test_no_source_where_pictures_are_off_or_the_viewers_elsewhere(tmp_path, settings, caplog):
    made = runner(tmp_path, **settings)
    assert alerts_of(told(made)) == []
    assert list_sources(tmp_path) == ()
    assert not caplog.messages
    end(made)


def test_runners_of_rllibs_own_evaluation_are_no_sources(tmp_path):
    made = runner(tmp_path, show=False)
    made.config = made.config.copy(copy_frozen=False)
    made.config.in_evaluation = True
    assert not frames.shows_frames(made, frames.this_host(), tmp_path)
    made.config.in_evaluation = False
    assert frames.shows_frames(made, frames.this_host(), tmp_path)
    end(made)


def test_a_restarted_runner_continues_for_the_same_viewer(tmp_path):
    killed = runner(tmp_path)  # never closed, as after kill -9
    with closing(RunPictures(tmp_path, FrameRequest())) as pictures:
        assert first_frame(killed, pictures) is not None
        while pictures.newest() is not None:
            pass
        made = runner(tmp_path)
        made.sample()
        assert ring(tmp_path) == []
        assert first_frame(made, pictures) is not None
        assert pictures.state == "live"
    end(made)
    assert ring(tmp_path) == []
    end(killed)


def first_frame(made, pictures):
    frame = None
    while frame is None:
        frame = pictures.newest()
        made.sample()
    return frame


def test_steps_in_pictures_grow_also_when_the_driver_tells_a_smaller_number(tmp_path):
    made = runner(tmp_path)
    made.sample()
    camera = made._callbacks[0]._camera
    made.num_env_steps_sampled_lifetime = 1000
    seen = [camera._shoot(0).env_steps, camera._shoot(0).env_steps]
    made.num_env_steps_sampled_lifetime = 900
    seen.append(camera._shoot(0).env_steps)
    assert seen == [1000, 1001, 1002]
    end(made)
