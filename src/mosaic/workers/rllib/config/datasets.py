"""Datasets for offline algorithms, `minari:NAME` and `demo:NAME/AGENT`, checked against an env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.reference import split_reference
from mosaic.store.demos.reference import datasets_of

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec
    from mosaic.learners.agent_roles import AgentRoles
    from mosaic.workers.rllib.config.offline_options import OfflineOptions


def load_dataset(reference: str) -> Any:
    """Return the dataset that `demo:NAME/AGENT` or `minari:NAME` names; raise InputError if this machine lacks it."""
    kind, name = split_reference(reference)
    if kind not in ("demo", "minari") or not name:
        raise InputError(
            f"dataset={reference} is not minari:NAME, for example minari:D4RL/door/human-v2, or demo:NAME/AGENT."
        )
    found = datasets_of(reference)
    if len(found) != 1:
        raise InputError(
            f"dataset={reference} holds {', '.join(each.agent for each in found)}: name one, as in "
            f"{reference}/{found[0].agent}."
        )
    import minari

    return minari.MinariDataset(found[0].path / "data")


def check_dataset(algorithm: str, options: OfflineOptions, roles: AgentRoles, spec: EnvSpec) -> None:
    """Raise InputError if the dataset cannot be had, or is not one of this env's only agent."""
    from mosaic.workers.rllib.env.encoding import agent_code

    if options.dataset is None:
        raise InputError(
            f"RLlib's {algorithm} learns from a dataset: add --set training.params.dataset=minari:NAME. "
            "Type: minari list local, or mosaic demos"
        )
    if len(roles.learners) != 1 or roles.played:
        raise InputError(
            f"A Minari dataset holds the experience of one agent, and {spec.env_id} has "
            f"{', '.join(spec.possible_agents)}. Use --algo ppo, appo, impala, dqn, sac, tqc or a2c."
        )
    (agent,) = roles.learners
    dataset = load_dataset(options.dataset)
    size = options.picture_size
    recorded: tuple[Space[object], Space[object]] = (dataset.observation_space, dataset.action_space)
    own = spec.observation_spaces[agent], spec.action_spaces[agent]
    theirs, ours = agent_code(*recorded, size), agent_code(*own, size)
    if (theirs.observation_space, theirs.action_space) != (ours.observation_space, ours.action_space):
        raise InputError(
            f"dataset={options.dataset} was recorded with observations {recorded[0]} and actions {recorded[1]}, and in "
            f"{spec.env_id} they are {own[0]} and {own[1]}. Name the env in which it was recorded, or another dataset."
        )
