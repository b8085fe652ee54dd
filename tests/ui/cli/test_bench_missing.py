"""Rows and peers that fail or miss a package: what is a failure, and what is left out."""

from __future__ import annotations

import json

from tests.ui.cli.bench_folder import ask

__all__ = ["ask"]


def test_a_row_that_crashes_is_a_failure_and_the_others_are_measured(ask):
    text = """
from row_table import run_row
from figures import note_figure
from mosaic.core.errors import MissingExtraError
from ppo_rows.measure import PeerMissing, Unmeasured
def crash(): 1 / 0
def unmeasured(): raise Unmeasured("the peer ended with 3")
def missing(): import abacus_of_1642
def inside(): import mosaic.abacus
def beside(): import ppo_rows.abacus
def own(): raise ModuleNotFoundError(name='ppo_rows')
def extra(): raise MissingExtraError("Type: pip install 'mosaic-rl[mpi]'")
def engine(): raise PeerMissing("no engine. Type: this")
def silent(): pass
def endless(): note_figure("endless", "s", [float("nan")])
def good(): note_figure("good", "s", [1.0])
rows = (crash, unmeasured, missing, inside, beside, own, extra, engine, silent, endless, good)
print([run_row(each.__name__, each) for each in rows])
"""
    done, figures = ask(text)
    passed = json.loads(done.stdout.splitlines()[-1].lower())
    assert [number for number, each in enumerate(passed) if each] == [2, 6, 7, 10], done.stderr
    said = {each["what"]: each.get("failed") or each.get("skipped") for each in figures}
    assert said.pop("endless").startswith("ValueError: Out of range float values are not JSON compliant")
    assert said == {
        "crash": "ZeroDivisionError: division by zero",
        "unmeasured": "no figures: the peer ended with 3",
        "missing": "abacus_of_1642 is not installed. Type: mosaic bench --with-peers",
        "inside": "ModuleNotFoundError: No module named 'mosaic.abacus'",
        "beside": "ModuleNotFoundError: No module named 'ppo_rows.abacus'",
        "own": "ModuleNotFoundError: ",
        "extra": "Type: pip install 'mosaic-rl[mpi]'",
        "engine": "no engine. Type: this",
        "silent": "it ended without a figure",
        "good": None,
    }
    assert [each["what"] for each in figures if each.get("package")] == ["missing", "extra"]
    assert "ZeroDivisionError" in done.stderr


def test_a_peer_that_crashes_or_cannot_be_installed_is_a_failure(ask):
    text = """
import sys
from pathlib import Path
from ppo_peers import own_place
from row_table import run_row
Path("crashing.py").write_text("raise SystemExit('no beads')")
python = sys.executable
print(run_row("script", lambda: own_place.ask(str(Path("crashing.py").resolve()))))
print(run_row("pip", lambda: own_place._quietly(python, "-c", "raise SystemExit('no beads')")))
own_place.MOST_S = 0.1
print(run_row("slow", lambda: own_place._quietly(python, "-c", "import signal; signal.pause()")))
"""
    _, figures = ask(text)
    script, pip, slow = (each["failed"] for each in figures)
    assert script.endswith("crashing.py ended with 1: no beads")
    assert pip.endswith("-c raise SystemExit('no beads') …' failed: no beads")
    assert slow.endswith("-c import signal; signal.pause() …' took longer than 0.1 s")


def test_a_package_that_a_process_of_a_row_misses_is_left_out_too(ask):
    text = """
from pathlib import Path
from ppo_peers import own_place
from rllib_rows.asking import ask
from row_table import run_row
extra = "from mosaic.core.errors import MissingExtraError\\nraise MissingExtraError('Type: pip install beads')"
scripts = {"peer": "import abacus_of_1642.wood", "broken": "import ppo_rows.abacus", "extra": extra}
for name, script in scripts.items():
    path = Path(f"{name}.py").resolve()
    path.write_text(script)
    print(run_row(name, lambda: ask(str(path), {})))
peer = str(Path("peer.py").resolve())
print(run_row("place", lambda: own_place.ask(peer)))
own_place.python_of = lambda place: sys.executable
print(run_row("own place", lambda: own_place.ask(peer, place="jax")))
"""
    done, figures = ask(text)
    said = {each["what"]: each.get("failed") or f"left out: {each['skipped']}" for each in figures}
    left_out = "left out: abacus_of_1642 is not installed. Type: mosaic bench --with-peers"
    assert said.pop("broken").startswith("ModuleNotFoundError: No module named 'ppo_rows"), done.stderr
    assert said.pop("own place").endswith("peer.py ended with 1: ModuleNotFoundError: No module named 'abacus_of_1642'")
    assert said == {"peer": left_out, "extra": "left out: Type: pip install beads", "place": left_out}


def test_an_environment_of_a_peer_whose_interpreter_is_gone_is_made_again(ask):
    """As after an upgrade of the system's Python, to which the interpreter is a link."""
    text = """
from ppo_peers import own_place
from figures import note_figure
made = []
def make(*command):
    made.append(command[1:3])
    folder = own_place.user_cache_path("mosaic") / "benchmark-peers" / "jax"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin" / "python").touch()
own_place._quietly = make
python = own_place.python_of("jax")
own_place.python_of("jax")
note_figure("made", "", [len(made)])
python.unlink()
own_place.python_of("jax")
note_figure("made", "", [len(made)])
"""
    done, figures = ask(text)
    assert [each["values"] for each in figures] == [[2], [4]], done.stderr


def test_the_policy_server_is_measured_without_a_peer_that_is_not_installed(ask):
    text = """
import serving
assert serving.ways_here() == serving.WAYS
serving.find_spec = lambda name: None
print(", ".join(serving.ways_here()))
"""
    done, figures = ask(text)
    assert done.stdout.splitlines()[-1].endswith("Mosaic, HTTP, SB3 predict, HTTP"), done.stderr
    reason = "ray is not installed. Type: mosaic bench --with-peers"
    assert figures == [{"what": "decisions beside RLlib module, HTTP", "skipped": reason, "package": "ray"}]


def test_a_peer_with_its_own_environment_is_left_out_with_what_to_type(ask):
    text = """
from ppo_peers.own_place import PACKAGES, pinned, wanted
from ppo_rows.measure import Plan
assert wanted(Plan(1, True, with_peers=True), "CartPole", "JAX")
assert not wanted(Plan(1, True, with_peers=False), "CartPole", "JAX")
assert all("==" in package for packages in PACKAGES.values() for package in packages)
assert "==".join(pinned("jax").split()) in PACKAGES["jax"]  # the report names the version
"""
    done, figures = ask(text)
    assert done.returncode == 0, done.stderr
    reason = "JAX runs in an environment of its own. Type: mosaic bench --with-peers"
    assert figures == [{"what": "CartPole beside JAX", "skipped": reason, "package": ""}]
    assert reason in done.stdout
