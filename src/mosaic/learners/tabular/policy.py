"""Policy from a saved table: the path of a file that `TabularLearner.save` wrote, such as `maze.safetensors`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.files import file_stamp
from mosaic.core.reference import Options
from mosaic.envs.codes import flatten_mask, space_code
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest
from mosaic.policies.tabular import TabularPolicyController


class SavedTableOptions(Options):
    path: str = Field(min_length=1, description="File written by TabularLearner.save.")
    epsilon: float = Field(0.0, ge=0, le=1, description="Share of uniformly random actions.")
    temperature: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Sample actions from a softmax of the values, with this temperature.",
    )


def _make(options: SavedTableOptions, request: PolicyRequest) -> PolicyController:
    learner = TabularLearner.load(Path(options.path).expanduser())
    spec = request.spec
    if not request.agents:
        raise InputError(f"{spec.env_id} does not know its agents in advance, but a table needs their spaces.")
    codes = [(space_code(spec.observation_spaces[a]), space_code(spec.action_spaces[a])) for a in request.agents]
    for agent, (rows, columns) in zip(request.agents, codes, strict=True):
        if (rows.size, columns.size) != (learner.states, learner.actions):
            raise InputError(
                f"'{request.reference}' has {learner.states:,} states and {learner.actions:,} actions; {agent} of "
                f"{spec.env_id} has {rows.size:,} and {columns.size:,}. Use the env that it was trained in."
            )
    rows, columns = codes[0]
    legal = None if len(columns.counts) == 1 else partial(flatten_mask, columns)
    return TabularPolicyController(
        learner.values,
        rows.encode,
        columns.decode,
        legal,
        epsilon=options.epsilon,
        temperature=options.temperature,
    )


kind = PolicyKind(
    usage="PATH.safetensors",
    help="Table written by TabularLearner.save.",
    make=_make,
    options=SavedTableOptions,
    first="path",
    version=lambda options: file_stamp(Path(options.path).expanduser()),
)
