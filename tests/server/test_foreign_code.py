"""Code that an imported run names runs only with --trust, whatever is done with the run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mosaic
from mosaic.core.errors import TrustError
from mosaic.runs.trainer import Trainer
from mosaic.server.context import ServerContext
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State, read_written_state, write_state
from mosaic.store.store import Store
from mosaic.ui.cli.main import main
from mosaic.ui.web.data.facts import Facts
from tests.server.foreign_cases import FORMS, MODULE, TICTACTOE, arm, foreign_network, foreign_run, sang
from tests.server.server_kit import app_client

EPISODE = {
    "format": "mosaic.episode",
    "version": 1,
    "environment": {"env_id": f"python:{MODULE}:make"},
    "seed": 0,
    "policies": {},
    "changes": [],
    "actions": [],
    "rewards": [],
    "digests": [0],
    "first_digest": 0,
    "ends": {},
    "cut": False,
    "versions": {},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store and a working folder in which the named module would be found."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, value in arm(tmp_path).items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    sys.modules.pop(MODULE, None)
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


@pytest.fixture
def gift(here: Path) -> RunFolder:
    return foreign_run(Store(), here, "environment")


@pytest.fixture
def net(here: Path) -> RunFolder:
    return foreign_network(Store(), here)


def command(*words: str) -> Callable[[], str]:
    """Run a command; returns what it complained about."""

    def run() -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        return ""

    return run


def copied(folder: RunFolder) -> RunFolder:
    """The same run, copied by hand into the store, without the mark of an import and waiting to be started."""
    copy = RunFolder(folder.path.with_name("copied"))
    shutil.copytree(folder.path, copy.path)
    copy.imported.unlink()
    state = read_written_state(copy).model_copy(update={"run_id": "copied", "state": State.QUEUED, "attempts": ()})
    write_state(copy, state)
    return copy


CONFIG_DOORS: dict[str, Callable[[RunFolder], Any]] = {
    "mosaic runs resume": lambda run: command("runs", "resume", run.run_id)(),
    "mosaic train --config": lambda run: command("train", "--config", str(run.config))(),
    "mosaic tune FILE": lambda run: command("tune", str(run.config), "--search", "gamma=0.9..0.99")(),
    "mosaic replay": lambda run: command("replay", _episode(run))(),
    "Run.resume": lambda run: Trainer().run(run.run_id).resume(),
    "Run.start of a copied folder": lambda run: Trainer().run(copied(run).run_id).start(),
    "Trainer.submit": lambda run: Trainer().submit(run.config),
    "mosaic.train": lambda run: mosaic.train(str(run.config)),
}


def _episode(run: RunFolder) -> str:
    path = run.path / "evil.episode.json"
    path.write_text(json.dumps(EPISODE))
    return str(path)


@pytest.mark.parametrize("door", CONFIG_DOORS)
def test_what_a_configuration_names_is_not_run(door: str, gift: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    try:
        CONFIG_DOORS[door](gift)
    except TrustError as error:
        said = str(error)
    said += capsys.readouterr().err.replace("\n", " ")
    assert "--trust" in said
    assert MODULE in said
    assert not sang()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_refused_before_anything_starts(form: str, here: Path) -> None:
    run = Trainer().run(foreign_run(Store(), here, form).run_id)
    before = run.record()
    with pytest.raises(TrustError, match=rf"it was imported\. .* mosaic runs resume {run.id} --trust"):
        run.resume()
    assert run.record() == before
    assert run.log() == ""
    assert not sang()


def test_the_workers_process_refuses_too(gift: RunFolder) -> None:
    argv = [sys.executable, "-P", "-m", "mosaic.workers.host", str(gift.path), "1"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "TrustError" in ended.stderr
    assert not sang()


def test_with_trust_the_code_runs(gift: RunFolder) -> None:
    run = Trainer().run(gift.run_id)
    run.resume(trust=True)
    assert run.wait(60.0) is State.FAILED
    assert "the canary sang" in run.reason
    assert sang()


def test_a_foreign_working_folder_is_dropped(gift: RunFolder) -> None:
    assert read_written_state(gift).working_folder == ""


PLAYED = ("--agent", "player_1=random", "--agent", "player_2=run:net")
CHECKPOINT_DOORS: dict[str, Callable[[], Any]] = {
    "mosaic evaluate": command("evaluate", TICTACTOE, *PLAYED, "--episodes", "1"),
    "mosaic play": command("play", TICTACTOE, *PLAYED),
    "mosaic tournament": command("tournament", TICTACTOE, "random", "run:net", "--games", "1"),
    "mosaic.load_policy": lambda: mosaic.load_policy("run:net", mosaic.make_env(TICTACTOE).spec),
    "mosaic.evaluate": lambda: mosaic.evaluate(TICTACTOE, {"player_1": "random", "player_2": "run:net"}, episodes=1),
}


@pytest.mark.parametrize("door", CHECKPOINT_DOORS)
def test_what_a_checkpoint_names_is_not_run(door: str, net: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    try:
        CHECKPOINT_DOORS[door]()
    except TrustError as error:
        said = str(error)
    said += capsys.readouterr().err.replace("\n", " ")
    assert "--trust" in said
    assert MODULE in said
    assert not sang()


NATIVE = {"worker": "native", "total_timesteps": 256}
OPPONENTS: dict[str, dict[str, Any]] = {
    "agent": {"agents": {"player_2": "run:net"}, "policy_configuration": "parameter_sharing"},
    "agent, its policy": {"agents": {"player_2": "run:net@100/shared"}, "policy_configuration": "parameter_sharing"},
    "agent of a table": {"agents": {"player_2": "run:net"}, "training": {"worker": "tabular", "total_timesteps": 256}},
    "opponents of self-play": {"training": {**NATIVE, "params": {"opponents": ["random", "run:net@latest"]}}},
    "opponents of evaluations": {"evaluation": {"opponents": ["run:net"]}},
}


@pytest.mark.parametrize("place", OPPONENTS)
def test_an_imported_opponent_that_names_code_is_refused_at_submission(place: str, net: RunFolder) -> None:
    asked = {"environment": {"env_id": TICTACTOE}, "training": NATIVE, **OPPONENTS[place]}
    with pytest.raises(TrustError, match=rf"facts\.json\.network: python:{MODULE}:make.*it was imported.*--trust"):
        Trainer().submit(asked)
    assert [run.id for run in Trainer().runs()] == [net.run_id]
    assert not sang()


def test_a_server_refuses_an_imported_opponent_that_names_code(net: RunFolder, here: Path) -> None:
    asked = {"environment": {"env_id": TICTACTOE}, "training": NATIVE, **OPPONENTS["agent"]}
    with app_client(here / "home", allow_programs=True) as client:
        reply = client.post("/runs", json=asked)
    assert reply.status_code in (400, 403), reply.text
    assert "--trust" in reply.json()["error"]
    assert not sang()


def test_a_run_against_an_imported_opponent_is_not_resumed_without_trust(net: RunFolder, monkeypatch: Any) -> None:
    asked = {"environment": {"env_id": TICTACTOE}, "training": NATIVE, **OPPONENTS["agent"]}
    with monkeypatch.context() as patched:
        patched.setenv("MOSAIC_TRUST", "1")
        run = Trainer().submit(asked, start=False)
    write_state(run.folder, read_written_state(run.folder).model_copy(update={"state": State.STOPPED}))
    with pytest.raises(TrustError, match="--trust"):
        run.resume()
    assert not sang()


def test_weights_of_an_imported_run_that_names_code_may_be_taken_over(net: RunFolder) -> None:
    alike = {"hidden": [64, 64], "activation": "tanh", "share_layers": False}
    asked = {"environment": {"env_id": TICTACTOE}, "training": {**NATIVE, "params": alike, "init": "run:net"}}
    assert Trainer().submit(asked, start=False).config.training.init == "run:net"
    assert not sang()


MATCH = {"environment": {"env_id": TICTACTOE}, "agents": {"player_1": "human", "player_2": "run:net"}}
EVALUATION = {"environment": {"env_id": TICTACTOE}, "agents": {"*": "run:net"}, "episodes": 1}
HTTP_DOORS: dict[str, tuple[str, Any]] = {
    "resume": ("/runs/gift/resume", None),
    "match": ("/matches", MATCH),
    "match in the named env": ("/matches", {**MATCH, "environment": EPISODE["environment"]}),
    "replay": ("/replays", {"episode": EPISODE}),
    "run of the named env": ("/runs", {"environment": EPISODE["environment"], "training": {"worker": "toy"}}),
    "evaluation of the named env": ("/evaluate", {**EVALUATION, "environment": EPISODE["environment"]}),
}


@pytest.mark.parametrize("door", HTTP_DOORS)
def test_a_server_runs_no_foreign_code(door: str, gift: RunFolder, net: RunFolder, here: Path) -> None:
    path, body = HTTP_DOORS[door]
    with app_client(here / "home") as client:
        reply = client.post(path, json=body)
    assert reply.status_code in (400, 403), reply.text
    assert MODULE in reply.json()["error"]
    assert not sang()


def test_the_owners_word_for_requests_is_not_trust_in_imported_runs(
    gift: RunFolder, net: RunFolder, here: Path
) -> None:
    with app_client(here / "home", allow_programs=True) as client:
        for path, body in (HTTP_DOORS["resume"], HTTP_DOORS["match"]):
            reply = client.post(path, json=body)
            assert "--trust" in reply.json()["error"]
    assert not sang()


def test_pages_look_at_no_foreign_env(gift: RunFolder, here: Path) -> None:
    """/play?env=…, /play?run=… and /evaluate?run=… look at the env that they name."""
    with app_client(here / "home") as client:
        context: ServerContext = client.app.state.context  # type: ignore[attr-defined]
        facts = Facts(context)
        with pytest.raises(mosaic.core.errors.MosaicError, match="--allow-programs"):
            facts.look(gift.read_config().environment.id)
        assert "--allow-programs" in facts.check({"environment": EPISODE["environment"]}).error
    assert not sang()
