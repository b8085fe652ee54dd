from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import mosaic
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.core.seeding import child_seed
from mosaic.evaluation.evaluate import Evaluation, evaluate
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.run_games import WorkerError, distinct_seeds, portable
from mosaic.policies.mapping import FunctionMapping, MappingError
from mosaic.runners.local import ControllerError, EnvFailedError
from mosaic.runners.record import load_episode
from tests.evaluation.evaluation_toys import OddError

TICTACTOE = "classic/tictactoe_v3"
FIRST, LAST = (
    "python:tests.evaluation.evaluation_toys:first_legal",
    "python:tests.evaluation.evaluation_toys:last_legal",
)
TIMES = ("env_steps_per_s", "wall_time_s", "duration_mean_s", "num_env_runners")


def line(**options: Any) -> EnvironmentConfig:
    return EnvironmentConfig(env_id="python:tests.evaluation.evaluation_toys:Line", options=options)


def timeless(evaluation: Evaluation) -> dict[str, Any]:
    document = evaluation.to_json()
    episodes = [{key: each[key] for key in each if key != "duration_s"} for each in document["episode_results"]]
    return {key: value for key, value in document.items() if key not in TIMES} | {"episode_results": episodes}


def test_the_root_has_it() -> None:
    assert mosaic.evaluate is evaluate


def test_every_episode_has_the_seed_of_its_number() -> None:
    found = evaluate(TICTACTOE, {"*": "random"}, episodes=5, seed=7)
    assert [result.seed for result in found.episode_results] == [child_seed(7, "episode", i) for i in range(5)]


def test_seeds_differ_although_the_streams_collide() -> None:
    plain = [child_seed(0, "episode", index) for index in range(100_000)]
    seeds = distinct_seeds(100_000, 0, "episode")
    assert len(set(plain)) < len(plain) == len(set(seeds))
    assert distinct_seeds(99_990, 0, "episode") == seeds[:99_990]


def test_wins_are_counted_per_agent_and_per_policy() -> None:
    found = evaluate(TICTACTOE, [f"player_1={FIRST}", "player_2=random"], episodes=60)
    document = found.to_json()
    one, two = document["agents"]["player_1"], document["agents"]["player_2"]
    assert one["wins"] + one["draws"] + one["losses"] == 60
    assert (one["wins"], one["draws"], one["losses"]) == (two["losses"], two["draws"], two["wins"])
    assert one["wins"] > two["wins"] > 0
    assert one["return_mean"] == pytest.approx((one["wins"] - one["losses"]) / 60)
    low, high = one["return_ci95"]
    assert low < one["return_mean"] < high
    assert document["policies"][FIRST]["wins"] == one["wins"]
    winners = [result["winner"] for result in document["episode_results"]]
    assert (winners.count("player_1"), winners.count(None)) == (one["wins"], one["draws"])
    assert document["env_steps"] == sum(result["length"] for result in document["episode_results"])
    assert document["agent_steps"] == document["env_steps"]


def test_a_policy_on_both_sides_is_one_value_per_episode() -> None:
    found = evaluate(TICTACTOE, {"*": "random"}, episodes=20)
    both = found.policies["random"]
    assert both.returns == (0.0, 0.0, 0.0)  # what one side wins the other loses
    assert both.wins == both.losses == sum(found.agents[agent].wins or 0 for agent in found.agents)
    assert (both.wins or 0) + (both.draws or 0) + (both.losses or 0) == 40


def test_one_game_again_and_again_is_said_to_be_one() -> None:
    found = evaluate(TICTACTOE, {"player_1": FIRST, "player_2": LAST}, episodes=6)
    assert found.distinct_games == 1
    assert found.agents["player_1"].returns == (1.0, None, None)  # six times the same observation
    assert found.length.ci95 == [None, None]
    assert found.reproducible
    assert evaluate(TICTACTOE, {"*": "random"}, episodes=6).distinct_games == 6


def test_where_nobody_wins_there_are_no_wins() -> None:
    document = evaluate("gym/CartPole-v1", {"agent_0": "random"}, episodes=3).to_json()
    row = document["agents"]["agent_0"]
    assert row["wins"] is row["draws"] is row["losses"] is None
    assert document["episode_results"][0]["winner"] is None
    assert row["return_mean"] == document["length_mean"]  # one point a step


def test_agents_of_one_policy_share_one_interval() -> None:
    found = evaluate("mpe/simple_spread_v3", {"*": "random"}, episodes=4)
    means = [sum(result.returns.values()) / 3 for result in found.episode_results]
    assert found.policies["random"].returns.mean == pytest.approx(sum(means) / 4)
    assert found.policies["random"].agents == ("agent_0", "agent_1", "agent_2")
    assert found.agent_steps == 3 * found.env_steps


def test_a_function_that_changes_policies_is_counted_by_who_acted() -> None:
    found = evaluate(TICTACTOE, ["python:tests.evaluation.evaluation_toys:alternating"], episodes=5)
    assert found.agents["player_1"].policy == f"{FIRST} | {LAST}"
    assert {policy: row.episodes for policy, row in found.policies.items()} == {FIRST: 3, LAST: 2}
    assert found.policies[FIRST].agents == ("player_1", "player_2")


def test_agents_born_during_an_episode_have_rows_too() -> None:
    born = "python:pettingzoo.test.example_envs.generated_agents_parallel_v0:parallel_env"
    found = evaluate(born, {"*": "random"}, episodes=2, max_steps=60)
    (policy,) = found.policies.values()
    assert set(policy.agents) == set(found.agents) == {agent for r in found.episode_results for agent in r.returns}
    assert all(row.policy == "random" for row in found.agents.values())
    at_first = mosaic.make_env(born).reset(found.episode_results[0].seed).rewards
    assert at_first.keys() < found.episode_results[0].returns.keys()


def test_endless_episodes_are_cut_and_counted() -> None:
    found = evaluate(line(failure="endless"), {"*": "random"}, episodes=2, max_steps=50)
    assert (found.cut, found.env_steps, found.to_json()["cut"]) == (2, 100, 2)
    assert evaluate(line(failure="endless"), {"*": "random"}, episodes=1).env_steps == 10_000


@pytest.mark.parametrize("reward", ["nan", "inf"])
def test_json_holds_no_nan(reward: str) -> None:
    document = evaluate(line(reward=reward), {"*": "random"}, episodes=2).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["agents"]["agent_0"]["return_mean"] is None
    assert document["episode_results"][0]["returns"] == {"agent_0": None}


def test_one_episode_has_no_interval() -> None:
    document = evaluate(line(), {"*": "random"}, episodes=1).to_json()
    assert document["agents"]["agent_0"]["return_mean"] == 3.0
    assert document["agents"]["agent_0"]["return_ci95"] == [None, None]
    assert document["length_ci95"] == [None, None]
    assert document["options"] == {}


def test_every_result_is_told_once() -> None:
    told: list[EpisodeResult] = []
    found = evaluate(line(), {"*": "random"}, episodes=4, on_episode=told.append)
    assert tuple(told) == found.episode_results


def test_episodes_are_kept_where_asked(tmp_path: Path) -> None:
    found = evaluate(TICTACTOE, {"*": "random"}, episodes=2, record_dir=tmp_path)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 2
    for path, result in zip(paths, found.episode_results, strict=True):
        episode = load_episode(path)
        assert (episode.seed, episode.returns) == (result.seed, result.returns)
        assert len(episode.digests) == result.length + 1
    with pytest.raises(
        InputError, match=r"record_dir: '.*' already holds 2 recorded episodes .* Type: record_dir='.*-2'"
    ):
        evaluate(TICTACTOE, {"*": "random"}, episodes=1, record_dir=tmp_path)
    assert [load_episode(path).seed for path in sorted(tmp_path.iterdir())] == [r.seed for r in found.episode_results]
    evaluate(TICTACTOE, {"*": "random"}, episodes=1, record_dir=f"{tmp_path}-2")
    assert len(list(tmp_path.with_name(f"{tmp_path.name}-2").iterdir())) == 1


@pytest.mark.parametrize("num_env_runners", [1, 2])
def test_a_misspelled_agent_is_refused(num_env_runners: int) -> None:
    with pytest.raises(MappingError, match=r"There is no agent 'player_0'\. Did you mean 'player_") as caught:
        evaluate(TICTACTOE, {"player_0": "random"}, num_env_runners=num_env_runners)
    assert caught.value.exit_code == 2


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(MappingError, match="'random' is not AGENT=POLICY, for example player_0=random"):
        evaluate(TICTACTOE, "random")
    with pytest.raises(UnknownNameError, match=r"There is no policy named 'randon'\. Did you mean 'random'\?"):
        evaluate(TICTACTOE, {"*": "randon"}, num_env_runners=2)
    anything: Any = min
    with pytest.raises(InputError, match=r"does not give agents policies\. Give \{AGENT: POLICY\}"):
        evaluate(TICTACTOE, anything)
    with pytest.raises(InputError, match=r"is not the reference of a policy: give a text such as 'random'"):
        mosaic.load_policy(anything, TICTACTOE)


@pytest.mark.parametrize("num_env_runners", [1, 2])
def test_functions_of_a_script_are_policies(num_env_runners: int, tmp_path: Path) -> None:
    cell = 4

    def takes_the_middle(observation: Any, mask: Any) -> int:
        return cell if mask[cell] else int(mask.argmax())

    given = {"player_1": takes_the_middle, "player_2": lambda observation, mask: int(mask.argmax())}
    found = evaluate(TICTACTOE, given, episodes=2, num_env_runners=num_env_runners, record_dir=tmp_path)
    names = {"player_1": "takes_the_middle", "player_2": "<lambda>"}
    assert {agent: summary.policy for agent, summary in found.agents.items()} == names
    assert [load_episode(path).policies for path in tmp_path.iterdir()] == [names, names]
    assert (found.distinct_games, found.reproducible) == (1, True)
    assert found.agents["player_1"].draws == 2  # player_1 would win without the middle


@pytest.mark.parametrize(
    ("reference", "advice"),
    [
        ("solo.zip", "Type: sb3:solo.zip"),
        ("net.onnx,sample=true", "Type: onnx:net.onnx,sample=true"),
        ("mine.py:greedy", "Type: python:mine.py:greedy"),
        ("mine.py", "Type: python:mine.py:NAME"),
        ("mine:greedy", r"A function of your own is python:MODULE:NAME\."),
        ("tests", "Type: checkpoint:tests or bundle:tests"),
    ],
)
def test_a_file_without_its_kind_is_told_it(reference: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    with pytest.raises(UnknownNameError, match=f"There is no policy named .* {advice}$"):
        evaluate(TICTACTOE, {"*": reference})


@pytest.mark.parametrize("name", ["episodes", "num_env_runners", "max_steps"])
def test_counts_below_one_are_refused(name: str) -> None:
    counts: dict[str, Any] = {name: 0}
    with pytest.raises(InputError, match=f"^{name} is 0; it must be at least 1.$"):
        evaluate(TICTACTOE, {"*": "random"}, **counts)


def test_processes_change_nothing_but_the_times(tmp_path: Path) -> None:
    mapping, told = ["player_1=random", f"player_2={LAST}"], list[int]()
    alone = evaluate(TICTACTOE, mapping, episodes=30, seed=3)
    shared = evaluate(
        TICTACTOE,
        mapping,
        episodes=30,
        seed=3,
        num_env_runners=2,
        record_dir=tmp_path,
        on_episode=lambda result: told.append(result.index),
    )
    assert timeless(shared) == timeless(alone)
    assert shared.episode_results == alone.episode_results
    assert sorted(told) == list(range(30))
    assert len(list(tmp_path.iterdir())) == 30
    assert shared.env_steps_per_s > 0


def test_a_function_mapping_travels_to_processes() -> None:
    asked = ["python:tests.evaluation.evaluation_toys:alternating"]
    alone, shared = (evaluate(TICTACTOE, asked, episodes=6, num_env_runners=n) for n in (1, 2))
    assert timeless(shared) == timeless(alone)


def test_a_mapping_that_cannot_travel_is_refused() -> None:
    mapping = FunctionMapping("mine", lambda agent, episode: "random")
    assert evaluate(TICTACTOE, mapping, episodes=2).policies["random"].episodes == 2
    with pytest.raises(
        InputError, match=r"This mapping cannot be sent to other processes: .* Use num_env_runners=1, or"
    ):
        evaluate(TICTACTOE, mapping, episodes=2, num_env_runners=2)


@pytest.mark.parametrize("num_env_runners", [1, 2])
def test_our_errors_arrive_as_they_are(num_env_runners: int) -> None:
    with pytest.raises(InputError, match=r"^No brain for 'player_1'\.$"):
        evaluate(
            TICTACTOE,
            {"*": "python:tests.evaluation.evaluation_toys:refused"},
            episodes=4,
            num_env_runners=num_env_runners,
        )


def test_errors_of_controllers_arrive_as_they_are() -> None:
    with pytest.raises(ControllerError, match=f"Step 0: policy '{FIRST}' for agent 'agent_0' failed"):
        evaluate("gym/CartPole-v1", {"*": FIRST}, episodes=4, num_env_runners=2)


def test_foreign_errors_bring_their_traceback() -> None:
    with pytest.raises(EnvFailedError, match=r"Line failed in step 0 .*: ZeroDivisionError: the line is") as caught:
        evaluate(line(failure="plain"), {"*": "random"}, episodes=4, num_env_runners=2)
    (note,) = caught.value.__notes__
    assert note.startswith("In the process that played the episode:\nTraceback")
    assert "evaluation_toys.py" in note


def test_errors_that_cannot_travel_are_named() -> None:
    with pytest.raises(EnvFailedError, match="OddError: an odd error") as caught:
        evaluate(line(failure="odd"), {"*": "random"}, episodes=1)
    assert isinstance(caught.value.__cause__, OddError)
    travelled = pickle.loads(pickle.dumps(portable(caught.value.__cause__)))
    assert isinstance(travelled, WorkerError)
    assert str(travelled) == "OddError: an odd error"
    assert "evaluation_toys.py" in travelled.__notes__[0]


def test_errors_of_closing_are_not_lost() -> None:
    with pytest.raises(ZeroDivisionError, match="cannot be closed"):
        evaluate(line(failure="close"), {"*": "random"}, episodes=2, num_env_runners=2)


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(WorkerError, match="ended with exit code -9 before it was done"):
        evaluate(TICTACTOE, {"*": "python:tests.evaluation.evaluation_toys:dies"}, episodes=4, num_env_runners=2)


def test_the_earlier_name_of_env_runners_is_understood() -> None:
    assert evaluate("gym/CartPole-v1", {"*": "random"}, episodes=1, num_workers=1).num_env_runners == 1
    with pytest.raises(
        InputError, match="num_workers is the earlier name of num_env_runners, and they differ: 3 and 2"
    ):
        evaluate("gym/CartPole-v1", {"*": "random"}, episodes=1, num_env_runners=2, num_workers=3)
