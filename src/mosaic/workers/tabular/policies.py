"""Controllers for the tables in a checkpoint of the tabular worker."""

from __future__ import annotations

import json
from pathlib import Path

from mosaic.core.ids import AgentID, EnvID
from mosaic.envs.codes import space_code
from mosaic.envs.compiled.registry import encode_observation, has_twin
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import PolicyController, Sampling
from mosaic.policies.tabular import TabularPolicyController
from mosaic.workers.tabular.hashed import hashed_controller, in_hashed_table
from mosaic.workers.tabular.in_env import drawing, in_env_controller, legal_columns, trained_in_env

FACTS = "facts.json"


def make_controller(
    folder: Path, policy: str, spec: EnvSpec, agent: AgentID, trained_in: EnvID, sampling: Sampling | None = None
) -> PolicyController:
    """Return a controller for what `TableTraining.save` and `TabularTraining` wrote.

    Rows may be states of a compiled env: `trained_in` names it, whatever env is played now.
    """
    from mosaic.learners.tabular.saved_values import on_twin, read_values

    space = spec.observation_spaces[agent]
    facts = json.loads((folder / FACTS).read_text())
    drawn = drawing(facts, sampling)
    bins = facts["bins"]
    if trained_in_env(folder, policy):
        return in_env_controller(folder, policy, spec, agent, bins, drawn)
    actions = space_code(spec.action_spaces[agent])
    if in_hashed_table(folder):
        return hashed_controller(folder, actions.decode, drawn)
    known = on_twin(folder) and has_twin(trained_in)  # arrays of a user's own env have the rows of its space
    state_of = encode_observation(trained_in, space) if known else space_code(space, bins).encode
    legal = legal_columns(actions)
    return TabularPolicyController(read_values(folder, policy), state_of, actions.decode, legal, **drawn)
