"""`mosaic tune`: what is typed, what a file says, and what is refused before anything starts."""

import json
from io import StringIO

import pytest
from rich.console import Console

from mosaic.runs.tuning import search
from mosaic.runs.tuning.search import TrialStanding
from mosaic.ui.cli.tuning_view import SearchView

TOY = ("tune", "gym/CartPole-v1", "--worker", "toy", "--steps", "900")


@pytest.fixture
def plans(monkeypatch):
    """What searches were asked for; none is run."""
    seen = []

    def run_search(folder, watch):
        plan = folder.read_plan()
        seen.append(plan)
        options = {"noise": 0.25}
        row = TrialStanding(1, "done", options, 7.5, 900, "run-1").document(plan.settings.metric)
        facts = {"search_id": folder.search_id, "metric": plan.settings.metric}
        return {**facts, "trials": [row], "best": {**row, "config": str(folder.best)}}

    monkeypatch.setattr(search, "run_search", run_search)
    return seen


def test_the_table_and_the_command_that_trains_with_the_best(mosaic, plans):
    answer = mosaic(*TOY, "--search", "noise=0..2", "--trials", "3", "--mode", "min", "--seed", "4")
    assert answer.code == 0
    (plan,) = plans
    assert f"Search {plan.search_id}" in answer.out
    assert "0.25" in answer.out
    assert "run-1" in answer.out
    assert "mosaic train --config" in answer.out
    assert f"mosaic runs list --tag {plan.search_id}" in answer.err
    assert (plan.settings.trials, plan.settings.mode, plan.config.seed) == (3, "min", 4)


def test_a_file_may_hold_the_search_and_what_is_typed_counts_more(mosaic, plans, tmp_path):
    (tmp_path / "search.toml").write_text(
        '[environment]\nenv_id = "gym/CartPole-v1"\n[training]\nworker = "toy"\ntotal_timesteps = 900\n'
        '[tune]\nscheduler = "pbt"\ntrials = 5\n[tune.search]\nnoise = "0..2"\niteration_s = "0..0.1"\n'
    )
    assert mosaic("tune", "search.toml", "--trials", "6", "--search", "noise=1|2").code == 0
    settings = plans[0].settings
    assert (settings.scheduler, settings.trials) == ("pbt", 6)
    assert settings.search == {"noise": "1|2", "iteration_s": "0..0.1"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("tune",), "Name an environment: mosaic tune ENV --search NAME=VALUES"),
        (TOY, "Name what to search: --search learning_rate=log:1e-5..1e-2"),
        ((*TOY, "--search", "noize=0..2"), "there is no option 'noize'. Did you mean 'noise'?"),
        ((*TOY, "--search", "noise=-1..2"), "noise: it should be at least 0.0 (got -1.0)."),
        ((*TOY, "--search", "noise=0..2", "--scheduler", "pbd"), "'pbd' is not one of 'asha', 'pbt', 'none'"),
        ((*TOY, "--search", "noise=0..2", "--mode", "most"), "'most' is not one of 'max', 'min'"),
        (("tune", "--resume", "x"), "There are no searches yet."),
        (("tune", "--resume", "x", "--trials", "9"), "--resume continues the search with its own settings."),
        (("tune", "nosuch.toml"), "There is no file 'nosuch.toml'."),
    ],
)
def test_what_is_refused_with_exit_code_2(mosaic, tmp_path, words, text):
    answer = mosaic(*words)
    assert answer.code == 2
    assert text in answer.err.replace("\n", " ")
    assert not (tmp_path / "home" / "searches").exists()


def test_the_screen_shows_those_that_move_first_and_the_best(mosaic, plans):
    mosaic(*TOY, "--search", "noise=0..2", "--trials", "40")
    view = SearchView(plans[0])
    view.show(
        [
            *(TrialStanding(number, "done", {"noise": 0.5}, float(number), 900, "r") for number in range(1, 30)),
            TrialStanding(30, "running", {"noise": 0.125}, 3.5, 450, "r"),
        ]
    )
    console = Console(width=100, record=True, file=StringIO())
    console.print(view.render())
    lines = console.export_text().splitlines()
    assert "29 of 40 trials ended   best episode_reward_mean 29 (trial 29)" in lines[1]
    assert lines[3].split() == ["30", "running", "50%", "3.5", "noise=0.125"]
    assert any("6 more" in line for line in lines)


def test_runs_are_listed_by_tag_and_by_group(mosaic, runs_here):
    for number in ("1", "2"):
        words = ("train", "gym/CartPole-v1", "--worker", "toy", "--steps", "100", "--tag", f"t{number}")
        assert mosaic(*words).code == 0
    assert mosaic("runs", "list", "--tag", "t1").out.count("finished") == 1
    assert mosaic("runs", "list", "--tag", "t3").out.count("finished") == 0


GAME = ("tune", "classic/tictactoe_v3", "--worker", "native", "--steps", "900", "--search", "gamma=0.9..0.99")
DECIDES = "def by_place(agent_id, episode):\n    return 'learner' if agent_id == 'player_1' else 'random'\n"


@pytest.mark.parametrize(
    ("words", "paradigm", "agents"),
    [
        ((), "self_play", {}),
        (("--policies", "independent"), "independent", {}),
        (("--policies", "SELF_PLAY"), "self_play", {}),
        (("--agent", "player_2=random"), "parameter_sharing", {"player_2": "random"}),
        (
            ("--policies", "parameter_sharing", "--agent", "player_1=hers", "--agent", "*=minimax:depth=1"),
            "parameter_sharing",
            {"player_1": "hers", "*": "minimax:depth=1"},
        ),
    ],
)
def test_policies_and_agents_mean_what_they_mean_in_train(mosaic, plans, words, paradigm, agents):
    answer = mosaic(*GAME, *words)
    assert answer.code == 0, answer.err
    (plan,) = plans
    assert (plan.config.policy_configuration, plan.config.agents) == (paradigm, agents)
    trained = mosaic("train", *GAME[1:6], *words, "--dry-run", "--json")
    assert trained.code == 0, trained.err
    config = json.loads(trained.out)
    assert (config["policy_configuration"], config["agents"]) == (paradigm, agents)


def test_a_function_decides_for_every_agent_of_a_search(mosaic, plans, tmp_path):
    (tmp_path / "places.py").write_text(DECIDES)
    function = f"python:{tmp_path}/places.py:by_place"
    assert mosaic(*GAME, "--agent", function).code == 0
    assert plans[0].config.agents == function


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--agent", "player_3=random"), "There is no agent 'player_3'. Did you mean 'player_"),
        (("--agent", "player_1"), "'player_1' is not AGENT=POLICY"),
        (("--agent", "player_1=stockfish"), "stockfish"),
        (("--agent", "player_1=random", "--agent", "player_1=minimax"), "--agent player_1= is given twice"),
        (("--agent", "python:os:getcwd", "--agent", "player_1=random"), "'python:os:getcwd' decides for every agent"),
        (("--policies", "self_pley"), "'self_pley' is not one of"),
        (("--worker", "toy", "--agent", "player_1=random"), "The worker toy"),
    ],
)
@pytest.mark.parametrize("command", ["tune", "train"])
def test_wrong_policies_and_agents_are_refused_alike(mosaic, tmp_path, command, words, text):
    base = GAME if command == "tune" else ("train", *GAME[1:6])
    answer = mosaic(*base, *words)
    assert answer.code == 2
    assert text in answer.err.replace("\n", " ")
    assert not (tmp_path / "home" / "searches").exists()


def test_resume_takes_no_policies_and_agents(mosaic):
    for words in (("--policies", "independent"), ("--agent", "player_1=random")):
        answer = mosaic("tune", "--resume", "x", *words)
        assert answer.code == 2
        assert "--resume continues the search with its own settings." in answer.err


PROJECT = """
name = "cart"
env = "gym/CartPole-v1"
default_preset = "quick"

[train.quick]
seed = 3
training = { worker = "toy", total_timesteps = 900, params = { noise = 0.5, iteration_s = 0.25 } }

[train.long]
training = { worker = "toy", total_timesteps = 9_000 }
"""


@pytest.fixture
def project(mosaic, tmp_path, monkeypatch):
    folder = tmp_path / "cart"
    (folder / "below").mkdir(parents=True)
    (folder / "mosaic.toml").write_text(PROJECT)
    monkeypatch.chdir(folder / "below")
    return folder


def test_a_search_in_a_project_needs_no_env(mosaic, plans, project):
    answer = mosaic("tune", "--search", "noise=0..2")
    assert answer.code == 0, answer.err
    assert "Project 'cart', preset 'quick', from" in answer.err
    config = plans[0].config
    assert (config.project, config.environment.id, config.seed) == ("cart", "gym/CartPole-v1", 3)
    assert (config.training.worker, config.training.total_timesteps) == ("toy", 900)
    assert config.training.params["iteration_s"] == 0.25
    assert [row["name"] for row in json.loads(mosaic("projects", "list", "--json").out)] == ["cart"]
    mosaic("tune", "--preset", "long", "--search", "noise=0..2")
    assert plans[1].config.training.total_timesteps == 9_000
    assert mosaic(*TOY, "--search", "noise=0..2", "--no-project").code == 0
    assert plans[2].config.project == ""


def test_in_a_project_the_file_and_what_is_typed_count_more(mosaic, plans, project):
    (project / "search.toml").write_text(
        'seed = 4\n[training]\nparams = { iteration_s = 0.125 }\n[tune]\ntrials = 5\n[tune.search]\nnoise = "0..2"\n'
    )
    assert mosaic("tune", str(project / "search.toml"), "--steps", "800").code == 0
    config = plans[0].config
    assert (config.seed, config.training.total_timesteps, config.training.params["iteration_s"]) == (4, 800, 0.125)
    assert plans[0].settings.trials == 5
    (project / "only.toml").write_text('[tune.search]\nnoise = "0..2"\n')
    assert mosaic("tune", str(project / "only.toml"), "--seed", "6").code == 0
    assert plans[1].config.seed == 6


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--no-project",), "Name an environment: mosaic tune ENV --search NAME=VALUES"),
        (("--preset", "quik"), "no train preset 'quik'. Did you mean 'quick'? Known: quick, long."),
        (("--project", "card"), "There is no project named 'card'"),
        (("--no-project", "--preset", "quick"), "--preset and --no-project contradict each other"),
        (("--resume", "x", "--preset", "quick"), "--resume continues the search with its own settings."),
        (("--resume", "x", "--no-project"), "--resume continues the search with its own settings."),
    ],
)
def test_what_is_refused_in_a_project(mosaic, project, words, text):
    answer = mosaic("tune", *words)
    assert answer.code == 2
    assert text in answer.err.replace("\n", " ")
