"""Public names: what they are, how they load, and that documents and examples use nothing else."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mosaic
import mosaic.testing

ROOT = Path(__file__).parents[1]
PUBLIC = ("mosaic", "mosaic.plugins", "mosaic.testing")
_INTERNAL = {"decisions", "reference"}  # folders of pages that say where things are
DOCUMENTS = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "deploy" / "README.md"]
    if page.name != "CHANGELOG.md" and page.parent.name not in _INTERNAL
)
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
HEAVY = "numpy gymnasium pettingzoo pydantic torch ray numba scipy pygame nicegui typer rich"
GROUPS = {"mosaic.envs", "mosaic.policies", "mosaic.workers", "mosaic.sinks"}  # of entry points, named in documents


def names_of(module: str) -> set[str]:
    return {*importlib.import_module(module).__all__, "__version__"}


def public(dotted: str) -> bool:
    """Whether `mosaic.testing.check_env` and the like are public: a module, or a name of one and its attributes."""
    for module in sorted(PUBLIC, key=len, reverse=True):
        if dotted == module:
            return True
        if dotted.startswith(f"{module}."):
            return dotted.removeprefix(f"{module}.").split(".")[0] in names_of(module)
    return False


def used(source: str) -> set[str]:
    """Return every dotted name below `mosaic` that the code imports or spells out."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return {name for name in found if re.fullmatch(r"mosaic(\.\w+)*", name)}


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_use_public_names_only(path):
    assert [name for name in used(path.read_text()) if not public(name)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_use_public_names_only(path):
    text = path.read_text()
    found = set().union(*(used(block) for block in blocks(text)))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found |= {
        name
        for code in re.findall(r"`([^`]+)`", prose)
        for name in re.findall(r"\bmosaic(?!\.toml\b|\.service\b)(?:\.\w+)+", code)
    }
    assert sorted(name for name in found - GROUPS if not public(name)) == []


def test_the_check_sees_internal_names():
    assert not public("mosaic.envs.catalog.make_env")
    assert not public("mosaic.plugins.nothing")
    assert public("mosaic.testing.check_env")
    code = "from mosaic.envs.env import Env\nimport mosaic.store.store\nmosaic.runs.train.train()"
    assert sorted(name for name in used(code) if not public(name)) == [
        "mosaic.envs.env.Env",
        "mosaic.runs",
        "mosaic.runs.train",
        "mosaic.runs.train.train",
        "mosaic.store.store",
    ]
    assert sum(len(blocks(path.read_text())) for path in DOCUMENTS) >= 8


@pytest.mark.parametrize("module", PUBLIC)
def test_type_checkers_see_what_is_loaded(module):
    """The names below `if TYPE_CHECKING` are those of `__all__`, from the same places as when the program runs."""
    loaded = importlib.import_module(module)
    tree = ast.parse(Path(loaded.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: node.module for node in typed.body for alias in node.names}
    assert sorted(homes) == sorted(loaded.__all__)
    for name, home in homes.items():
        expected = (
            importlib.import_module(f"{home}.{name}") if home == "mosaic" else vars(importlib.import_module(home))[name]
        )
        assert getattr(loaded, name) is expected
    assert set(loaded.__all__) <= set(dir(loaded))


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_documented(module):
    loaded = importlib.import_module(module)
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    for name in loaded.__all__:
        assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", text), f"{module}.{name} is in no document"
        thing = getattr(loaded, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):  # type aliases have no docstring
            said = thing.__doc__ or ""
            assert thing in (str, Any) or (said and not said.startswith(f"{name}(")), (
                f"{module}.{name} has no docstring"
            )


def test_a_misspelt_name_is_answered_with_the_nearest():
    import mosaic

    with pytest.raises(AttributeError, match=r"module 'mosaic' has no attribute 'evalute'. Did you mean 'evaluate'\?"):
        mosaic.evalute  # noqa: B018
    with pytest.raises(ImportError):
        from mosaic.plugins import Nothing  # noqa: F401


def test_importing_the_public_modules_loads_nothing_heavy():
    code = f"import sys, mosaic, mosaic.plugins, mosaic.testing; print(*set('{HEAVY}'.split()) & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mosaic.train("gym/CartPole-v1", total_timestep=5),
            "train() has no argument 'total_timestep'. Did you mean 'total_timesteps'? Known: agents, algorithm, ",
        ),
        (
            lambda: mosaic.evaluate("gym/CartPole-v1", {"*": "random"}, max_step=5),
            "evaluate() has no argument 'max_step'. Did you mean 'max_steps'? Known: camera, episodes, max_steps, ",
        ),
        (
            lambda: mosaic.tournament("classic/tictactoe_v3", ["random", "minimax"], game=1),
            "tournament() has no argument 'game'. Did you mean 'games'? Known: games, max_steps, ",
        ),
        (
            lambda: mosaic.testing.check_worker("toy", None, patience=1),
            "check_worker() has no argument 'patience'. Did you mean 'patience_s'? Known: crowd, environments, home, ",
        ),
    ],
)
def test_a_misspelt_argument_is_named_with_the_nearest(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(message)
