"""Evaluations inside a run are seen through the run's own ring, say what they are, and change nothing."""

import pytest

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.reader import read_events
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import evaluate_learners
from tests.workers.hosting import run_config
from tests.workers.watching import EagerContext, collect, looking, train_here, without_clocks

SMALL = {"hidden": [8], "n_steps": 32, "n_epochs": 1, "batch_size": 64}
EPISODES = 3


def native(**settings):
    return run_config(
        "native",
        SMALL,
        environment={"env_id": "gym/CartPole-v1", "num_envs": 4},
        training={"total_timesteps": 512, "algorithm": "ppo", "preset": False},
        evaluation={"episodes": EPISODES, "every_steps": 256},
        **settings,
    )


def tabular(**settings):
    return run_config(
        "tabular",
        {},
        environment={"env_id": "classic/tictactoe_v3"},
        training={"total_timesteps": 2000},
        evaluation={"episodes": EPISODES, "opponents": ["random"]},
        **settings,
    )


@pytest.fixture(autouse=True)
def asked_at_every_step(monkeypatch):
    monkeypatch.setattr("mosaic.workers.evaluation.ASK_EVERY_S", 0.0)


@pytest.fixture
def idle_camera(monkeypatch):
    """What it still draws of the training is not lost to the first pictures of an evaluation."""
    monkeypatch.setattr(Camera, "glance", lambda self: None)


@pytest.mark.usefixtures("idle_camera")
@pytest.mark.parametrize(("config", "evaluations"), [(native, 2), (tabular, 1)])
def test_whoever_looks_sees_every_step_and_changes_no_number(config, evaluations, tmp_path):
    alone = train_here(tmp_path / "a", config(telemetry={"frames": False}), WorkerContext)
    seen = train_here(tmp_path / "b", config(), EagerContext)
    events, others = (without_clocks(read_events(context.folder.metrics)) for context in (alone, seen))
    assert events == others
    records = [event for event in events if event["kind"] == "evaluation"]
    assert len(records) == evaluations
    moments = [(facts["episode"], facts["step"]) for _, facts in seen.evaluated]
    # the env after reset and after each step, for every episode of every evaluation
    assert len(moments) == sum(EPISODES * (1 + record["episode_len_mean"]) for record in records)
    assert {episode for episode, _ in moments} == set(range(EPISODES))
    starts = [moment for moment in moments if moment[1] == 0]
    assert len(starts) == EPISODES * evaluations


@pytest.mark.usefixtures("idle_camera")
def test_the_picture_says_that_it_is_an_evaluation_and_what_each_got(tmp_path):
    alone = train_here(tmp_path / "a", native(), EagerContext)
    (_, first), (_, second) = alone.evaluated[:2]
    assert (first["agent"], first["ret"], first["reward"]) == ("evaluation, return=0", 0.0, 0.0)
    assert (second["agent"], second["ret"], second["reward"]) == ("evaluation, return=1", 1.0, 1.0)
    two = train_here(tmp_path / "b", tabular(), EagerContext)
    assert two.evaluated[0][1]["agent"] == "evaluation, player_1=0, player_2=0"


class Audience:
    """A screen; `eager`: that always wants more."""

    def __init__(self, eager):
        self.eager, self.asked, self.shots = eager, 0, []

    def wanted(self):
        self.asked += 1
        return self.eager

    def show(self, shot):
        self.shots.append((shot.draw(), shot.occasion))

    def close(self):
        raise AssertionError("the run's screen is not the evaluation's to close")


def evaluated(screen, monkeypatch):
    """Records, and how often the env was drawn."""
    drawn = []
    env_class = type(make_env("gym/FrozenLake-v1"))
    render = env_class.render
    monkeypatch.setattr(env_class, "render", lambda self: drawn.append(1) or render(self))
    document = {"environment": {"env_id": "gym/FrozenLake-v1"}, "seed": 5, "evaluation": {"episodes": 4}}
    config = RunConfig.model_validate(document)
    make = lambda spec, agent: load_policy("random", spec, (agent,), seed=1)  # noqa: E731
    records = list(evaluate_learners(config, make, screen=screen))
    monkeypatch.setattr(env_class, "render", render)
    return records, len(drawn)


def test_nobody_looks_and_nothing_is_drawn(monkeypatch):
    nobody, somebody = Audience(eager=False), Audience(eager=True)
    bare, unseen, seen = (evaluated(screen, monkeypatch) for screen in (None, nobody, somebody))
    assert bare[0] == unseen[0] == seen[0]
    assert (bare[1], unseen[1]) == (0, 0)
    assert nobody.asked == somebody.asked == seen[1] == len(somebody.shots)
    assert {occasion for _, occasion in somebody.shots} == {"evaluation"}


@pytest.mark.slow
def test_an_evaluation_is_seen_from_another_process(tmp_path):
    config = native(telemetry={"frames": True})
    long = config.model_copy(
        update={
            "training": config.training.model_copy(update={"total_timesteps": 10**9}),
            "evaluation": config.evaluation.model_copy(update={"episodes": 200, "every_steps": 4096}),
        }
    )
    run = Trainer(tmp_path).submit(long)
    with looking(run, rate=100) as reader:

        def both(frames):  # through the same ring
            evaluations = [frame for frame in frames if frame.agent.startswith("evaluation, return=")]
            return len(evaluations) > 3 and len(frames) > len(evaluations)

        collect(run, reader, both)
        run.stop()
