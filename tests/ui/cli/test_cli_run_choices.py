"""What is picked, refused, listed and advised where training is asked for on the command line."""

import json

import pytest

TOY = ("train", "gym/CartPole-v1", "--worker", "toy")


def test_mosaic_picks_the_worker_and_the_policy_configuration_and_says_so(mosaic):
    answer = mosaic("train", "classic/tictactoe_v3", "--dry-run", "--json")
    document = json.loads(answer.out)
    assert document["training"]["worker"] == "tabular"
    assert document["policy_configuration"] == "self_play"
    assert answer.err == ""
    assert "Picked tabular q_learning" in mosaic("train", "classic/tictactoe_v3", "--dry-run").err


def test_policies_that_a_rule_creates_are_named(mosaic):
    words = ("train", "mpe/simple_tag_v3", "--worker", "native", "--dry-run", "--agent", "adversary_*=hunters")
    assert "New policies that learn: hunters." in mosaic(*words).err
    assert "New policies" not in mosaic(*words[:-1], "adversary_*=random").err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--agent", "player_2=human"), "A person cannot play player_2 while a policy trains"),
        (("--agent", "player_2=nobody"), "There is no policy named 'nobody'"),
        (("--agent", "player_9=random"), "There is no agent 'player_9'."),
        (("--set", "resources.num_gpus=4"), "cannot meet resources.num_gpus=4"),
        (("--num-env-runners", "4"), "Type --runtime parallel (threads), ray or mpi."),
        (("--ray-address", "127.0.0.1:1"), "Type: --runtime ray"),
        (("--set", 'telemetry.mirrors=["tensorbord"]'), "There is no mirror named 'tensorbord'."),
    ],
)
def test_what_a_table_does_not_honour_is_refused(mosaic, words, text):
    answer = mosaic("train", "classic/tictactoe_v3", "--worker", "tabular", *words)
    assert answer.code == 2
    assert text in " ".join(answer.err.split())
    assert (
        json.loads(mosaic("train", "gym/Taxi-v3", "--dry-run", "--json").out)["policy_configuration"]
        == "parameter_sharing"
    )


@pytest.mark.parametrize("listing", ["workers", "policies"])
def test_a_narrow_terminal_loses_no_word(mosaic, monkeypatch, listing):
    monkeypatch.setenv("COLUMNS", "80")
    shown = mosaic(listing).out
    assert max(map(len, shown.splitlines())) <= 80
    told = "".join(shown.split())
    for row in json.loads(mosaic(listing, "--json").out):
        for word in (row["id"], *row.get("algorithms", ()), *row.get("help", "").split()):
            assert all(part in told for part in (word[:8], word[-8:])), word


def test_workers_say_what_holds_under_conditions_only(mosaic):
    told = " ".join(mosaic("workers").out.split())
    assert "tabular: The runtimes parallel, ray and mpi take one agent with a dense table" in told
    assert "all algorithms but double_q_learning" in told
    assert "policy_options, evaluates, curriculum, init" in told


def test_workers_and_their_schemas(mosaic):
    rows = json.loads(mosaic("workers", "--json").out)
    assert {"toy", "script"} <= {row["id"] for row in rows}
    schema = json.loads(mosaic("schema", "toy", "walk").out)
    assert "steps_per_iteration" in schema["properties"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("train", "gym/CartPole-v1", "--worker", "toi"), "There is no worker named 'toi'. Did you mean 'toy'?"),
        (("train", "--worker", "toy"), "Name an environment"),
        ((*TOY, "--algo", "wolk"), "Did you mean 'walk'?"),
        ((*TOY, "--set", "training.params.nois=1"), "there is no option 'nois'. Did you mean 'noise'?"),
        ((*TOY, "--policies", "shared_value_function"), "has no policy configuration 'shared_value_function'"),
        ((*TOY, "--set", "training.algoritm=x"), "Did you mean 'training.algorithm'?"),
        ((*TOY, "--config", "none.yaml"), "none.yaml"),
        (("runs", "show", "nothing"), "nothing"),
        (("runs", "import", "none.tar.gz"), "none.tar.gz"),
        (("schema", "tooy"), "Did you mean 'toy'?"),
        (("evaluate", "gym/CartPole-v1", "--agent", "*=run:nothing"), "nothing"),
        (("runs", "list", "--server", "http://127.0.0.1:9"), "Type: mosaic serve"),
        (("serve", "--host", "0.0.0.0"), "--allow-public"),
    ],
)
def test_bad_input_says_what_to_type(mosaic, words, text):
    answer = mosaic(*words)
    assert answer.code in (1, 2)
    assert text in " ".join(answer.err.split())
    assert "Traceback" not in answer.err


def test_a_preset_promises_its_result_only_for_what_was_tried(mosaic):
    asked = ["train", "gym/CartPole-v1", "--worker", "native", "--algo", "ppo", "--dry-run"]
    assert "8 of 8 seeds reach 475" in " ".join(mosaic(*asked).err.split())
    for words in (
        ["--set", 'environment.wrappers=["time_limit:max_steps=9"]'],
        ["--steps", "1000"],
        ["--set", "training.params.learning_rate=0.5"],
    ):
        said = " ".join(mosaic(*asked, *words).err.split())
        assert "come from the preset for gym/CartPole-v1" in said
        assert "seeds reach" not in said
        assert "its result is not guaranteed here" in said
