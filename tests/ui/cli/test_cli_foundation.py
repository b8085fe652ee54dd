"""The commands of the foundation, and what they say when something is wrong."""

import json
import os
import subprocess
import sys
from typing import get_args

import pytest

from mosaic.config.export import ExportTarget
from mosaic.config.sections import PolicyConfiguration, Runtime, TrainingConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.learners.probes import ALGORITHMS
from mosaic.runs.tuning.plan import Mode, Scheduler
from mosaic.ui.cli import options

TICTACTOE = "classic/tictactoe_v3"


def without_times(document):
    times = ("env_steps_per_s", "wall_time_s", "duration_mean_s", "num_env_runners")
    episodes = [{key: row[key] for key in row if key != "duration_s"} for row in document.get("episode_results", ())]
    return {key: value for key, value in document.items() if key not in times} | {"episode_results": episodes}


def test_evaluate_gives_the_promised_keys_and_the_same_numbers_twice(mosaic):
    words = ["evaluate", TICTACTOE, "--agent", "*=random", "--episodes", "20", "--seed", "7", "--json"]
    one, other = mosaic(*words), mosaic(*words)
    assert one.code == 0
    assert one.err == ""
    document = json.loads(one.out)
    promised = {"env", "seed", "episodes", "env_steps", "env_steps_per_s", "reproducible", "distinct_games", "agents"}
    assert promised | {"policies", "episode_results"} <= document.keys()
    assert document["agents"]["player_1"].keys() >= {"policy", "return_mean", "return_ci95", "wins", "draws", "losses"}
    assert document["episode_results"][0].keys() >= {"seed", "length", "returns", "winner"}
    assert without_times(document) == without_times(json.loads(other.out))


def test_minimax_never_loses_and_does_not_repeat_itself(mosaic):
    words = ["evaluate", TICTACTOE, "--agent", "player_1=minimax", "--episodes", "200", "--seed", "7", "--json"]
    against_random = json.loads(mosaic(*words, "--agent", "player_2=random").out)
    assert against_random["agents"]["player_1"]["losses"] == 0
    assert against_random["agents"]["player_1"]["wins"] > 150
    itself = json.loads(mosaic(*words, "--agent", "player_2=minimax").out)
    assert itself["agents"]["player_1"]["draws"] == 200
    assert itself["distinct_games"] > 20


@pytest.mark.parametrize(
    "env_id", ["mpe/simple_spread_v3", "sisl/pursuit_v4", "butterfly/knights_archers_zombies_v10", "gym/Taxi-v3"]
)
def test_evaluate_works_in_every_family(mosaic, env_id):
    answer = mosaic("evaluate", env_id, "--agent", "*=random", "--episodes", "2", "--max-steps", "60", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["env"] == env_id


def test_an_id_without_version_takes_the_newest(mosaic):
    answer = mosaic("evaluate", "sisl/pursuit", "--agent", "*=random", "--episodes", "1", "--max-steps", "5", "--json")
    assert json.loads(answer.out)["env"] == "sisl/pursuit_v4"


def test_stockfish_wins_and_is_marked_as_not_reproducible(mosaic):
    answer = mosaic(
        "evaluate", "classic/chess_v6", "--agent", "player_0=stockfish:skill=5", "--agent", "player_1=random",
        "--episodes", "2", "--json",
    )  # fmt: skip
    document = json.loads(answer.out)
    assert document["agents"]["player_0"]["wins"] == 2
    assert document["reproducible"] is False


def test_tables_for_people(mosaic):
    answer = mosaic("evaluate", TICTACTOE, "--agent", "*=random", "--episodes", "5")
    assert "player_1" in answer.out
    assert "won" in answer.out
    assert "distinct games" in answer.err


def test_tournament(mosaic, tmp_path):
    store = str(tmp_path / "games.jsonl")
    words = ["tournament", TICTACTOE, "minimax", "random", "--games", "4", "--store", store, "--json"]
    document = json.loads(mosaic(*words).out)
    assert [row["policy"] for row in document["policies"]] == ["minimax", "random"]
    assert {pair["games"] for pair in document["pairs"]} == {4}
    assert json.loads(mosaic(*words).out) == document  # finished games are not played again


def test_an_interrupted_tournament_goes_on_where_it_stopped(mosaic, tmp_path):
    words = ["tournament", TICTACTOE, "random", "python:my_stopper:play", "--games", "5", "--json"]
    (tmp_path / "my_stopper.py").write_text(
        "import os, pathlib\nlog = pathlib.Path('moves.txt')\n"
        "def play(observation, mask):\n"
        "    with log.open('a') as file: file.write('x')\n"
        "    if log.stat().st_size == 12: raise KeyboardInterrupt\n"
        "    return int(mask.argmax())\n"
    )
    assert mosaic(*words).code == 130
    (kept,) = (tmp_path / "home" / "tournaments").iterdir()
    games_before = len(kept.read_text().splitlines()) - 1
    assert games_before > 0
    document = json.loads(mosaic(*words).out)
    assert {pair["games"] for pair in document["pairs"]} == {5}
    moves = (tmp_path / "moves.txt").stat().st_size
    (tmp_path / "moves.txt").write_text("x" * 100)
    assert json.loads(mosaic(*words).out) == document  # an uninterrupted one has the same result
    assert (tmp_path / "moves.txt").stat().st_size - 100 > moves - 12  # the kept games were not played again
    assert list((tmp_path / "home" / "tournaments").iterdir()) == []


def test_play_record_and_replay(mosaic, tmp_path):
    answer = mosaic(
        "play", TICTACTOE, "--agent", "player_1=minimax", "--agent", "player_2=random", "--record", "--out", "game.json"
    )
    assert answer.code == 0
    assert "───┼───┼───" in answer.out
    again = mosaic("replay", "game.json")
    assert again.code == 0
    assert "bit for bit the same" in again.out
    assert json.loads(mosaic("replay", "game.json", "--json").out)["same"] is True
    record = json.loads((tmp_path / "game.json").read_text())
    record["digests"][3] ^= 1
    (tmp_path / "game.json").write_text(json.dumps(record))
    damaged = mosaic("replay", "game.json", "--quiet")
    assert damaged.code == 1
    assert "differs from the record at step 3" in damaged.err


def test_lists(mosaic):
    policies = json.loads(mosaic("policies", "--json").out)
    assert {"human", "minimax", "python", "random", "stockfish", "uci"} <= {row["id"] for row in policies}
    envs = json.loads(mosaic("envs", "mpe", "--json").out)
    assert {"id", "agents", "observation", "action", "turn_based", "installed", "install"} <= envs[0].keys()
    by_id = {row["id"]: row for row in envs}
    assert (by_id["mpe/simple_spread_v3"]["compiled_twin"], by_id["mpe/simple_crypto_v3"]["compiled_twin"]) == (
        True,
        False,
    )
    assert (by_id["mpe/simple_spread_v3"]["presets"], by_id["mpe/simple_tag_v3"]["presets"]) == (["native ppo"], [])
    doctor = json.loads(mosaic("doctor", "--json").out)
    assert {"python", "stockfish"} <= {row["id"] for row in doctor}
    schema = json.loads(mosaic("schema", "run").out)
    assert "environment" in schema["properties"]


@pytest.mark.parametrize("name", ["mpe/simple_tag_v3", "mpe/simple_tag"])
def test_one_env_is_shown_with_its_agents_and_what_to_type(mosaic, name):
    answer = mosaic("envs", name)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert "agents adversary_0, adversary_1, adversary_2, agent_0" in words
    assert "together, mixed" in words
    assert "mosaic train mpe/simple_tag_v3" in answer.err
    (row,) = json.loads(mosaic("envs", name, "--json").out)
    assert (row["id"], row["compiled_twin"]) == ("mpe/simple_tag_v3", True)


def test_an_env_that_no_family_lists_is_shown(mosaic):
    answer = mosaic("envs", "python:examples.envs:Corridor")
    assert "Discrete(4)" in answer.out
    assert "mosaic train external:PORT" in mosaic("envs", "external").err


def test_check_shows_a_table_per_agent(mosaic):
    answer = mosaic("check", "mpe/simple_tag_v3")
    assert answer.code == 0
    assert "adversary_0" in answer.out
    assert "keeps the contract" in answer.out


def test_check_finds_a_broken_env(mosaic, tmp_path):
    (tmp_path / "my_broken.py").write_text(
        "import gymnasium, numpy as np\nfrom gymnasium import spaces\n"
        "class Env(gymnasium.Env):\n"
        "    observation_space = spaces.Box(0, 1, (2,)); action_space = spaces.Discrete(2)\n"
        "    def reset(self, seed=None, options=None): return np.full(2, 7, np.float32), {}\n"
        "    def step(self, a): return np.full(2, 7, np.float32), 0.0, False, False, {}\n"
    )
    answer = mosaic("check", "python:my_broken:Env")
    assert answer.code != 0
    assert "observation" in answer.err


EVALUATE = ("evaluate", TICTACTOE)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("evaluate", "gym/CartPol-v1", "--agent", "*=random"), "Did you mean 'gym/CartPole-v1'?"),
        (("evaluate", "CartPole-v1", "--agent", "*=random"), "'CartPole-v1' needs its family: type gym/CartPole-v1"),
        (("evaluate", "gim/CartPole-v1", "--agent", "*=random"), "Did you mean 'gym'?"),
        (("evaluate", "classic/chess_v5", "--agent", "*=random"), "Installed: classic/chess_v6."),
        ((*EVALUATE, "--agent", "player_3=random"), "There is no agent 'player_3'. Did you mean 'player_"),
        ((*EVALUATE, "--agent", "player_1=random"), "No policy for agent 'player_2'. Add --agent player_2=POLICY"),
        ((*EVALUATE, "--agent", "*=minmax"), "There is no policy named 'minmax'. Did you mean 'minimax'?"),
        ((*EVALUATE, "--agent", "*=minimax:dept=2"), "there is no option 'dept'. Did you mean 'depth'?"),
        ((*EVALUATE, "--agent", "random"), "'random' is not AGENT=POLICY"),
        ((*EVALUATE, "--agent", "*=stockfish"), "plays classic/chess_v6 only, not classic/tictactoe_v3"),
        ((*EVALUATE, "--agent", "*=random", "--episodes", "0"), "'--episodes' cannot be '0': it should be at least 1."),
        (
            (*EVALUATE, "--agent", "*=random", "--episodes", "1e3"),
            "'--episodes' cannot be '1e3': it should be a whole number. Type: mosaic evaluate --help",
        ),
        (
            ("train", TICTACTOE, "--policies", "selfplay"),
            "'self_play', 'shared_value_function'. Did you mean 'self_play'? Type: mosaic train --help",
        ),
        ((*EVALUATE, "--agent", "*=random", "--episods", "3"), "No such option: --episods"),
        ((*EVALUATE, "--agent", "*=random", "--set", "environment.optoins.a=1"), "Did you mean"),
        ((*EVALUATE, "--agent", "*=random", "--set", "environment.options.nonsense=1"), "does not take these options"),
        (
            (*EVALUATE, "--agent", "*=random", "--set", "environment.wrappers=[frame_stak]"),
            "Did you mean 'frame_stack'",
        ),
        ((*EVALUATE, "--agent", "*=human"), "needs a person at a terminal"),
        ((*EVALUATE, "--agent", "*=python:nowhere:f"), "there is no module 'nowhere'"),
        (
            EVALUATE,
            "Give each agent one, --agent player_1=POLICY --agent player_2=POLICY, or all agents the same, --agent",
        ),
        (("play", TICTACTOE), "No agent has a policy. Agents: player_1, player_2."),
        (("tournament", "mpe/simple_spread_v3", "random", "minimax"), ""),
        (("tournament", TICTACTOE, "random"), ""),
        (("replay", "nothing.json"), "There is no episode file 'nothing.json'"),
        (("envs", "clasic"), "no environment family named 'clasic'. Did you mean 'classic'?"),
        (("envs", "mpe/simple_tga_v3"), "Did you mean 'mpe/simple_tag_v3'?"),
        (("envs", "CartPole"), "'CartPole' needs its family: type gym/CartPole-v1"),
        (("evalute", TICTACTOE), "No such command 'evalute'"),
    ],
)
def test_bad_input_ends_with_code_2_and_says_what_to_type(mosaic, words, text):
    answer = mosaic(*words)
    assert answer.code == 2
    assert text in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_an_illegal_policy_ends_with_code_2_and_a_failing_one_with_1(mosaic, tmp_path):
    (tmp_path / "my_bad_policies.py").write_text("def zero(o, m): return 0\ndef fails(o, m): raise KeyError('x')\n")
    illegal = mosaic(*EVALUATE, "--agent", "*=python:my_bad_policies:zero", "--episodes", "1")
    assert illegal.code == 2
    assert "played 0, which is illegal here" in " ".join(illegal.err.split())
    failing = mosaic(*EVALUATE, "--agent", "*=python:my_bad_policies:fails", "--episodes", "1")
    assert failing.code == 1
    assert "failed: KeyError: 'x'" in " ".join(failing.err.split())


def test_errors_as_json(mosaic):
    answer = mosaic("evaluate", "gym/Nothing-v9", "--agent", "*=random", "--json")
    assert answer.code == 2
    assert answer.out == ""
    assert "Nothing-v9" in json.loads(answer.err)["error"]


def test_debug_shows_the_traceback():
    answer = subprocess.run(
        [sys.executable, "-m", "mosaic", "envs", "nothing", "--debug"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2  # as without it
    assert "Traceback" in answer.stderr
    assert "UnknownNameError" in answer.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no"), 2),
        (MosaicError("no"), 1),
        (OSError("no"), 1),
        (ModuleNotFoundError("no", name="no"), 2),
        (KeyError("no"), 1),
    ],
)
def test_debug_keeps_the_exit_code(mosaic, monkeypatch, error, code):
    def fail(*_):
        raise error

    words = ("evaluate", "gym/CartPole-v1", "--agent", "*=random", "--episodes", "1")
    monkeypatch.setattr("mosaic.evaluation.evaluate.make_env", fail)
    plain, shown = mosaic(*words), mosaic(*words, "--debug")
    assert (plain.code, shown.code) == (code, code)
    assert "Traceback" not in plain.err
    assert "Traceback" in shown.err
    assert type(error).__name__ in shown.err


def test_help_and_version(mosaic):
    assert mosaic("--help").code == 0
    assert mosaic() == mosaic("--help")
    assert mosaic("--version").out.strip() == "0.1.0"


def test_the_help_of_an_option_is_the_description_of_its_setting(mosaic):
    shown = mosaic("train", "--help")
    assert shown.code == 0
    words = " ".join(shown.out.split())
    described = TrainingConfig.model_fields["stop_reward"].description
    assert described is not None
    assert described in words
    assert "(those of the preset, unless `episodes` is set; without any limit 1,000,000)" in words
    for command in ("tune", "runs resume"):
        answer = mosaic(*command.split(), "--help")
        assert answer.code == 0
        assert "setting:" not in answer.out
    assert "setting:" not in shown.out


def test_the_choices_of_options_are_those_of_their_settings():
    assert get_args(options.PolicyConfiguration) == get_args(PolicyConfiguration)
    assert get_args(options.Runtime) == get_args(Runtime)
    assert get_args(options.Scheduler) == get_args(Scheduler)
    assert get_args(options.Mode) == get_args(Mode)
    assert get_args(options.ExportTarget) == get_args(ExportTarget)
    assert get_args(options.ProbedAlgorithm) == ALGORITHMS


@pytest.mark.slow
@pytest.mark.chosen
def test_the_demo_trains_proves_and_plays(mosaic):
    answer = mosaic("demo")
    assert answer.code == 0
    told = " ".join(answer.out.split())
    assert "it cannot be beaten" in told
    rows = [line.split() for line in answer.out.splitlines() if line.split()[:1] in (["minimax"], ["random"])]
    assert [row[4] for row in rows] == ["0"] * 4  # nothing lost
    assert [row[3] for row in rows[:2]] == ["500", "500"]
    assert all(int(row[5]) > 100 for row in rows)
    assert "mosaic play classic/tictactoe_v3" in " ".join(answer.err.split())


@pytest.mark.parametrize("words", [["workers"], ["workers", "--json"], ["schema", "run"]])
def test_a_reader_that_leaves_early_is_not_an_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "mosaic", *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")
