"""Policies named by the folder of a checkpoint, and whose code they may load."""

import json
import pickle
import shutil

import pytest

from mosaic.config.programs import with_absolute_paths
from mosaic.core.errors import InputError, TrustError
from mosaic.evaluation.evaluate import evaluate
from mosaic.policies.registry import load_policy, policy_notes
from mosaic.runs.trainer import Trainer
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.policies.checkpoint_policy import find_saved, trusts
from mosaic.workers.toy import ToyWorker
from tests.workers.hosting import run_config

CARTPOLE = "gym/CartPole-v1"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of a run, in a store of its own."""
    home = tmp_path_factory.mktemp("home")
    run = Trainer(home).submit(run_config("toy", training={"total_timesteps": 100}))
    assert run.wait(60) == "finished"
    return run.checkpoints()[-1].path


@pytest.fixture
def home(saved, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(saved.parents[3]))
    return saved.parents[3]


def play(reference):
    return evaluate(CARTPOLE, {"*": reference}, episodes=1, max_steps=20).env_steps


def test_it_plays_in_its_run_and_copied_elsewhere(saved, home, tmp_path):
    shutil.copytree(saved, tmp_path / "copy")
    shutil.copytree(saved, tmp_path / "lr=0.1, 2nd, copy")
    steps = play(f"run:{saved.parents[1].name}")
    assert play(f"checkpoint:{saved}") == play(f"checkpoint:{tmp_path / 'copy'}") == steps
    assert play(f"checkpoint:{tmp_path / 'lr=0.1, 2nd, copy'},policy=learner") == steps
    assert play(f"checkpoint:{saved},policy=learner") == steps


def test_ours_are_trusted_also_as_copies(saved, home, tmp_path):
    inside = find_saved(saved)
    assert not inside.outside
    shutil.copytree(saved, tmp_path / "copy")
    copy = find_saved(tmp_path / "copy")
    assert copy.outside
    assert copy.origin == inside.origin == saved.parents[1].name
    assert trusts(copy)


def test_those_of_another_store_are_not_whatever_key_lies_beside_them(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    monkeypatch.setattr(ToyWorker, "loads_pickles", True)
    stranger = find_saved(saved)
    assert stranger.outside
    assert not trusts(stranger)
    with pytest.raises(TrustError, match=r"The checkpoint of run '.*' at 100 env steps holds pickles, .* add --trust"):
        play(f"checkpoint:{saved}")
    monkeypatch.setenv(VARIABLE, "1")
    assert play(f"checkpoint:{saved}")


def test_it_plays_unpickled_without_trust(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    assert play(f"checkpoint:{saved}")


def test_other_spaces_are_refused(saved, home, spec_of):
    with pytest.raises(InputError, match="was trained in gym/CartPole-v1 and cannot play gym/Pendulum-v1"):
        policy_notes(f"checkpoint:{saved}", spec_of("gym/Pendulum-v1"))


@pytest.fixture
def spec_of():
    from mosaic.envs.catalog import make_env

    def spec(env):
        made = make_env(env)
        made.close()
        return made.spec

    return spec


def test_unusable_folders_are_refused_with_what_is_there(saved, home, tmp_path):
    for path, text in (
        (tmp_path / "nowhere", "There is no checkpoint '.*nowhere': neither a folder nor a file"),
        (tmp_path, "is not a checkpoint that Mosaic or one of its workers can play"),
        (saved.parents[1], f"It is the folder of a run: type run:{saved.parents[1].name}"),
        (saved.parent, f"Did you mean one of those in it: {saved}"),
    ):
        with pytest.raises(InputError, match=text):
            play(f"checkpoint:{path}")
    with pytest.raises(InputError, match=r"There is no policy of run '.*' named 'lerner'. Did you mean 'learner'"):
        play(f"checkpoint:{saved},policy=lerner")


def test_a_damaged_one_is_refused(saved, home, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    (copy / "walk.json").write_text(json.dumps({"iteration": 3}))
    with pytest.raises(InputError, match=r"is damaged: its file 'walk.json' has changed"):
        play(f"checkpoint:{copy}")


def test_a_run_names_it_by_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = run_config("native", agents={"b": "checkpoint:saved/100,policy=red"}, training={"init": "checkpoint:x"})
    resolved = with_absolute_paths(config)
    assert resolved.agents == {"b": f"checkpoint:{tmp_path}/saved/100,policy=red"}
    assert resolved.training.init == f"checkpoint:{tmp_path}/x"


@pytest.mark.parametrize("kind", ["onnx", "sb3"])
def test_a_run_names_files_of_policies_by_absolute_paths(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    config = run_config("native", agents={"b": f"{kind}:a,b.zip,sample=true"}, evaluation={"opponents": [f"{kind}:x"]})
    resolved = with_absolute_paths(config)
    assert resolved.agents == {"b": f"{kind}:{tmp_path}/a,b.zip,sample=true"}
    assert resolved.evaluation.opponents == (f"{kind}:{tmp_path}/x",)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("inside", ["", "learner_group/learner/rl_module", "learner_group/learner/rl_module/red"])
def test_what_rllib_wrote_is_recognised_by_its_files_and_not_loaded_without_trust(home, tmp_path, inside, spec_of):
    for part in ("", "learner_group", "learner_group/learner", "learner_group/learner/rl_module/red"):
        (tmp_path / part).mkdir(parents=True, exist_ok=True)
        (tmp_path / part / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "learner_group/learner/rl_module/red/module_state.pkl").write_bytes(pickle.dumps(Bomb()))
    reference = f"checkpoint:{tmp_path / inside}"
    for use in (policy_notes, load_policy):
        with pytest.raises(TrustError, match=r"was not written by Mosaic and holds pickles.* add --trust"):
            use(reference, spec_of(CARTPOLE))
    training = {"worker": "rllib", "algorithm": "ppo", "init": reference, "params": {"num_env_runners": 0}}
    with pytest.raises(TrustError, match="was not written by Mosaic and holds pickles"):
        Trainer(home).submit({"environment": {"env_id": CARTPOLE}, "training": training}, start=False)


def test_rllib_s_old_checkpoints_and_folders_of_several_are_told_apart(home, tmp_path):
    (tmp_path / "old" / "policies").mkdir(parents=True)
    (tmp_path / "old" / "algorithm_state.pkl").touch()
    (tmp_path / "trial" / "checkpoint_000001" / "learner_group").mkdir(parents=True)
    with pytest.raises(InputError, match="RLlib wrote it with its old API stack"):
        play(f"checkpoint:{tmp_path / 'old'}")
    with pytest.raises(InputError, match=r"Did you mean one of those in it: .*checkpoint_000001"):
        play(f"checkpoint:{tmp_path / 'trial'}")


def test_it_is_checked_for_the_agents_it_plays_before_a_run(saved, home):
    game = {"environment": {"env_id": "mpe/simple_tag_v3"}, "training": {"worker": "native"}}
    with pytest.raises(InputError, match="was trained in gym/CartPole-v1 and cannot play mpe/simple_tag_v3 as agent_0"):
        Trainer(home).submit({**game, "agents": {"agent_0": f"checkpoint:{saved}"}}, start=False)
