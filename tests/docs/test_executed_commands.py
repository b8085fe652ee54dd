"""Commands in the documentation are executed, page by page and in their order, in a short form."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, commands
from tests.ui.conftest import mosaic as mosaic  # a fixture

# Commands that need another process, machine or person: their starts, and the tests that cover them.
NOT_HERE = {
    "mosaic bench": "tests/ui/cli/test_bench_command.py",
    "mosaic check godot/": "tests/godot",
    "mosaic demos import minari:": "tests/store/demos",
    "mosaic evaluate classic/tictactoe_v3 --agent '*=http": "tests/server/policy",
    "mosaic evaluate classic/tictactoe_v3 --agent 'player_1=process:": "tests/policies/test_process_policy.py",
    "mosaic evaluate godot/": "tests/godot",
    "mosaic evaluate mpe/simple_tag_v3 --agent 'adversary_*=checkpoint:": "tests/workers/rllib",
    "mosaic export checkpoint:": "tests/exports/test_foreign_export.py",
    "mosaic export nightly": "tests/exports/test_export.py",
    "mosaic exports": "tests/exports/test_jobs.py",
    "mosaic mcp --http": "tests/server/test_mcp.py",
    "mosaic play classic/tictactoe_v3 --agent player_1=human --agent 'player_2=process:": "tests/policies",
    "mosaic play classic/tictactoe_v3 --agent player_1=human --agent player_2=bundle:": "tests/exports/hub",
    "mosaic play classic/tictactoe_v3 --agent player_1=human --agent player_2=http": "tests/server/policy",
    "mosaic play godot/": "tests/godot",
    "mosaic play gym/CartPole-v1 --agent '*=checkpoint:": "tests/workers/rllib",
    "mosaic policy-server": "tests/server/policy",
    "mosaic pull": "tests/exports/hub",
    "mosaic push": "tests/exports/hub",
    "mosaic runs list --server ssh://gpu-box": "tests/server",
    "mosaic runs stop": "tests/ui/cli/test_cli_runs.py",
    "mosaic serve": "tests/server/test_serving.py",
    "mosaic train classic/tictactoe_v3 --agent 'player_2=process:": "tests/policies/test_process_policy.py",
    "mosaic train classic/tictactoe_v3 --agent player_2=http": "tests/server/policy",
    "mosaic train external:": "tests/server/test_external.py",
    "mosaic train godot/": "tests/godot",
    "mosaic train gym/CartPole-v1 --worker rllib --algo bc": "tests/workers/rllib",
    "mosaic train gym/CartPole-v1 --worker toy --server": "tests/server/test_serving.py",
    "mosaic tui": "tests/ui/tui",
    "mosaic watch": "tests/ui/cli/test_watching.py",
}
PLACEHOLDER = re.compile(r"(?:^|[ =/])(?:ENV|HOST|FIRST|EPISODE|ID|NAME|MODEL|A)(?=$|[ =:/])")
# Pages whose commands ask language models over the network: tests/policies/llm has models of its own.
OTHERS_MODELS = {"llm.md"}
BEFORE = {  # what a page takes for granted
    "export.md": ["mosaic train gym/CartPole-v1"],
    "rllib.md": ["mosaic train gym/CartPole-v1 --name teacher"],
    "sharing.md": ["mosaic train classic/tictactoe_v3"],
}
STEPS = {"tabular": 20_000, "rllib": 600, "sb3": 600, "native": 1_200}
LIMITS = {"train": "--steps", "tune": "--steps", "evaluate": "--episodes", "tournament": "--games"}
FEW = {"--episodes": "2", "--games": "1"}
MORE = {"demonstrations.md": {"--episodes": "12"}}  # it speaks of the third episode


def here(line):
    """Return whether a line is a command of ours that this process can execute."""
    known = line.startswith("mosaic ") and not any(line.startswith(start) for start in NOT_HERE)
    return known and not PLACEHOLDER.search(line)


def name_of(page):
    return str(page.relative_to(ROOT)).removeprefix("docs/")


EXECUTED = {
    name_of(page): page
    for page in PAGES
    if name_of(page) not in OTHERS_MODELS and any(here(line) for line in commands(page))
}


def shortened(line, few=FEW):
    """Return the words of a command with few steps, episodes and games, and with a policy in the person's place."""
    words = [word.replace("=human", "=random") for word in shlex.split(line)[1:]]
    worker = words[words.index("--worker") + 1] if "--worker" in words else "native"
    option = LIMITS.get(words[0])
    if option and worker != "script":
        put(words, option, str(STEPS.get(worker, 1200)) if option == "--steps" else few[option])
    if words[0] == "tune":
        put(words, "--trials", "2")
    if words[:2] == ["runs", "resume"] and "--steps" in words:
        put(words, "--steps", "20000")  # beyond a whole rollout
    return words


def put(words, option, value):
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]


def prepare(text):
    """Write the files that a page shows or names."""
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
    if "my_envs:Corridor" in text:
        Path("my_envs.py").write_text(text.partition("```python\n")[2].partition("```")[0])
    if "sb3:model.zip" in text:
        from sb3_contrib import TQC
        from stable_baselines3 import PPO

        PPO("MlpPolicy", "CartPole-v1", device="cpu").save("model.zip")
        TQC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10).save("pendulum.zip")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # some pages have twenty commands, or searches with Ray
@pytest.mark.parametrize("name", EXECUTED)
def test_commands_do_what_the_page_says(name, mosaic, runs_here, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # as in its shell
    prepare(EXECUTED[name].read_text())
    for line in [*BEFORE.get(name, []), *commands(EXECUTED[name])]:
        if line.startswith("cd "):
            monkeypatch.chdir(line.removeprefix("cd "))
        if here(line):
            words = shortened(line, FEW | MORE.get(name, {}))
            answer = mosaic(*words)
            assert answer.code == 0, f"{line}\n{shlex.join(words)}\n{answer.out[-2000:]}\n{answer.err[-2000:]}"


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


def test_what_is_not_executed_is_still_in_the_documentation():
    lines = [line for page in PAGES for line in commands(page)]
    assert [start for start in NOT_HERE if not any(line.startswith(start) for line in lines)] == []
    assert [place for place in {*NOT_HERE.values()} if not (ROOT / place).exists()] == []
    assert BEFORE.keys() <= EXECUTED.keys()


def test_most_commands_are_executed():
    lines = {line for page in PAGES for line in commands(page) if line.startswith("mosaic ")}
    assert len([line for line in lines if here(line)]) > 0.6 * len(lines)
