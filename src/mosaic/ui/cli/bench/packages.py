"""Packages of the benchmarks: what pyproject.toml names for them, what of it is missing, and its installation."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

OWN_PLACES = "own"  # folders of peers that run in environments of their own
EVERYTHING, TOOLS = "all", "dev"  # extras
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?")


def needed(root: Path) -> list[str]:
    """Return the requirements of every feature of Mosaic, and of the development tools those that benchmarks import.

    A row needs more than what it imports itself: the env behind an id, the files behind `onnx:`, an MPI. So the extras
    are installed as a whole, and names of imports need not be names of packages.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    imported = {name.lower().replace("_", "-") for name in foreign_imports(root / "benchmarks")}
    tools = [each for each in extras[TOOLS] if _parts(each)[0].lower() in imported]
    return list(dict.fromkeys([*project["dependencies"], *_flat(project["name"], extras, [EVERYTHING]), *tools]))


def names(root: Path) -> list[str]:
    """Return the names of the needed packages."""
    return [_parts(each)[0] for each in needed(root)]


def missing(root: Path) -> list[str]:
    """Return the needed requirements that are not installed, or not with the extras that they name."""
    return [each for each in needed(root) if not _is_installed(each)]


def foreign_imports(folder: Path) -> set[str]:
    """Return the packages, by import name, that benchmarks and peers import into our environment."""
    files = [path for path in folder.rglob("*.py") if OWN_PLACES not in path.relative_to(folder).parts]
    imported = set[str]()
    for node in (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        imported |= {name.partition(".")[0] for name in names}
    return imported - own_modules(folder) - set(sys.stdlib_module_names)


def own_modules(folder: Path) -> set[str]:
    """Return the names by which benchmarks import Mosaic and each other: without one of them, the tree is broken."""
    return {"mosaic", *(path.stem for path in [*folder.iterdir(), *folder.glob("*/*.py")])}


def install(root: Path, requirements: list[str]) -> None:
    """Install packages beside ours, in the versions that the repository is tested with."""
    import shlex
    import subprocess

    from mosaic.core.child_process import module_command
    from mosaic.core.errors import MosaicError

    limits = ["-c", str(root / "constraints.txt")]
    command = module_command("pip", "install", "-q", "--disable-pip-version-check", *limits, *requirements)
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise MosaicError(f"{shlex.join(command)} failed: {said[-1] if said else ended.returncode}")
    invalidate_caches()


def _flat(project: str, extras: Mapping[str, list[str]], names: Iterable[str]) -> Iterator[str]:
    """Yield the requirements of extras; an extra may name others as `project[name,…]`."""
    for requirement in (requirement for name in names for requirement in extras[name]):
        package, others = _parts(requirement)
        if package == project:
            yield from _flat(project, extras, others)
        else:
            yield requirement


def _parts(requirement: str) -> tuple[str, list[str]]:
    """Return the name and the extras of a requirement."""
    found = _REQUIREMENT.match(requirement)
    assert found is not None, requirement
    return found[1], [extra.strip() for extra in (found[2] or "").split(",") if extra.strip()]


def _is_installed(requirement: str) -> bool:
    name, extras = _parts(requirement)
    try:
        declared = distribution(name).requires or []
    except PackageNotFoundError:
        return False
    marked = [each.replace("'", '"').partition(";") for each in declared]
    wanted = [each.strip() for each, _, marker in marked for extra in extras if marker.strip() == f'extra == "{extra}"']
    return all(_is_installed(each) for each in wanted)
