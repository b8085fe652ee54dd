"""Commands in the documentation are executed, page by page and in their order, in a short form."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from mosaic.core.plugins import plugins
from tests.docs.not_executed import NOT_EXECUTED, is_covered
from tests.docs.page_kit import SERVERS, Beside, prepare
from tests.docs.pages import PAGES, commands, name_of
from tests.ui.conftest import mosaic as mosaic  # a fixture

ENGINE = shutil.which("godot3-server")
ACTIVATE = "source .venv/bin/activate"
PLUGIN = "pip install -e examples/plugin"
GODOT = re.compile(r"mosaic \w+ godot/")
# Examples that are programs: tests/docs/test_examples.py runs each of them.
PROGRAMS = re.compile(r"python examples/\w+\.py$")

BEFORE = {  # what a page takes for granted
    "README.md": ["mosaic train gym/CartPole-v1 --name first"],
    "demonstrations.md": ["mosaic serve"],
    "export.md": [
        "mosaic train mpe/simple_tag_v3 --name nightly --agent 'adversary_*=red' --set evaluation.every_steps=600",
        "mosaic train gym/CartPole-v1",
    ],
    "external.md": ["mosaic serve --allow-programs"],
    "sharing.md": ["mosaic train classic/tictactoe_v3"],
    "training.md": ["mosaic play classic/connect_four_v3 --agent '*=random' --seed 0 --record"],
}
# What stands for something of the reader's, and what it is here.
INSTEAD = {
    "export.md": {
        "exports delete ID": "exports delete latest",
        "runs/nightly/checkpoints/5000": "nightly-copy",
        "checkpoint:model.zip --algo tqc": "checkpoint:pendulum.zip --algo tqc",
    },
    "external.md": {"node bot.js": "python bot.py"},
    "llm.md": {"llm:MODEL": "llm:stub", "API_KEY=…": "API_KEY=secret"},
    "rllib.md": {"~/ray_results": "ray_results"},
    "training.md": {"replay EPISODE": "replay episode.json"},
}
BATCH = "training.params.train_batch_size_per_learner"
STEPS = {"tabular": 20_000, "rllib": 600, "sb3": 600, "native": 1_200}
LIMITS = {"train": "--steps", "tune": "--steps", "evaluate": "--episodes", "tournament": "--games"}
FEW = {"--episodes": "2", "--games": "1"}
MORE = {"demonstrations.md": {"--episodes": "12"}}  # it speaks of the third episode


def here(line):
    return line.startswith("mosaic ") and line not in NOT_EXECUTED


EXECUTED = {name_of(page): page for page in PAGES if any(here(line) for line in commands(page))}


def shortened(line, few=FEW):
    """Return the words of a command with few steps, episodes and games, and with a policy in the person's place."""
    words = [word.replace("=human", "=random") for word in shlex.split(line)[1:]]
    worker = words[words.index("--worker") + 1] if "--worker" in words else "native"
    option = LIMITS.get(words[0])
    if option and worker != "script":
        put(words, option, str(STEPS.get(worker, 1200)) if option == "--steps" else few[option])
    if words[0] == "tune":
        put(words, "--trials", "2")
    if worker == "rllib" and option == "--steps" and ("--algo" not in words or "ppo" in words):
        words += [] if BATCH in line else ["--set", f"{BATCH}=600"]  # an iteration has 4,000 steps
    if words[:2] == ["runs", "resume"] and "--steps" in words:
        put(words, "--steps", "20000")  # beyond a whole rollout
    if words[:2] == ["evaluate", "classic/chess_v6"]:
        put(words, "--max-steps", "6")
    return words


def put(words, option, value):
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]


class Page:
    """A page whose commands are executed in their order."""

    def __init__(self, name, mosaic, monkeypatch, stack):
        self.name, self._mosaic, self._patch, self._stack = name, mosaic, monkeypatch, stack
        self.beside = Beside(stack)

    def execute(self, line):
        for written, here_it_is in INSTEAD.get(self.name, {}).items():
            line = line.replace(written, here_it_is)
        if line.startswith("cd "):
            self._patch.chdir(line.removeprefix("cd "))
        elif line.startswith("export 'MOSAIC_"):
            self._patch.setenv(*shlex.split(line)[1].split("=", 1))
        elif line == ACTIVATE:  # of the environment of these tests
            command = f"{line.replace('.venv', sys.prefix)} && mosaic --version"
            subprocess.run(["bash", "-c", command], stdout=subprocess.DEVNULL, check=True)
        elif line == PLUGIN:
            self._install("examples/plugin")
        elif line.startswith(SERVERS):
            self.beside.start_server(line)
        elif line == "mosaic train external:5555":
            self._listening = self.beside.start_external_run(line)
        elif line.startswith("python examples/scripts/external_env.py"):
            self._play_in(line)
        elif line.startswith("mosaic "):
            self._ask(self.beside.replaced(line))
        else:
            raise AssertionError(f"This line is neither executed nor in tests/docs/not_executed.py: {line}")

    def _install(self, package):
        """Build and install a package of the copied examples, for this process and those it starts."""
        site = Path("site-packages").absolute()
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
        subprocess.run([*pip, package], check=True)
        self._patch.syspath_prepend(str(site))
        self._patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ['PYTHONPATH']}")
        plugins.cache_clear()
        self._stack.callback(plugins.cache_clear)
        self._stack.callback(sys.modules.pop, "mosaic_example", None)

    def _ask(self, line):
        words = shortened(line, FEW | MORE.get(self.name, {}))
        answer = self._mosaic(*words)
        assert answer.code == 0, f"{line}\n{shlex.join(words)}\n{answer.out[-2000:]}\n{answer.err[-2000:]}"

    def _play_in(self, line):
        """Let programs play, one after the other, until the run that listens has its steps."""
        command = [sys.executable, *shlex.split(self.beside.replaced(line))[1:]]
        programs = []

        def play():
            while self._listening.poll() is None:  # one that has waited a minute gives up
                programs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                programs[-1].wait()

        player = threading.Thread(target=play)
        player.start()
        said, _ = self._listening.communicate()
        for program in programs:
            program.kill()
        player.join()
        assert self._listening.returncode == 0, said


@pytest.mark.slow
@pytest.mark.timeout(1800)  # some pages have twenty commands, or searches with Ray
@pytest.mark.parametrize("name", EXECUTED)
def test_commands_do_what_the_page_says(name, mosaic, runs_here, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # as in its shell
    prepare(EXECUTED[name].read_text())
    with ExitStack() as stack:
        page = Page(name, mosaic, monkeypatch, stack)
        if name == "llm.md":
            page.beside.start_models()
        if name == "sharing.md":
            for variable, value in page.beside.start_hub().items():
                monkeypatch.setenv(variable, value)
        for line in BEFORE.get(name, []):
            page.execute(line)
        make_what_runs_left(name)
        lines, left_out = commands(EXECUTED[name]), without_engine(EXECUTED[name])
        for line in lines:
            if line not in NOT_EXECUTED and line not in left_out and not PROGRAMS.match(line):
                page.execute(line)
    if left_out:
        done = f"{len(lines) - len(left_out)} of {len(lines)} commands of {name} were executed"
        pytest.skip(f"no godot3-server: {done}; not executed: {'; '.join(left_out)}")


def without_engine(page):
    """Return the commands that need the Godot engine, where there is none: all of a page that trains in a game."""
    lines = commands(page)
    needing = [] if ENGINE else [line for line in lines if GODOT.match(line)]
    return lines if any(line.startswith("mosaic train") for line in needing) else needing


def make_what_runs_left(name):
    """Put the reader's own copies of what earlier commands wrote where the page says."""
    if name == "export.md":
        home = Path(os.environ["MOSAIC_HOME"])
        (newest, *_) = (path.parent for path in home.glob("runs/*/checkpoints/*/manifest.json") if "tag" in str(path))
        shutil.copytree(newest, "nightly-copy")
    if name == "training.md":
        (episode,) = Path.cwd().rglob("*episode*.json*")
        shutil.copy(episode, "episode.json")


def test_every_command_is_executed_or_says_why_not():
    known = (*SERVERS, ACTIVATE, PLUGIN, "mosaic ", "cd ", "export 'MOSAIC_", "python examples/scripts/external_env.py")
    lines = {(name_of(page), line) for page in PAGES for line in commands(page)}
    unknown = [each for each in lines if each[1] not in NOT_EXECUTED and not each[1].startswith(known)]
    assert [each for each in unknown if not PROGRAMS.match(each[1])] == []


def test_what_is_not_executed_is_in_the_documentation_and_covered():
    lines = {line for page in PAGES for line in commands(page)}
    assert NOT_EXECUTED.keys() - lines == set()
    assert [(line, place) for line, (_, place) in NOT_EXECUTED.items() if not is_covered(line, place)] == []
    assert {*BEFORE, *INSTEAD} <= EXECUTED.keys()
    assert [
        written for name, words in INSTEAD.items() for written in words if written not in EXECUTED[name].read_text()
    ] == []


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("make test-generic", "job:test"),
        ("make test", "job:tests"),
        ("make test-docs", "job:test"),
        ("make check", "job:test"),
        ("make test-all", "job:test"),
        ("mosaic tui", "tests/ui/tui/test_terminal.py::test_nothing"),
        ("mosaic tui", "tests/ui/tui"),
    ],
)
def test_a_command_that_nothing_covers_is_noticed(line, place):
    assert not is_covered(line, place)


def test_nearly_all_commands_are_executed():
    lines = {line for page in PAGES for line in commands(page) if line.startswith("mosaic ")}
    assert len([line for line in lines if here(line)]) > 0.9 * len(lines)
