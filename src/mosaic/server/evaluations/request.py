"""Requests for evaluations and tournaments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidationError

from mosaic.config.sections import EnvironmentConfig, Section
from mosaic.config.validation import explain_settings
from mosaic.core.errors import InputError
from mosaic.policies.registry import parse_policy
from mosaic.store.demos.demonstration import DemoName

Kind: TypeAlias = Literal["evaluate", "tournament"]
Agent: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Policy: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_GAMES = 20_000  # of one tournament, all pairs together


class _Asked(Section):
    earlier_names: ClassVar[Mapping[str, str]] = {"num_workers": "num_env_runners"}

    environment: EnvironmentConfig
    seed: int = Field(0, ge=0, lt=2**31, description="Random seed; the same seed gives the same results.")
    num_env_runners: int = Field(1, ge=1, le=64, description="Number of processes; results do not depend on it.")
    max_steps: int | None = Field(None, ge=1, description="Env steps after which an episode is cut; None: 10,000.")
    demo: DemoName | None = Field(None, description="Demonstration to add every episode to.")
    record: bool = Field(True, description="Keep every episode, to be replayed.")


class EvaluationRequest(_Asked):
    agents: dict[Agent, Policy] = Field(min_length=1, max_length=1000, description="Agent or pattern → policy.")
    episodes: int = Field(100, ge=1, le=10_000, description="Number of episodes, each with its own seed.")

    @property
    def references(self) -> dict[str, str]:
        """Return a mapping from where each policy is named to the policy."""
        return dict(self.agents)

    @property
    def total(self) -> int:
        return self.episodes


class TournamentRequest(_Asked):
    policies: tuple[Policy, ...] = Field(min_length=2, max_length=20, description="Two or more different policies.")
    games: int = Field(10, ge=1, le=1000, description="Games per pair and side: 10 means 20 games per pair.")

    @property
    def references(self) -> dict[str, str]:
        return {str(place): policy for place, policy in enumerate(self.policies)}

    @property
    def total(self) -> int:
        return self.games * len(self.policies) * (len(self.policies) - 1)


Request: TypeAlias = EvaluationRequest | TournamentRequest
MODELS: dict[Kind, type[EvaluationRequest] | type[TournamentRequest]] = {
    "evaluate": EvaluationRequest,
    "tournament": TournamentRequest,
}


def parse_request(kind: Kind, document: Mapping[str, object]) -> Request:
    """Return the request; raise InputError with the nearest known setting or value."""
    try:
        return MODELS[kind].model_validate(dict(document))
    except ValidationError as error:
        raise InputError(explain_settings(error, MODELS[kind])) from error


def check_request(request: Request) -> None:
    """Raise for errors that are known before anything is started."""
    if request.total > MOST_GAMES:
        raise InputError(f"These are {request.total:,} games, and at most {MOST_GAMES:,} are played. Ask for fewer.")
    for policy in request.references.values():
        kind, _ = parse_policy(policy)
        if kind.waits:
            raise InputError(
                f"'{policy}' waits for a person, and evaluations are played by policies alone. "
                "Play with it instead: open /play."
            )
