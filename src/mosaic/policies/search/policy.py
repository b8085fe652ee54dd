"""The policy `search:run:ID[,simulations=200|,time_ms=100]`."""

from __future__ import annotations

from contextlib import closing
from typing import Self

from pydantic import Field, model_validator

from mosaic.core.reference import Options, split_reference
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest
from mosaic.policies.registry import load_policy, parse_policy, policy_notes

_SIMULATIONS = 200


class SearchOptions(Options):
    policy: str = Field(min_length=1, description="Policy to search with: run:RUN[@best|@latest|@STEP][/POLICY].")
    simulations: int | None = Field(
        None, ge=1, le=1_000_000, description=f"Simulations for each move; default: {_SIMULATIONS}."
    )
    time_ms: int | None = Field(
        None, ge=1, le=60_000, description="Milliseconds for each move, instead of a number of simulations."
    )
    c: float = Field(1.5, gt=0, le=100, description="Exploration constant of PUCT: higher tries more actions.")

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.simulations is not None and self.time_ms is not None:
            raise ValueError("give simulations or time_ms, not both")
        if split_reference(self.policy)[0] != "run":  # others are guarded by their own names: programs, files
            raise ValueError(f"search works with the policy of a run, such as search:run:ID, not with '{self.policy}'")
        return self

    @property
    def budget(self) -> int | None:
        """Return the number of simulations; None: the time counts."""
        return self.simulations or (_SIMULATIONS if self.time_ms is None else None)


def _make(options: SearchOptions, request: PolicyRequest) -> PolicyController:
    from mosaic.policies.search.controller import SearchPolicyController, searchable_kernel, searchable_network

    searchable_kernel(request.spec)
    loaded = load_policy(f"{options.policy},sample=false", request.spec, request.agents, seed=request.seed)
    with closing(loaded) as policy:
        network = searchable_network(options.policy, policy)
    return SearchPolicyController(request.spec, network, options.budget, options.time_ms, options.c)


def _notes(options: SearchOptions, request: PolicyRequest) -> tuple[str, ...]:
    return policy_notes(f"{options.policy},sample=false", request.spec, request.agents)


def _code_folder(options: SearchOptions) -> str:
    kind, own = parse_policy(options.policy)
    return kind.code_folder(own)


kind = PolicyKind(
    usage="search:run:RUN[,simulations=200][,time_ms=100][,c=1.5]",
    help="Tree search with the probabilities and values of a run's policy, in board games.",
    make=_make,
    options=SearchOptions,
    first="policy",
    reproducible=lambda options: options.time_ms is None,
    notes=_notes,
    code_folder=_code_folder,
    environment=lambda options: parse_policy(options.policy)[0].environment(parse_policy(options.policy)[1]),
)
