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

from tests.docs.page_kit import SERVERS, Beside, prepare
from tests.docs.pages import PAGES, ROOT, commands
from tests.ui.conftest import mosaic as mosaic  # a fixture

# Commands that cannot be executed here: their starts, why not, and the test or job that covers them.
NOT_HERE = {
    "make demo": ("installs Mosaic, then opens a board for a person", "tests/ui/cli/test_cli_foundation.py"),
    "make setup": ("installs Mosaic: the first step of CI itself", ".github/workflows/test.yml"),
    "make test": ("is CI itself", ".github/workflows/test.yml"),
    "make bench-smoke": ("two minutes of measurements: a part of make test", "Makefile"),
    "source .venv": ("changes the reader's shell", "Makefile"),
    "pip install": ("installs packages", "tests/docs/test_packaging.py"),
    "ray start": ("needs a second machine", "examples/ray_cluster.py"),
    "export 'RAY_AUTH": ("belongs to a cluster of several machines", "tests/docs/test_deployment.py"),
    "export RAY_AUTH": ("belongs to a cluster of several machines", "examples/ray_cluster.py"),
    "docker compose": ("needs Docker", "tests/docs/test_deployment.py"),
    "kubectl": ("needs a Kubernetes cluster", "tests/docs/test_deployment.py"),
    "helm": ("needs a Kubernetes cluster", "tests/docs/test_deployment.py"),
    "ray up": ("rents machines", "tests/docs/test_deployment.py"),
    "ray exec": ("needs those machines", "tests/docs/test_deployment.py"),
    "ray down": ("needs those machines", "tests/docs/test_deployment.py"),
    "mosaic train ENV --worker rllib --num-env-runners 16": ("needs a cluster", "examples/ray_cluster.py"),
    "mosaic runs list --server ssh://": ("needs another machine", "tests/server/test_ssh.py"),
    "mosaic bench ppo": ("measures for many minutes", "tests/ui/cli/test_bench_command.py"),
    "mosaic bench --quick": ("measures for many minutes", "tests/ui/cli/test_bench_command.py"),
    "mosaic bench --with-peers": ("installs packages", "tests/ui/cli/test_bench_command.py"),
    "mosaic tui": ("needs a terminal and a person", "tests/ui/tui"),
    "mosaic demos import minari:D4RL": ("downloads a dataset", "tests/store/demos"),
    "mosaic train gym/CartPole-v1 --worker rllib --algo bc --steps 1000000": (
        "downloads a dataset",
        "tests/workers/rllib",
    ),
    "mosaic train ENV --algo dagger --set training.params.expert=human": (
        "waits until a person has played",
        "tests/learners/bc/test_dagger.py",
    ),
    "mosaic play ENV --agent A=human --demo NAME": (
        "belongs to the run that waits for a person",
        "tests/learners/bc/test_dagger.py",
    ),
    "mosaic train external:5555 --set environment.options.env=classic/tictactoe_v3 --agent player_2=human": (
        "waits until a person has played",
        "tests/server/test_external.py",
    ),
    "python examples/scripts/play_while_training.py": ("waits for a person's moves", "tests/server/test_external.py"),
    "mosaic watch evaluate": ("needs an evaluation that another terminal plays", "tests/ui/cli/test_watching.py"),
    "mosaic watch latest --source": ("needs a run that is still training", "tests/ui/cli/test_watching.py"),
    "mosaic watch latest --env": ("needs a run that is still training", "tests/ui/cli/test_watching.py"),
    "mosaic runs stop latest": ("needs a run that is still training", "tests/ui/cli/test_cli_runs.py"),
    "mosaic exports cancel latest": ("needs an export that has not ended", "tests/exports/test_jobs.py"),
}
if not shutil.which("godot3-server"):
    NOT_HERE |= {f"mosaic {verb} godot/": ("needs the engine", "tests/godot") for verb in ("check", "train", "play")}
    NOT_HERE |= {"mosaic evaluate godot/": ("needs the engine", "tests/godot")}
WHOLE = {"mosaic bench": ("measures for hours", "tests/ui/cli/test_bench_command.py")}  # not the start of another
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
    "rllib.md": ["mosaic train gym/CartPole-v1 --name teacher"],
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


def why_not(line):
    """Return why a command is not executed here and where it is; None if it is executed."""
    if line in WHOLE:
        return WHOLE[line]
    return next((reason for start, reason in NOT_HERE.items() if line.startswith(start)), None)


def name_of(page):
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def here(line):
    return line.startswith("mosaic ") and why_not(line) is None


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
        self.name, self._mosaic, self._patch = name, mosaic, monkeypatch
        self.beside = Beside(stack)

    def execute(self, line):
        for written, here_it_is in INSTEAD.get(self.name, {}).items():
            line = line.replace(written, here_it_is)
        if line.startswith("cd "):
            self._patch.chdir(line.removeprefix("cd "))
        elif line.startswith("export 'MOSAIC_"):
            self._patch.setenv(*shlex.split(line)[1].split("=", 1))
        elif line.startswith(SERVERS):
            self.beside.start_server(line)
        elif line == "mosaic train external:5555":
            self._listening = self.beside.start_external_run(line)
        elif line.startswith("python examples/scripts/external_env.py"):
            self._play_in(line)
        elif line.startswith("mosaic "):
            self._ask(self.beside.replaced(line))
        else:
            raise AssertionError(f"This line is neither executed nor named in NOT_HERE: {line}")

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
        for line in commands(EXECUTED[name]):
            if why_not(line) is None and not PROGRAMS.match(line):
                page.execute(line)


def make_what_runs_left(name):
    """Put the reader's own copies of what earlier commands wrote where the page says."""
    if name == "export.md":
        home = Path(os.environ["MOSAIC_HOME"])
        (newest, *_) = (path.parent for path in home.glob("runs/*/checkpoints/*/manifest.json") if "tag" in str(path))
        shutil.copytree(newest, "nightly-copy")
    if name == "training.md":
        (episode,) = Path.cwd().rglob("*episode*.json*")
        shutil.copy(episode, "episode.json")


# Blocks of Python that need nothing else: the page, and which of its blocks.
CODE = [
    ("README.md", 0),
    ("demonstrations.md", 0),
    ("imitation.md", 0),
    ("python.md", 2),
    ("tabular.md", 0),
    ("training.md", 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), CODE)
def test_python_does_what_the_page_says(name, number, mosaic, runs_here):
    import mosaic as package

    if "demo:games" in (text := next(page for page in PAGES if name_of(page) == name).read_text()):
        recorder = package.record_demo("games")
        package.evaluate("classic/tictactoe_v3", {"*": "random"}, episodes=20, recorder=recorder)
    block = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[number]
    names = {"mosaic": package, "__name__": "page"}
    exec(compile(block, name, "exec"), names)
    assert len(names) > 3


def test_every_command_is_executed_or_says_why_not():
    known = (*SERVERS, "mosaic ", "cd ", "export 'MOSAIC_", "python examples/scripts/external_env.py")
    lines = {(name_of(page), line) for page in PAGES for line in commands(page)}
    unknown = [line for line in lines if not (line[1].startswith(known) or why_not(line[1]) or PROGRAMS.match(line[1]))]
    assert unknown == []


def test_what_is_not_executed_is_still_in_the_documentation():
    lines = [line for page in PAGES for line in commands(page)]
    assert [start for start in {**NOT_HERE, **WHOLE} if not any(line.startswith(start) for line in lines)] == []
    places = {place for _, place in [*NOT_HERE.values(), *WHOLE.values()]}
    assert [place for place in places if not (ROOT / place).exists()] == []
    assert {*BEFORE, *INSTEAD} <= EXECUTED.keys()
    assert [
        written for name, words in INSTEAD.items() for written in words if written not in EXECUTED[name].read_text()
    ] == []


def test_nearly_all_commands_are_executed():
    lines = {line for page in PAGES for line in commands(page) if line.startswith("mosaic ")}
    assert len([line for line in lines if here(line)]) > 0.9 * len(lines)
