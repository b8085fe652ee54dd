"""Statistics over seeds and envs: hand-computed values, and the numbers of the package rliable."""

from __future__ import annotations

import json
import math
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.evaluation.across_envs import STATISTICS, compare_methods, parse_range, profile
from mosaic.evaluation.statistics import improvement, resample

SCORES = {
    "ppo": {"a": [0.0, 2.0, 4.0, 10.0], "b": [100.0, 100.0, 300.0, 200.0]},
    "dqn": {"a": [1.0, 2.0, 3.0, 4.0], "b": [150.0, 100.0, 100.0, 300.0]},
}


def test_hand_computed_values() -> None:
    found = compare_methods(SCORES)
    assert found is not None
    assert (found["envs"], found["left_out"]) == (["a", "b"], [])
    assert found["ranges"] == {"a": [0.0, 10.0], "b": [100.0, 300.0]}
    ppo, dqn = found["methods"]
    assert ppo["runs"] == 8
    # Normalized scores of ppo: 0, .2, .4, 1 and 0, 0, 1, .5; sorted and without two at each end: 0, .2, .4, .5.
    assert ppo["iqm"] == pytest.approx(0.275)
    assert ppo["mean"] == pytest.approx((0.4 + 0.375) / 2)
    assert ppo["median"] == pytest.approx((0.4 + 0.375) / 2)
    assert ppo["optimality_gap"] == pytest.approx(1 - (0.4 + 0.375) / 2)
    assert ppo["profile"][0] == 5 / 8
    assert ppo["profile"][-1] == 0.0
    assert dqn["profile"][found["thresholds"].index(0.5)] == 1 / 8
    (pair,) = found["improvements"]
    # Env a: 0 pairs won by 0; 2 wins 1 and ties 1; 4 wins 3 and ties 1; 10 wins 4: 9 of 16. Env b: 8.5 of 16.
    assert pair["probability"] == pytest.approx((9 / 16 + 8.5 / 16) / 2)
    for method in found["methods"]:
        assert all(low <= x <= high for x, (low, high) in [(method["iqm"], method["iqm_ci95"])])


def test_given_ranges_and_envs_that_a_method_lacks() -> None:
    scores = {"ppo": {"a": [5.0, 15.0], "only": [1.0]}, "dqn": {"a": [0.0, 10.0], "empty": []}}
    found = compare_methods(scores, {"a": (0.0, 10.0)})
    assert found is not None
    assert (found["envs"], found["left_out"]) == (["a"], ["only"])
    assert found["methods"][0]["mean"] == 1.0
    assert found["thresholds"][-1] == 1.5
    assert compare_methods({"ppo": {"a": [1.0]}, "dqn": {"b": [1.0]}}) is None


def test_one_seed_has_no_interval_and_equal_scores_count_as_reached() -> None:
    found = compare_methods({"ppo": {"a": [7.0]}, "dqn": {"a": [7.0]}})
    assert found is not None
    assert found["methods"][0]["iqm"] == 1.0
    assert found["methods"][0]["iqm_ci95"] == [None, None]
    assert set(found["methods"][0]["profile_low"]) == {None}
    assert found["improvements"][0]["probability"] == 0.5


@pytest.mark.parametrize("text", ["a", "a=1", "=1:2", "a=1:1", "a=x:2", "a=1:inf", "a=1:2:3"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(InputError, match=r"Type ENV=LOW:HIGH"):
        parse_range(text)
    assert parse_range("gym/X=k-v1=-200:10.5") == ("gym/X=k-v1", (-200.0, 10.5))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=5), min_size=1, max_size=4))
def test_profiles_fall_and_intervals_hold_their_estimate(envs: list[list[float]]) -> None:
    scores = {"ppo": {str(k): env for k, env in enumerate(envs)}}
    found = compare_methods(scores)
    assert found is not None
    (method,) = found["methods"]
    assert method["profile"] == sorted(method["profile"], reverse=True)
    for name in ("iqm", "median", "mean", "optimality_gap"):
        low, high = method[f"{name}_ci95"]  # type: ignore[literal-required]
        assert low <= method[name] <= high  # type: ignore[literal-required]
        assert low >= -1e-9
        assert high <= 1 + 1e-9


PACKAGES = ["rliable>=1.2", "pandas<3"]  # its dependency arch does not import beside pandas 3
RLIABLE = """
import json, sys
import numpy as np
from rliable import library, metrics
scores = {name: np.array(each).T for name, each in json.load(sys.stdin).items()}
taus = np.linspace(0, 1, 11)
functions = {"iqm": metrics.aggregate_iqm, "median": metrics.aggregate_median, "mean": metrics.aggregate_mean,
             "optimality_gap": metrics.aggregate_optimality_gap}
state = np.random.RandomState(0)
found = {}
for name, function in functions.items():
    point, ends = library.get_interval_estimates(
        scores, lambda x: np.array([function(x)]), reps=20000, random_state=state)
    found[name] = {key: [float(point[key][0]), *ends[key][:, 0].tolist()] for key in scores}
point, ends = library.create_performance_profile(scores, taus, reps=5000)
found["profile"] = {key: [point[key].tolist(), *ends[key].tolist()] for key in scores}
found["improvement"] = float(metrics.probability_of_improvement(scores["ppo"], scores["dqn"]))
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_numbers_of_rliable(tmp_path: Path) -> None:
    """Its point estimates are ours; its plain percentile intervals are those of our resamples, up to their noise."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    random = np.random.default_rng(3)
    scores = {name: random.beta(2, shape, (4, 8)) for name, shape in (("ppo", 2.0), ("dqn", 3.0))}  # envs × seeds
    text = json.dumps({name: each.tolist() for name, each in scores.items()})
    done = subprocess.run([folder / "bin" / "python", "-c", RLIABLE], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = compare_methods(
        {name: {str(env): row.tolist() for env, row in enumerate(each)} for name, each in scores.items()},
        {str(env): (0.0, 1.0) for env in range(4)},
    )
    assert ours is not None
    for method in ours["methods"]:
        parts = list(scores[method["method"]])
        for name, statistic in STATISTICS.items():
            point, low, high = theirs[name][method["method"]]
            assert math.isclose(method[name], point, abs_tol=1e-12)  # type: ignore[literal-required]
            assert np.percentile(statistic(resample(parts)), [2.5, 97.5]) == pytest.approx([low, high], abs=0.02)
            wide = method[f"{name}_ci95"]  # type: ignore[literal-required]
            assert wide[0] <= low + 0.02  # ours are widened for few seeds
            assert high - 0.02 <= wide[1]
        point, low, high = theirs["profile"][method["method"]]
        thresholds = np.linspace(0, 1, 11)
        assert profile(parts, thresholds) == pytest.approx(point, abs=1e-12)
        ends = np.percentile(profile(resample(parts), thresholds), [2.5, 97.5], axis=0)
        assert ends == pytest.approx(np.array([low, high]), abs=0.04)
    assert math.isclose(ours["improvements"][0]["probability"] or 0, theirs["improvement"], abs_tol=1e-12)
    assert improvement([scores["ppo"][0], scores["ppo"][0]]) == 0.5


def test_scores_above_one_do_not_fill_the_optimality_gap_of_others() -> None:
    document = compare_methods({"far": {"one": [0.5, 2.0]}, "near": {"one": [1.0, 1.0]}}, {"one": (0.0, 1.0)})
    assert document is not None
    assert [method["optimality_gap"] for method in document["methods"]] == [0.25, 0.0]
