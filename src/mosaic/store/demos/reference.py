"""References to datasets: `demo:NAME[/AGENT]`, `minari:ID` and folders, as learners name them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mosaic.core.errors import InputError, nearest, notify, unknown
from mosaic.core.ids import AgentID
from mosaic.core.reference import split_reference
from mosaic.runners.steps import Steps, flatten
from mosaic.runners.trajectories import Trajectory
from mosaic.store.demos.dataset import AgentDataset, read_dataset, require_minari
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.recording import recover

FORMS = "demo:NAME (or demo:NAME/AGENT), minari:ID, or the folder of a Minari dataset"


def datasets_of(reference: str, home: Path | None = None) -> list[AgentDataset]:
    """Return the datasets that a reference names: of each agent of a demonstration, or one."""
    kind, name = split_reference(reference)
    match kind:
        case "demo" if name:
            return _of_demonstration(name, home)
        case "minari" if name:
            return [read_dataset(minari_folder(name))]
    if Path(reference).is_dir():
        return [read_dataset(Path(reference))]
    raise InputError(f"'{reference}' is not a dataset. Name {FORMS}.")


def load_trajectories(
    reference: str, agents: Collection[AgentID] | None = None, home: Path | None = None
) -> list[Trajectory]:
    """Return the trajectories of these agents, of all if None, in the order in which they were recorded."""
    found = datasets_of(reference, home)
    if agents is not None:
        known = [dataset.agent for dataset in found]
        for agent in agents:
            if agent not in known:
                raise unknown(f"agent in {reference}", agent, known)
        found = [dataset for dataset in found if dataset.agent in agents]
    return [trajectory for dataset in found for _, trajectory in dataset.trajectories()]


def load_demo(reference: str, agents: Collection[AgentID] | None = None, home: Path | None = None) -> Steps:
    """Return the steps of these agents, of all if None, as flat arrays; their spaces must be equal."""
    return flatten(load_trajectories(reference, agents, home))


def minari_folder(name: str) -> Path:
    """Return the folder of a dataset of Minari's own store; raise InputError if this machine does not have it."""
    require_minari()
    import minari
    from minari.storage import get_dataset_path

    known = sorted(minari.list_local_datasets())
    if name not in known:
        near = nearest(name, known)
        hint = f" Did you mean 'minari:{near}'?" if near else ""
        raise InputError(
            f"There is no Minari dataset named '{name}' on this machine.{hint} "
            f"Here: {', '.join(known) or 'none'}. Type: minari download {name}"
        )
    return Path(get_dataset_path(name))


def _of_demonstration(name: str, home: Path | None) -> list[AgentDataset]:
    name, _, agent = name.partition("/")
    store = Demonstrations(home)
    for problem in recover(store):
        notify(problem)
    found = store.open(name).datasets()
    if agent and agent not in found:
        raise unknown(f"agent in the demonstration '{name}'", agent, found)
    return [found[agent]] if agent else list(found.values())
