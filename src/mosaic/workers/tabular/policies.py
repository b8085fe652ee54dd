"""Controllers for the tables in a checkpoint of the tabular worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Mask, Observation
from mosaic.envs.codes import BinsGiven, SpaceCode, flatten_mask, space_code
from mosaic.envs.codes.space_code import count_text
from mosaic.envs.compiled.registry import encode_observation, has_twin
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.training.agent_codes import codes_of
from mosaic.policies.controller import PolicyController, Sampling
from mosaic.policies.tabular import TabularPolicyController
from mosaic.store.checkpoint_record import read_object

if TYPE_CHECKING:
    from mosaic.exports.policy import ExportablePolicy

FACTS = "facts.json"


def make_controller(
    folder: Path, policy: str, spec: EnvSpec, agent: AgentID, trained_in: EnvID, sampling: Sampling | None = None
) -> PolicyController:
    """Return a controller for what `TableTraining.save` and `TabularTraining` wrote.

    Rows may be states of a compiled env: `trained_in` names it, whatever env is played now.
    """
    from mosaic.learners.tabular.training.resumable import on_twin, read_values

    space = spec.observation_spaces[agent]
    facts = read_object(folder / FACTS)
    drawn = drawing(facts, sampling)
    bins = facts["bins"]
    if trained_in_env(folder, policy):
        return in_env_controller(folder, policy, spec, agent, bins, drawn)
    actions = space_code(spec.action_spaces[agent])
    if in_hashed_table(folder):
        return hashed_controller(folder, actions, drawn)
    known = on_twin(folder) and has_twin(trained_in)  # arrays of a user's own env have the rows of its space
    state_of = encode_observation(trained_in, space) if known else space_code(space, bins).encode
    states = None if known and state_of is not int else space_code(space, bins).size
    values = checked_table(read_values(folder, policy), states, actions.size, folder)
    return TabularPolicyController(values, state_of, actions.decode, legal_columns(actions), **drawn)


def checked_table(values: Values, states: int | None, actions: int, folder: Path) -> Values:
    """Return the values if there is a row for each state and a column for each action; None: states are not known."""
    if values.ndim != 2 or values.dtype.kind != "f":
        raise FormatError(f"The checkpoint '{folder}' is not a table: its values are {values.dtype} of {values.shape}.")
    if values.shape[1] != actions or states not in (None, len(values)):
        here = "" if states is None else f"{count_text(states)} states and "
        raise FormatError(
            f"The table in '{folder}' has {len(values):,} states and {values.shape[1]:,} actions; there should be "
            f"{here}{actions:,} actions."
        )
    return values


MOST_CONVERTED = 1 << 19  # observations for which a table without a formula is written out


def make_exportable(folder: Path, policy: str, spec: EnvSpec, agent: AgentID, trained_in: EnvID) -> ExportablePolicy:
    """Return a table for export, with a row for each member of the observation space.

    A table whose rows have other numbers, that of a compiled twin or a hashed one, is written out for all members.
    """
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.exports.torch_parts import TablePolicy

    bins = read_object(folder / FACTS)["bins"]
    codes = codes_of(spec, agent, bins)
    if len(codes.actions.counts) > 1:
        raise InputError(
            f"'{policy}' has a value for each combination of the parts of an action, {spec.action_spaces[agent]}, and "
            "files have outputs for each part. Export tables of Discrete actions."
        )
    controller = make_controller(folder, policy, spec, agent, trained_in)
    assert isinstance(controller, TabularPolicyController)
    if controller.numbered_by(codes.states):
        return ExportablePolicy(TablePolicy(codes.states, controller.values))
    if codes.states.size > MOST_CONVERTED:
        raise InputError(
            f"'{policy}' is a hashed table: it finds its rows by the observations met in training, which a file would "
            f"have to hold for all {count_text(codes.states.size)} members of the observation space; at most "
            f"{MOST_CONVERTED:,} are written out. Train a network instead: --worker native"
        )
    rows = np.empty((codes.states.size, controller.values.shape[1]), np.float32)
    for number in range(codes.states.size):
        rows[number] = controller.row_of(codes.states.decode(number))
    return ExportablePolicy(TablePolicy(codes.states, rows))


def trained_in_env(folder: Path, policy: str) -> bool:
    from mosaic.learners.tabular.training.agent_tables import table_file

    return table_file(folder, policy).exists()


def in_env_controller(
    folder: Path, policy: str, spec: EnvSpec, agent: AgentID, bins: BinsGiven | None, drawn: Mapping[str, float]
) -> TabularPolicyController:
    """Return a controller for an agent's table.

    A state that training never met has the row of every new one: any legal action, drawn with the controller's own
    seed.
    """
    from mosaic.learners.tabular.hashed.learner import HashedLearner, keys_of
    from mosaic.learners.tabular.learner import TabularLearner
    from mosaic.learners.tabular.training.agent_tables import is_hashed, table_file

    file = table_file(folder, policy)
    codes = codes_of(spec, agent, bins)
    key, legal = keys_of(codes.states), legal_columns(codes.actions)
    if not is_hashed(file):
        table = checked_table(TabularLearner.load(file).values, codes.states.size, codes.actions.size, folder)
        return TabularPolicyController(table, key, codes.actions.decode, legal, **drawn)
    learner = HashedLearner.load(file)
    checked_table(learner.values, None, codes.actions.size, folder)
    unknown = learner.states

    def row_of(observation: object) -> int:
        row = learner.find(key(observation))
        return unknown if row is None else row

    values = np.concatenate([learner.values, learner.new_row()])
    return TabularPolicyController(values, row_of, codes.actions.decode, legal, **drawn)


def in_hashed_table(folder: Path) -> bool:
    from mosaic.learners.tabular.hashed.training import FILE

    return (folder / FILE).exists()


def hashed_controller(folder: Path, actions: SpaceCode, drawn: Mapping[str, float]) -> TabularPolicyController:
    """Return a controller that plays from the saved rows.

    A position that training never met has the row of every new one: all moves have the same value, so a legal move is
    drawn with the controller's own seed, as among equally good moves elsewhere.
    """
    from mosaic.envs.compiled.board_games.connect_four import key_of, read_position
    from mosaic.learners.tabular.hashed.table import find_sorted
    from mosaic.learners.tabular.hashed.training import FILE
    from mosaic.learners.tabular.save_load import read_table

    tensors = read_table(folder / FILE)
    keys = tensors["keys"]
    values = checked_table(np.concatenate([tensors["values"], tensors["new_row"]]), None, actions.size, folder)
    if len(values) != len(keys) + 1:
        raise FormatError(f"The table in '{folder}' has {len(values) - 1:,} rows for {len(keys):,} keys.")

    def row_of(observation: Observation) -> int:
        place = find_sorted(keys, int(key_of(*read_position(observation))))
        return len(keys) if place is None else place

    return TabularPolicyController(values, row_of, actions.decode, None, **drawn)


def drawing(facts: Mapping[str, Any], sampling: Sampling | None) -> dict[str, float]:
    """Return how a table's controller samples: by the exploration of training, or by a temperature if one is given."""
    if sampling is None:
        return {}
    if sampling.temperature is not None:
        return {"temperature": sampling.temperature}
    kind, epsilon = facts.get("exploration"), facts.get("epsilon")
    if kind == "softmax":
        return {"temperature": facts["temperature"]}
    if kind == "epsilon_greedy" and epsilon is not None:
        return {"epsilon": epsilon}
    raise InputError(
        "sample=true plays a table with the exploration of training, and this checkpoint "
        + ("explored by visit counts (ucb)" if kind == "ucb" else "does not say how it explored")
        + ". Type temperature=T instead, for example temperature=0.1: a softmax of the values."
    )


def legal_columns(actions: SpaceCode) -> Callable[[Mask], Mask] | None:
    """Return a function that turns flags of an action's parts into one per column; None if a mask has these already."""
    return None if len(actions.counts) == 1 else partial(flatten_mask, actions)
