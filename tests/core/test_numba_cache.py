"""Machine code never outlives the source it was made from."""

import ast
import fcntl
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import numba
import numpy as np
import pytest
from numba import types

from mosaic.core import inner_code
from mosaic.core import numba_cache as compiled
from mosaic.core.numba_cache import cache_folder, cfunc, fingerprint, function_at, njit

MARKED = "from mosaic.core.numba_cache import njit\n"
ALSO_MARKED = "from mosaic.core.numba_cache import cfunc, njit\n"
SAID = f"{compiled.USED}\n"


@pytest.mark.parametrize("marked", [MARKED, ALSO_MARKED, SAID])
def test_a_change_in_any_compiled_file_is_a_new_cache(tmp_path, marked):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(marked)
    (tmp_path / "other.py").write_text("x = 1\n")
    before = fingerprint(tmp_path)
    (tmp_path / "other.py").write_text("x = 2\n")
    assert fingerprint(tmp_path) == before  # code that is not compiled does not count
    (tmp_path / "b.py").write_text(marked + "y = 1\n")
    assert fingerprint(tmp_path) != before


def test_ours_is_cached_there_and_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    setting = numba.config.CACHE_DIR

    @njit(cache=True)
    def one(x):
        return x + 1

    assert one(1) == 2
    assert setting == numba.config.CACHE_DIR
    assert list(tmp_path.rglob("*.nbc"))


def test_the_same_code_in_another_place_is_not_compiled_again(tmp_path):
    """A second environment, a second checkout; other files keep their place."""
    for place in ("first", "second"):
        shutil.copytree(compiled.SOURCES / "core", tmp_path / place / "mosaic" / "core", ignore=NOT_SOURCES)
        (tmp_path / place / "mosaic" / "__init__.py").touch()
        (tmp_path / place / "mosaic" / "doubling.py").write_text(DOUBLING)

    def hits(place):
        words = [sys.executable, "-c", "from mosaic.doubling import hits; print(hits())"]
        known = os.environ | {"PYTHONPATH": str(tmp_path / place), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(words, capture_output=True, text=True, check=True, env=known).stdout.strip()

    assert [hits("first"), hits("second")] == ["0", "1"]
    assert compiled.SourceLocator.get_suitable_cache_subpath("/a/game.py") != "a"


NOT_SOURCES = shutil.ignore_patterns("__pycache__")
DOUBLING = """
from mosaic.core.numba_cache import njit

@njit(cache=True)
def double(x):
    return 2 * x

def hits():
    assert double(2) == 4
    return sum(double.stats.cache_hits.values())
"""


WAITING = """
import sys
from mosaic.core.compile_time import timer
from mosaic.doubling import hits

def begin():
    print("begins", flush=True)
    sys.stdin.readline()

timer.on_first = begin
print(hits(), timer.current())
"""


def test_processes_that_need_a_function_at_the_same_time_compile_it_once(tmp_path):
    package = tmp_path / "mosaic"
    shutil.copytree(compiled.SOURCES / "core", package / "core", ignore=NOT_SOURCES)
    (package / "__init__.py").touch()
    (package / "doubling.py").write_text(DOUBLING)
    known = os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-c", WAITING]
    with ExitStack() as ended:
        both = [
            ended.enter_context(subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True, env=known))
            for _ in range(2)
        ]
        assert [process.stdout.readline() for process in both] == ["begins\n"] * 2  # one compiles, one waits for it
        for process in both:
            print(file=process.stdin, flush=True)
        said = {process.communicate()[0] for process in both}
    assert said == {"0 None\n", "1 None\n"}


def test_a_process_that_never_ends_its_compilation_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compiled, "WAIT_FOR_OTHERS_S", 0.01)

    @njit(cache=True)
    def one(x):
        return x + 1

    with one._cache.lock_file().open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert one(1) == 2


def test_a_function_that_cannot_be_compiled_keeps_no_other_process_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)

    @njit(cache=True)
    def wrong(x):
        return x.nothing_of_this_name

    with pytest.raises(numba.TypingError):
        wrong(1)
    [lock] = tmp_path.rglob("*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.skipif(not inner_code.TESTED, reason="this version of numba compiles as it does by itself")
def test_what_only_compiled_code_calls_is_kept_without_machine_code(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)

    @njit(cache=True)
    def total(numbers):
        if numbers.shape[0] == 0:
            raise ValueError("there are no numbers")
        return numbers.sum()

    @njit(cache=True)
    def twice(numbers):
        return 2 * total(numbers)

    def with_machine_code():
        return {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc") if b"\x7fELF" in path.read_bytes()}

    assert twice(np.arange(3.0)) == 6
    assert not total.signatures
    assert len(list(tmp_path.rglob("*.nbc"))) == 2
    (only,) = with_machine_code()
    assert only.endswith("twice")
    with pytest.raises(ValueError, match="there are no numbers"):
        twice(np.zeros(0))
    assert total(np.arange(3.0)) == 3
    assert {name.rpartition(".")[2] for name in with_machine_code()} == {"twice", "total"}


def test_pointers_are_cached_there_too_and_can_be_called_by_compiled_code(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    setting = numba.config.CACHE_DIR

    @cfunc("void(float64[::1])", cache=True, nopython=True)
    def double(x):
        x *= 2

    pointed = function_at(types.void(types.float64[::1]))

    @numba.njit
    def call(function, address, x):
        function(x)
        pointed(address)(x)

    numbers = np.arange(3.0)
    call(double, double.address, numbers)
    assert numbers.tolist() == [0, 4, 8]
    assert setting == numba.config.CACHE_DIR
    assert list(tmp_path.rglob("*.nbc"))


def test_a_start_that_compiles_nothing_loads_nothing_that_compiles(tmp_path):
    """Cached code is called, alone and by what is compiled later."""
    script = tmp_path / "start.py"
    script.write_text(START)

    def start():
        words = [sys.executable, str(script), str(tmp_path)]
        return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    first, second = start(), start()
    assert first == {"answers": [6.0, 10.0], "compilers": True, "hits": [0, 0], "later": 20.0}
    assert second == {"answers": [6.0, 10.0], "compilers": False, "hits": [1, 1], "later": 20.0}


START = """
import json, sys
from pathlib import Path
import numba, numpy as np
from numba import types
from mosaic.core import numba_cache
from mosaic.core.numba_cache import cfunc, njit
numba_cache.cache_folder = lambda: Path(sys.argv[1]) / "cache"

@cfunc(types.float64(types.float64), cache=True, nopython=True)
def double(x):
    return 2 * x

@njit(cache=True)
def total(numbers, function):
    return function((numbers @ numbers + numbers.copy().sum()) / 2)

numbers = np.arange(3.0)
answers = [double.ctypes(3.0), 2 + total(numbers, double)]
compilers = "numba.np.polynomial.polynomial_core" in sys.modules

@numba.njit
def later(numbers, function):
    return 2.5 * total(numbers, function)

hits = [double.cache_hits, sum(total.stats.cache_hits.values())]
print(json.dumps({"answers": answers, "compilers": compilers, "hits": hits, "later": later(numbers, double)}))
"""


def test_a_compiled_function_calls_its_own_copies():
    """Copies that other functions could replace would round as it suits those."""

    @njit(error_model="numpy", fastmath=True)
    def shared(numbers, depth):
        return np.float32(0) if depth == 0 else numbers[depth] + shared(numbers, depth - 1)

    @njit(error_model="numpy", fastmath=True)
    def caller(numbers):
        return shared(numbers, numbers.shape[0] - 1)

    assert caller(np.ones(8, np.float32)) == 7
    (code,) = caller.inspect_llvm().values()
    definitions = [line for line in code.splitlines() if line.startswith("define") and "shared" in line]
    assert definitions
    assert all("internal" in line for line in definitions)


def test_every_compiled_file_uses_it():
    sources = Path(compiled.__file__).parent.parent
    words = ("from numba import njit", "numba.njit(", "from numba import cfunc", "numba.cfunc(")
    bare = [path for path in sources.rglob("*.py") if any(word in path.read_text() for word in words)]
    assert bare == [Path(compiled.__file__)]
    assert cache_folder().name.startswith("compiled-")


def test_files_that_compiled_code_takes_from_are_part_of_the_fingerprint():
    """Functions, constants and tuple types of a file without the decorators are in machine code as they were."""
    sources = Path(compiled.__file__).parent.parent
    hashed = set(compiled.compiled_files(sources))
    taken = {file for path in hashed for file in _taken_from(path, sources)}
    assert taken - hashed == set(), f"write {compiled.USED!r} into these files"
    assert sources / "envs/compiled/board_games/connect_four_bits.py" in taken & hashed


def _taken_from(path, sources):
    """Return the files of Mosaic whose names are used by the compiled functions and tuple types of a file."""
    tree = ast.parse(path.read_text())
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mosaic"):
            for name in node.names:
                inside = _file_of(f"{node.module}.{name.name}", sources)
                imported[name.asname or name.name] = (inside or _file_of(node.module, sources), name.name)
    used, annotated = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_compiles(each) for each in node.decorator_list):
            used |= {name for part in node.body for name in _names(part)}
            annotated |= _names(node.args)
        elif isinstance(node, ast.Call) and _compiles(node.func):
            used |= {name for argument in node.args for name in _names(argument)}
        elif isinstance(node, ast.ClassDef) and "NamedTuple" in _names(ast.Tuple(node.bases)):
            annotated |= {name for part in node.body if isinstance(part, ast.AnnAssign) for name in _names(part)}
    for node in reversed(tree.body):  # constants may be derived from others
        if isinstance(node, ast.Assign) and used & {name for target in node.targets for name in _names(target)}:
            used |= _names(node.value)
    files = {imported[name][0] for name in used & imported.keys()}
    tuples = {imported[name] for name in annotated & imported.keys()}
    return files | {file for file, name in tuples if f"class {name}(NamedTuple" in file.read_text()}


def _compiles(node):
    """Recognise `njit`, `njit(…)`, and names such as `_compiled` that stand for them."""
    return bool(_names(node) & {"njit", "cfunc", "_compiled"}) and not isinstance(node, ast.Attribute)


def _names(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _file_of(module, sources):
    found = sources.parent / module.replace(".", "/")
    return next((file for file in (found.with_suffix(".py"), found / "__init__.py") if file.is_file()), None)
