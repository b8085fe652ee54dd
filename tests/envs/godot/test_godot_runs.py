"""Runs in Godot games: how many games, which policies, and what a failure leaves behind."""

import pytest

import mosaic
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, notices_to
from mosaic.core.proc import started_at
from mosaic.learners.agent_roles import read_mapping
from mosaic.runs.train import RunFailedError
from mosaic.workers.resolution import resolve
from tests.ui.conftest import mosaic as command  # noqa: F401 - a fixture


def config(game, **more):
    environment = {"env_id": f"godot/{game}", **more.pop("environment", {})}
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 64, **more.pop("training", {})}
    return RunConfig.model_validate({"environment": environment, "training": training, **more})


def roles(env, **more):
    return read_mapping(config("debug", **more), env.spec).plan


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["runner", "runner", "guard"]),
        ({"policy_configuration": "parameter_sharing"}, ["runner", "runner", "guard"]),
        ({"policy_configuration": "independent"}, ["runner_0", "runner_1", "guard"]),
        ({"policy_configuration": "shared_value_function"}, ["runner_0", "runner_1", "guard"]),
        ({"policy_configuration": "self_play"}, ["learner"] * 3),
        ({"agents": {"runner_*": "fast", "*": "slow"}}, ["fast", "fast", "slow"]),
        ({"agents": {"*": "one"}}, ["one"] * 3),
    ],
)
def test_policies_have_the_names_that_the_game_declares(started, settings, names):
    plan = roles(started(), **settings)
    assert [plan.names[number] for number in plan.policy_of] == names


def test_agents_without_declared_policies_share_one(started):
    assert roles(started("--old")).names == ("shared",)


def test_an_unknown_policy_name_is_refused(started):
    with pytest.raises(
        InputError, match=r"There is no policy that learns named 'gaurd'. Did you mean 'guard'. Known: guard, runner"
    ):
        roles(started(), policies_to_train=["gaurd"])


def test_sb3_says_that_agents_of_several_policies_share_one(exported):
    said = []
    with notices_to(said.append):
        resolve(config(exported, training={"worker": "sb3"}))
        resolve(config(exported, training={"worker": "sb3"}, agents={"*": "one"}))  # as it was asked
    (message,) = said
    assert message.endswith(
        "names 2 policies: runner, guard. Stable-Baselines3 trains one, 'shared', for all of their agents. "
        "To train each of them: --worker native or rllib."
    )


def test_how_many_games_run_at_once(exported):
    assert resolve(config(exported)).config.environment.num_envs == 4
    assert resolve(config(exported, environment={"num_envs": 2})).config.environment.num_envs == 2


def test_the_editor_has_one_game(person):
    here = {"options": {"port": person.port}}
    resolved = resolve(config("debug", environment=here)).config
    assert (resolved.environment.num_envs, resolved.resources.num_env_runners) == (1, 1)
    with pytest.raises(
        InputError, match=r"environment.num_envs=2: godot/debug can be played 1 at a time. Leave it out"
    ):
        resolve(config("debug", environment={**here, "num_envs": 2}))
    assert len(person.games) == 1


@pytest.mark.usefixtures("runs_here")
def test_a_run_trains_the_declared_policies(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    pids = tmp_path / "pids"
    options = {"args": [f"--say_pid={pids}"]}
    run = mosaic.train(
        config(exported, environment={"num_envs": 2, "options": options}, training={"params": {"n_steps": 16}})
    )
    assert run.state == "finished"
    assert {name for event in run.events() for name in event.get("policies", {})} == {"runner", "guard"}
    assert [pid for pid in map(int, pids.read_text().split()) if started_at(pid)] == []


@pytest.mark.usefixtures("runs_here")
def test_a_run_whose_game_dies_fails_with_the_reason(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    pids = tmp_path / "pids"
    options = {"args": ["--fault=die", "--after=20", f"--say_pid={pids}"]}
    with pytest.raises(RunFailedError, match=r"GameError: The game closed .* exit code is 7. .*something went wrong"):
        mosaic.train(config(exported, environment={"num_envs": 2, "options": options}))
    assert [pid for pid in map(int, pids.read_text().split()) if started_at(pid)] == []


@pytest.mark.usefixtures("runs_here")
def test_a_run_that_waits_for_the_editor_says_so(person, tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    person.arguments = {"fault": "leave", "after": "1"}  # the person stops the game
    options = {"port": person.port, "wait_s": 0.05}
    with pytest.raises(RunFailedError, match=r"closed the connection .* Was it stopped in the editor"):
        mosaic.train(config("debug", environment={"options": options}))
    (run,) = mosaic.Trainer().runs()
    run.resume()
    said = [event["message"] for event in run.events() if event["kind"] == "alert"]
    assert [message[:28] for message in said] == ["Waiting for at most 0.05 s f"]
    assert "No game connected" in run.reason


FAULTS = {
    "version": "The game speaks version 1 of the protocol, and Mosaic speaks 0.7.",
    "nan": "The game sent a number that is NaN or infinite:",
    "size": "its observation 'obs' has 2 numbers, and the game declared 3; sizes must not change",
    "name": "The game calls a policy '../etc': a name begins with a letter",
    "die": "something went wrong in the game",
    "hang": "answer",
}
SHORT = ("--set", "training.params.n_steps=16")  # the fault comes in the first rollout


def words_for(game, fault, pids):
    options = (f'args=["--fault={fault}", "--say_pid={pids}"]', "speedup=9")
    return (f"godot/{game}", *(word for option in options for word in ("--set", f"environment.options.{option}")))


FAILING = [
    *(("native", fault, code) for fault, code in (("version", 2), ("name", 2), ("nan", 1), ("size", 1), ("die", 1))),
    *(("sb3", fault, 1) for fault in ("nan", "size")),
    *(pytest.param("sb3", *case, marks=pytest.mark.slow) for case in (("version", 2), ("name", 2), ("die", 1))),
    *(pytest.param(worker, "hang", 1, marks=pytest.mark.slow) for worker in ("native", "sb3")),
    *(pytest.param("rllib", fault, 2, marks=pytest.mark.slow) for fault in ("version", "name")),
    *(pytest.param("rllib", fault, 1, marks=pytest.mark.slow) for fault in ("nan", "size", "die", "hang")),
]


@pytest.mark.parametrize(("worker", "fault", "code"), FAILING)
@pytest.mark.usefixtures("runs_here")
def test_a_faulty_game_ends_training_with_the_reason(command, exported, tmp_path, worker, fault, code):  # noqa: F811
    pids = tmp_path / "pids"
    words = (
        *words_for(exported, fault, pids),
        "--set",
        f"environment.options.timeout_s={1 if fault == 'hang' else 20}",
    )
    answer = command("train", *words, "--worker", worker, "--steps", "64", *(SHORT if worker != "rllib" else ()))
    assert answer.code == code
    assert FAULTS[fault] in " ".join(answer.err.split())
    runs = mosaic.Trainer().runs()
    assert [run.state for run in runs] == ["failed"] * (code == 1)  # what is known before a run begins creates none
    assert all(FAULTS[fault] in str(run.reason) for run in runs)
    assert [pid for pid in map(int, pids.read_text().split()) if started_at(pid)] == []


@pytest.mark.parametrize(("fault", "code"), [("version", 2), ("nan", 1), ("size", 1)])
def test_a_faulty_game_does_not_pass_the_check(command, exported, tmp_path, fault, code):  # noqa: F811
    pids = tmp_path / "pids"
    answer = command("check", *words_for(exported, fault, pids))
    assert answer.code == code
    said = " ".join(answer.err.split())
    assert FAULTS[fault] in said
    assert ".." not in said
    assert [pid for pid in map(int, pids.read_text().split()) if started_at(pid)] == []
