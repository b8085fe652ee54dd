"""What a search is asked for, and what is refused before anything starts."""

import json

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError
from mosaic.runs.tuning.folder import create_search, find_search
from mosaic.runs.tuning.plan import TuneSettings, make_plan
from mosaic.runs.tuning.search import TrialStanding, best_of, is_over
from mosaic.runs.tuning.trial import numbers_in, value_at
from tests.runs.run_cases import toy

NOISE = {"noise": "0..2"}


def plan(document=None, cores=2, **settings):
    return make_plan(parse_run_config(document or toy(9000)), TuneSettings(**{"search": NOISE, **settings}), cores, "/")


def test_what_is_not_said_fits_the_trial_and_the_machine():
    asha, pbt = plan(), plan(scheduler="pbt")
    assert (asha.concurrent, asha.steps, asha.report_every_steps, asha.decision_steps) == (2, 9000, 90, 1000)
    assert pbt.decision_steps == 900
    assert plan(trials=3, cores=16).concurrent == 3
    assert plan(concurrent=1).concurrent == 1
    assert plan(decision_steps=50).decision_steps == 50


@pytest.mark.parametrize(
    ("document", "settings", "text"),
    [
        (toy(9000), {"search": {}}, "Name what to search: --search"),
        (toy(9000), {"search": {}}, "mosaic schema toy walk"),
        (toy(9000), {"search": {"noize": "0..2"}}, "Did you mean 'noise'?"),
        (toy(9000), {"decision_steps": 9001}, "nothing would ever be decided"),
        (toy(9000), {"scheduler": "pbt", "trials": 1}, "A population has at least 2 members. Type: --trials 4"),
        (toy(9000, checkpoint={"at_end": False}), {"scheduler": "pbt"}, "leave checkpoint.at_end true"),
        (toy(9000, run_id="mine"), {}, "A search names its runs itself. Leave run_id out."),
        (
            {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}},
            {},
            "Limit the length of a trial: --steps N env steps.",
        ),
        (
            {
                "environment": {"env_id": "gym/CartPole-v1"},
                "training": {
                    "worker": "native",
                    "total_timesteps": 1000,
                    "params": {"target_kl": None},
                },
            },
            {"search": {"gamma": "0.9..0.99"}},
            "training.params.target_kl is null",
        ),
        (
            {
                "environment": {"env_id": "gym/CartPole-v1"},
                "training": {"worker": "script", "total_timesteps": 10, "params": {"command": ["true"]}},
            },
            {"scheduler": "pbt", "search": {"command": "[a]|[b]"}},
            (
                "The worker script does not continue from another run's checkpoint with other options, which "
                "population-based training requires. These do: native, rllib, sb3, tabular, toy. Type: --scheduler asha"
            ),
        ),
        *(
            (
                {
                    "environment": {"env_id": "gym/FrozenLake-v1"},
                    "training": {"worker": worker, "algorithm": algorithm, "total_timesteps": 1000},
                },
                {"scheduler": "pbt", "search": {name: spec}},
                (
                    f"--search {name}={spec}: in population-based training a trial continues from another trial's "
                    f"checkpoint, which fits no other '{name}'. Type: --scheduler asha, or give all trials the same: "
                    f"--set training.params.{name}=VALUE"
                ),
            )
            for worker, algorithm, name, spec in (
                ("native", "ppo", "hidden", "[64,64]|[128,128]"),
                ("native", "a2c", "share_layers", "true|false"),
                ("native", "dqn", "hidden", "[64]|[32]"),
                ("native", "ppo", "threads", "1|2"),
                ("rllib", "ppo", "fcnet_hiddens", "[64]|[32]"),
                ("rllib", "impala", "vf_share_layers", "true|false"),
                ("rllib", "dqn", "num_atoms", "1..5"),
                ("tabular", "q_learning", "table", "dense|hashed"),
            )
        ),
    ],
)
def test_what_is_refused(document, settings, text):
    if document.get("training", {}).get("worker") == "rllib":
        pytest.importorskip("ray")
    with pytest.raises(InputError) as refused:
        plan(document, **settings)
    assert text in str(refused.value)


def test_shapes_may_be_searched_where_no_trial_goes_on_from_anothers_checkpoint():
    document = {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"worker": "native", "algorithm": "ppo", "total_timesteps": 1000},
    }
    shapes = {"hidden": "[64,64]|[128,128]"}
    assert plan(document, search=shapes).settings.search == shapes
    assert plan(document, scheduler="pbt", search={"gamma": "0.9..0.99"}).settings.scheduler == "pbt"


def test_a_search_is_found_by_the_beginning_of_its_id_and_read_back(trainer):
    with pytest.raises(InputError, match=r"There are no searches yet\. Type: mosaic tune ENV"):
        find_search(trainer.store, "latest")
    asked = plan()
    folder = create_search(trainer.store, asked)
    assert folder.read_plan() == asked
    assert find_search(trainer.store, "latest") == folder
    assert find_search(trainer.store, asked.search_id[:-2]) == folder
    with pytest.raises(InputError, match=f"There is no search 'x{asked.search_id}'. Did you mean '{asked.search_id}'"):
        find_search(trainer.store, f"x{asked.search_id}")
    create_search(trainer.store, asked.model_copy(update={"search_id": f"{asked.search_id}b"}))
    with pytest.raises(InputError, match="2 searches begin with"):
        find_search(trainer.store, asked.search_id[:-2])


def test_a_damaged_plan_names_its_file(trainer):
    folder = create_search(trainer.store, plan())
    document = json.loads(folder.plan.read_text())
    folder.plan.write_text(json.dumps({**document, "concurrent": 0}))
    with pytest.raises(InputError, match=r"search\.json: concurrent: it should be at least 1"):
        folder.read_plan()
    folder.plan.write_text("{")
    with pytest.raises(InputError, match=r"search\.json is damaged"):
        folder.read_plan()


def test_the_best_is_by_its_score_and_no_failure():
    rows = [
        TrialStanding(1, "done", {}, 1.0),
        TrialStanding(2, "failed", {}, 9.0),
        TrialStanding(3, "stopped", {}, 3.0),
        TrialStanding(4, "done", {}, 3.0),
        TrialStanding(5, "running", {}),
    ]
    assert best_of(rows, "max") == rows[2]
    assert best_of(rows, "min") == rows[0]
    assert best_of(rows[4:], "max") is None
    assert not is_over(rows, 5)
    assert is_over(rows[:4], 4)


def test_numbers_are_found_by_their_path():
    event = {"a": 1, "b": {"c": 2.5, "d": {"e": None}}, "kind": "iteration", "f": True}
    assert value_at(event, "b.c") == 2.5
    assert value_at(event, "b.d.e") is None
    assert value_at(event, "a.b") is None
    assert value_at({"x": float("nan")}, "x") is None
    assert list(numbers_in(event)) == ["a", "b.c"]
