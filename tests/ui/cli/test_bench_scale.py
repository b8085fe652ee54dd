"""Benchmark of scale: the model, parts that fail or are measured again, and the tables of their costs."""

from __future__ import annotations

from tests.ui.cli.bench_folder import ask

__all__ = ["ask"]

MEASURE = """
import json, scale
costs = json.loads(scale.MEASURED.read_text())
costs["run"] |= {"draw_us": 700.0, "encode_us": 2400.0, "publish_us": 20.0}
slow = {"per_s": costs["measured_runners"]["2"]["per_s"] / 2, "us": 60.0}
costs["measured_runners"] = {"1": costs["measured_runners"]["1"], "2": slow}
names = {"run": ["run"], "server": ["server"], "runners": ["runners", "measured_runners"]}
def costs_of(part, folder, quick):
    if part == "server":
        raise ValueError("no clients")
    return {name: costs[name] for name in names[part]}
scale.costs_of, scale.usable_cores = costs_of, lambda: {0, 1}
scale.machine = lambda: MACHINE
scale.main()
"""


def test_no_cost_is_computed_to_be_less_than_nothing(ask):
    """Copying was measured to take longer than copying and merging, as it does on a busy machine."""
    done, _ = ask("""
from rllib_rows.scale import aggregate_s
for merged, copied in ((0.037, 0.042), (0.042, 0.037)):
    print(round(1e6 * aggregate_s({"aggregate_many_s": merged, "copy_many_s": copied}), 3))
""")
    assert done.stdout.split() == ["0.0", "50.0"], done.stderr


def test_the_driver_calls_each_runner_for_samples_and_with_weights(ask):
    """What weights cost was measured with one runner: its call is not counted again."""
    done, _ = ask("""
from rllib_rows.scale import estimate
from scale_rows.model import driver_full_at
seen = {"steps": 100, "sample_s": 0.8, "update_s": 0.0, "unpack_s": 0.001, "call_s": 0.002, "sync_s": 0.003}
seen |= {"aggregate_many_s": 0.0, "copy_many_s": 0.0}
print([round(1e3 * estimate(count, seen).driver_s, 3) for count in (1, 10)], driver_full_at(seen))
""")
    assert done.stdout == "[6.0, 51.0] 160.0\n", done.stderr


def test_a_part_of_the_costs_that_is_measured_again_keeps_the_others_with_their_days_and_versions(ask):
    done, _ = ask("""
import scale
from scale_rows.model import where
before = {"machine": "2 cores", "load": {"run": 1.0, "server": 1.0}, "at": {"run": "Monday"}}
found = {"machine": "2 cores", "load": {"server": 2.5}, "at": {"server": "Friday"}}
found["versions"] = {"server": {"ray": "2"}}
print(where(before | {"at": {}}))
print(where(scale.joined(before, found)))
for older in "12":
    print(where(scale.joined(before | {"versions": {"run": {"ray": older}}}, found)))
scale.machine = lambda: "a phone"
sys.argv = ["scale.py", "--only", "server"]
scale.main()
""")
    measured = "Measured on 2 cores; load of the machine before each part: run 1, server"
    days = "Days: run Monday, server Friday;"
    assert done.stdout.splitlines() == [
        f"{measured} 1.",
        f"{measured} 2.5. {days} with ray 2.",
        f"{measured} 2.5. {days} with ray 1 (run); ray 2 (server).",
        f"{measured} 2.5. {days} with ray 2.",
    ], done.stderr
    assert done.returncode == 2
    assert "and this is a phone: leave out --only" in done.stderr


def test_parts_that_follow_one_that_crashes_are_measured_and_compared_with_the_model(ask):
    done, figures = ask(MEASURE.replace("MACHINE", 'costs["machine"]'))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "failed: server")
    assert [each["what"] for each in figures if each.get("failed")] == ["server"]
    assert {"draw", "encode", "env runners that fill the driver, spread"} <= {each["what"] for each in figures}
    compared = {each["what"]: each["met"] for each in figures if each.get("peer") == "the model"}
    assert compared == {"1 env runners on 2 cores": True, "2 env runners on 2 cores": False}
    assert "| together, with a viewer | " in done.stdout
    assert "| 4 reports a second, written and read | " in done.stdout
    shown = next(line for line in done.stdout.splitlines() if "for a viewer" in line)
    assert shown.split(" | ")[1] == "9.360 %"  # of a core: 30 times 3.12 ms


def test_parts_of_different_machines_are_in_no_table(ask):
    done, _ = ask(MEASURE.replace("MACHINE", '"a phone"'))
    assert done.returncode == 1
    assert "No tables: parts that were not measured here are known of 2 cores of " in done.stdout
    assert "|---|" not in done.stdout
