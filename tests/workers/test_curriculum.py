"""Curricula: stages of an env's options, when they change, and what a run remembers of them."""

import json
from itertools import pairwise

import pytest
from gymnasium import spaces

from mosaic.config.loading import parse_run_config
from mosaic.config.programs import named_programs
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.plugins import plugins
from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from mosaic.store.views import details_of
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from mosaic.testing.duel import Duel
from mosaic.workers.context import WorkerContext
from mosaic.workers.curriculum import CurriculumProgress, begin_curriculum
from mosaic.workers.inbox import Inbox
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import resolve
from tests.workers.hosting import new_folder, run_config
from tests.workers.watching import EagerContext, train_here, without_clocks

DUEL = "python:mosaic.testing.duel:Duel"
SMALL = {"hidden": [8], "n_steps": 32, "n_epochs": 1, "batch_size": 64, "report_every_steps": 128}
STAGES = [
    {"options": {"ends": 2}, "until_steps": 300},
    {"options": {"ends": 3}, "until_reward": 1.0},
    {"options": {"ends": 4}},
]


def environment(stages=STAGES, **also):
    return {"env_id": DUEL, "curriculum": stages, **also}


def native(stages=STAGES, env_id=DUEL, **training):
    limits = {"total_timesteps": 1024, "algorithm": "ppo", "preset": False} | training
    return run_config(
        "native",
        SMALL,
        environment={"env_id": env_id, "curriculum": stages, "num_envs": 4},
        training=limits,
        evaluation={"episodes": 2},
        checkpoint={"every_steps": 128, "keep_last": 100},
    )


def _numbers(folder):
    """Events without clocks; a viewer also gets an alert, since this env draws nothing."""
    events = [event for event in without_clocks(read_events(folder.metrics)) if event["kind"] != "alert"]
    return [{key: value for key, value in event.items() if key != "seq"} for event in events]


def test_options_stay_until_a_later_stage_changes_them():
    stages = [{"options": {"size": 4, "wind": 1}, "until_steps": 5}, {"until_reward": 2}, {"options": {"size": 8}}]
    config = EnvironmentConfig(env_id=DUEL, options={"seed": 7, "size": 1}, curriculum=stages)
    assert config.options == {"seed": 7, "size": 4, "wind": 1}  # of the first stage
    assert config.at_stage(0).options == config.at_stage(1).options == config.options
    assert config.at_stage(2).options == {"seed": 7, "size": 8, "wind": 1}
    assert config.at_stage(2).curriculum == ()
    assert EnvironmentConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ([{"options": {"size": 4}}], "at least two stages; options of the only one belong in environment.options"),
        ([{"options": {}}, {}], "stage 1 should have an end: until_steps or until_reward"),
        ([{"until_steps": 5}, {"until_steps": 9}], "its last stage lasts to the end of the run"),
        ([{"until_steps": 9}, {"until_steps": 5}, {}], "should grow from stage to stage: [9, 5]"),
        ([{"until_steps": 5, "option": {}}, {}], "'environment.curriculum.0.options'"),
        ([{"until_steps": 0}, {}], "environment.curriculum.0.until_steps"),
    ],
)
def test_bad_stages_are_refused_with_what_to_write(stages, text):
    with pytest.raises(InputError) as caught:
        parse_run_config({"environment": environment(stages)})
    assert text in str(caught.value)


def test_a_stage_ends_at_the_first_of_its_limits_and_the_last_one_never():
    stages = [{"until_steps": 100, "until_reward": 5.0}, {"until_reward": 1.0, "options": {"ends": 3}}, {}]
    progress = CurriculumProgress(EnvironmentConfig(env_id=DUEL, curriculum=stages))
    assert [progress.is_over(*now) for now in ((99, None), (99, 4.9), (100, None), (1, 5.0))] == [
        False,
        False,
        True,
        True,
    ]
    assert progress.advance() == {"ends": (None, 3)}
    assert progress.describe({"ends": (None, 3)}) == "stage 2 of 3: ends=3 (was the default)"
    assert [progress.is_over(*now) for now in ((10**9, None), (0, 1.0))] == [False, True]
    assert progress.advance() == {}
    assert progress.is_last
    assert not progress.is_over(10**9, 10**9)


def test_the_stage_is_kept_in_a_checkpoint(tmp_path):
    config = EnvironmentConfig(**environment())
    begun = begin_curriculum(config, None)
    assert begun.number == 1
    begun.advance()
    begun.save(tmp_path)
    assert begin_curriculum(config, tmp_path).number == 2
    assert begin_curriculum(EnvironmentConfig(env_id=DUEL), tmp_path) is None


class Growing(Duel):
    """Its observations grow with `size`, which a curriculum must not change; `size` below 2 is an error."""

    def __init__(self, size: int = 2, others: int = 0) -> None:
        if size < 2:
            raise InputError("size is at least 2.")
        super().__init__(2 + others)
        self.observation_spaces = {agent: spaces.Discrete(10 * size) for agent in self.possible_agents}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"size": 3},
            "in stage 2 the observation of 'a' is Discrete(30), and in stage 1 Discrete(20). All stages need",
        ),
        ({"others": 1}, "stage 2 has the agents a, b, c, and stage 1 has a, b. All stages need the same agents"),
        ({"size": 1}, "environment.curriculum, stage 2: "),
        ({"sise": 3}, "environment.curriculum, stage 2: "),
    ],
)
@pytest.mark.parametrize("worker", ["native", "rllib"])
def test_every_stage_is_made_before_the_run_and_needs_the_same_spaces(worker, options, text):
    stages = [{"options": {"size": 2}, "until_steps": 10}, {"options": options}]
    said = {"env_id": f"python:{__name__}:Growing", "curriculum": stages}
    with pytest.raises(InputError) as caught:
        resolve(run_config(worker, None, environment=said, training={"algorithm": "ppo"}))
    assert text in str(caught.value)


@pytest.mark.parametrize("worker", sorted(plugins("mosaic.workers")))
def test_workers_that_do_not_declare_it_refuse_it(worker):
    config = run_config(worker, {"command": ["true"]} if worker == "script" else None, environment=environment())
    if load_worker(worker).info.curriculum:
        assert resolve(config).config.environment.curriculum == config.environment.curriculum
        return
    with pytest.raises(InputError) as caught:
        resolve(config)
    shown = '[{"options": {"ends": 2}, "until_steps": 300}, '
    assert f"cannot honour environment.curriculum={shown}" in str(caught.value)
    assert "Workers that honour it: native, rllib, sb3." in str(caught.value)


def test_a_worker_is_picked_that_honours_it():
    lake = {"env_id": "gym/FrozenLake-v1"}
    stages = [{"options": {"is_slippery": False}, "until_steps": 10}, {"options": {"is_slippery": True}}]
    assert resolve(parse_run_config({"environment": lake})).config.training.worker == "tabular"
    assert resolve(parse_run_config({"environment": {**lake, "curriculum": stages}})).config.training.worker == "native"


COMPILED = [{"options": {"max_cycles": 2}, "until_steps": 300}, {"options": {"max_cycles": 4}}]


@pytest.mark.parametrize(
    ("env_id", "stages", "lengths"),
    [(DUEL, STAGES, {1: {2.0}, 2: {3.0}, 3: {4.0}}), ("mpe/simple_spread_v3", COMPILED, {1: {2.0}, 2: {4.0}})],
)
def test_each_stage_has_its_own_env_and_its_own_rewards(env_id, stages, lengths, tmp_path):
    config = native(stages, env_id)
    context = train_here(tmp_path / "a", config, EagerContext)  # watched all the time
    events = list(read_events(context.folder.metrics))
    seen = {}
    for event in events:
        if event["kind"] == "iteration":
            seen.setdefault(event["curriculum_stage"], set()).add(event["episode_len_mean"])
    assert seen == lengths
    changes = [event for event in events if event["kind"] == "curriculum"]
    assert [event["stage"] for event in changes] == list(lengths)[1:]
    option = next(iter(stages[0]["options"]))
    values = [stage["options"][option] for stage in stages]
    assert [event["changes"] for event in changes] == [{option: [*pair]} for pair in pairwise(values)]
    (evaluation,) = (event for event in events if event["kind"] == "evaluation")
    assert evaluation["episode_len_mean"] == values[-1]  # in the current stage
    rows = details_of(context.folder).stages
    assert [row.env_steps for row in rows] == [0, *(event["env_steps"] for event in changes)]
    saved = list_checkpoints(context.folder)
    assert {c.reward is not None for c in saved if c.env_steps < changes[-1]["env_steps"]} == {False}
    assert find_checkpoint(context.folder, "best").reward is not None
    again = train_here(tmp_path / "b", config, WorkerContext)  # and unwatched: the same numbers
    assert _numbers(again.folder) == _numbers(context.folder)


@pytest.mark.parametrize(("env_id", "stages"), [(DUEL, STAGES), ("mpe/simple_spread_v3", COMPILED)])
def test_a_resumed_run_continues_in_its_stage(env_id, stages, tmp_path):
    whole = train_here(tmp_path, native(stages, env_id), WorkerContext)
    events = list(read_events(whole.folder.metrics))
    last = max(event["env_steps"] for event in events if event["kind"] == "curriculum")
    checkpoint = next(c for c in list_checkpoints(whole.folder) if c.env_steps > last)
    stage = json.loads((checkpoint.path / "curriculum.json").read_text())["stage"]
    assert stage == len(stages)
    config, worker = native(stages, env_id), load_worker("native")
    with EventWriter(whole.folder.metrics, 2) as writer:
        options = parse_params(worker, "ppo", dict(config.training.params))
        context = WorkerContext(config, options, whole.folder, writer, Inbox(lambda *_, **__: None), checkpoint)
        assert context.config.environment.options == config.environment.at_stage(stage - 1).options
        worker.run(context)
    resumed = [event for event in read_events(whole.folder.metrics) if event["attempt"] == 2]
    assert [event for event in resumed if event["kind"] == "curriculum"] == []
    told = [event for event in resumed if event["kind"] == "iteration"]
    assert {event["curriculum_stage"] for event in told} == {stage}
    assert told[-1]["env_steps"] == 1024
    if env_id != DUEL:  # compiled envs continue exactly
        original = [event for event in events if event["kind"] == "iteration"]
        assert told[-1]["episode_reward_mean"] == original[-1]["episode_reward_mean"]


def test_a_run_that_has_not_left_its_first_stage_is_shown_too(tmp_path):
    context = train_here(tmp_path, native(total_timesteps=128), WorkerContext)
    assert [row.env_steps for row in details_of(context.folder).stages] == [0, None, None]
    (tmp_path / "new").mkdir()
    new = new_folder(tmp_path / "new", native())
    assert [row.env_steps for row in details_of(new).stages] == [0, None, None]


def test_code_in_the_options_of_a_stage_is_found():
    stages = [{"until_steps": 5}, {"options": {"map": "python:evil:make"}}]
    config = parse_run_config({"environment": {"env_id": "gym/CartPole-v1", "curriculum": stages}})
    assert named_programs(config) == ["environment.curriculum.1.options.map: python:evil:make"]


def test_stop_reward_counts_in_the_last_stage_only(tmp_path):
    context = train_here(tmp_path, native(stop_reward=1.0), WorkerContext)
    told = [event for event in read_events(context.folder.metrics) if event["kind"] == "iteration"]
    assert {event["curriculum_stage"] for event in told} == {1, 2, 3}
    assert 300 < told[-1]["env_steps"] < 1024
