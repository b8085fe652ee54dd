"""Rows and details of demonstrations, as command line, HTTP API and web app show them."""

from __future__ import annotations

from collections import Counter, defaultdict

from pydantic import Field

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.spaces import describe_space
from mosaic.store.demos.dataset import Outline
from mosaic.store.demos.demonstration import Demonstration, Demonstrations, env_text
from mosaic.store.demos.recording import recover
from mosaic.store.views import ReadModel


class DemoRow(ReadModel):
    """A demonstration in a list."""

    name: str
    env: str | None = Field(description="Env in which it was recorded; null: not known.")
    agents: list[AgentID]
    episodes: int
    agent_steps: int
    bytes: int
    created: float = Field(description="Seconds since 1970.")
    problem: str = Field("", description="Why it cannot be read.")


class DemoAgent(ReadModel):
    """One agent's dataset."""

    agent: AgentID
    dataset_id: str = Field(description="Id of the Minari dataset.")
    episodes: int
    steps: int
    observation: str
    action: str
    controllers: dict[PolicyID, int] = Field(description="Policy → number of steps in which it acted.")
    return_mean: float
    return_min: float
    return_max: float


class DemoEpisodeRow(ReadModel):
    """One episode."""

    number: int
    seed: int | None
    env_steps: int = Field(description="Of the recorded episode; trimmed steps count.")
    agent_steps: int
    returns: dict[AgentID, float]
    controllers: dict[AgentID, list[PolicyID]] = Field(description="Who acted for each agent, in this order.")
    replayable: bool


class DemoDetails(DemoRow):
    """A demonstration with its agents and episodes."""

    folder: str
    environment: dict[str, object] | None
    datasets: list[DemoAgent]
    episode_rows: list[DemoEpisodeRow]


def demo_rows(store: Demonstrations) -> tuple[list[DemoRow], list[str]]:
    """Return all demonstrations, newest first, and problems with recordings that were interrupted."""
    problems = recover(store)
    rows = []
    for name in store.names():
        try:
            rows.append(_row(store.open(name)))
        except MosaicError as error:
            rows.append(DemoRow(name=name, env=None, agents=[], episodes=0, agent_steps=0, bytes=0, created=0.0,
                                problem=str(error)))  # fmt: skip
    return sorted(rows, key=lambda row: -row.created), problems


def demo_details(store: Demonstrations, name: str) -> DemoDetails:
    recover(store)
    demo = store.open(name)
    outlines = {agent: list(dataset.outlines()) for agent, dataset in demo.datasets().items()}
    parts = defaultdict[int, dict[AgentID, Outline]](dict)
    for agent, all_ in outlines.items():
        for each in all_:
            parts[each.episode][agent] = each
    return DemoDetails(
        **dict(_row(demo)),
        folder=str(demo.path),
        environment=demo.about.environment,
        datasets=[
            _agent(agent, dataset.dataset_id, outlines[agent], describe_space(dataset.observation_space),
                   describe_space(dataset.action_space)) for agent, dataset in demo.datasets().items()
        ],
        episode_rows=[_episode(number, record, parts[number]) for number, record in enumerate(demo.records())],
    )  # fmt: skip


def demo_record(store: Demonstrations, name: str, number: int | None) -> Episode:
    """Return the record of an episode, of the last one if None, for replay."""
    records = store.open(name).records()
    number = len(records) - 1 if number is None else number
    if not 0 <= number < len(records):
        raise InputError(f"'{name}' has no episode {number}; it has 0 to {len(records) - 1}.")
    record = records[number]
    if record is None:
        raise InputError(f"Episode {number} of '{name}' was imported from a dataset without a record to replay.")
    return record


def _row(demo: Demonstration) -> DemoRow:
    datasets = demo.datasets().values()
    return DemoRow(
        name=demo.name,
        env=None if demo.about.environment is None else env_text(demo.about.environment),
        agents=list(demo.about.agents),
        episodes=demo.count(),
        agent_steps=sum(dataset.steps for dataset in datasets),
        bytes=sum(path.stat().st_size for path in demo.path.rglob("*") if path.is_file()),
        created=demo.about.created,
    )


def _agent(agent: AgentID, dataset_id: str, outlines: list[Outline], observation: str, action: str) -> DemoAgent:
    totals = [outline.total for outline in outlines] or [0.0]
    return DemoAgent(
        agent=agent,
        dataset_id=dataset_id,
        episodes=len(outlines),
        steps=sum(len(outline.controllers) for outline in outlines),
        observation=observation,
        action=action,
        controllers=dict(Counter(label for outline in outlines for label in outline.controllers)),
        return_mean=sum(totals) / len(totals),
        return_min=min(totals),
        return_max=max(totals),
    )


def _episode(number: int, record: Episode | None, here: dict[AgentID, Outline]) -> DemoEpisodeRow:
    steps = sum(len(each.controllers) for each in here.values())
    return DemoEpisodeRow(
        number=number,
        seed=None if record is None else record.seed,
        env_steps=steps if record is None else record.env_steps,
        agent_steps=steps,
        returns={agent: each.total for agent, each in here.items()},
        controllers={agent: _in_order(each.controllers) for agent, each in here.items()},
        replayable=record is not None and bool(record.digests),
    )


def _in_order(controllers: tuple[PolicyID, ...]) -> list[PolicyID]:
    """Return the controllers without repetition, a returning one again."""
    return [label for place, label in enumerate(controllers) if not place or controllers[place - 1] != label]
