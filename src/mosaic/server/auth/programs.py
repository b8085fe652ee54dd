"""Rule for code, programs and addresses named over HTTP: only the server's owner may allow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mosaic.config.programs import named_programs, programs_of_environment, programs_of_policies
from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.core.reference import without_secrets


class ForbiddenProgramsError(MosaicError):
    """Error for a request over HTTP that only the server's owner may allow."""

    def __init__(self, forms: list[str]) -> None:
        listed = without_secrets("; ".join(forms))
        super().__init__(
            f"This server does not run code or programs, or call addresses, that a request names: {listed}. "
            "Its owner can allow that: mosaic serve --allow-programs (or mosaic mcp --allow-programs)."
        )


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """Rule that raises ForbiddenProgramsError for what a request must not name; paths may lie in the store `home`."""

    home: Path
    allowed: bool = False

    def check_run(self, config: RunConfig, known: RunConfig | None = None) -> None:
        """Check a run; what `known`, the configuration of a run of this store, already names is not the request's
        choice.
        """
        before = [] if known is None else named_programs(known, self.home)
        self._refuse([form for form in named_programs(config, self.home) if form not in before])

    def check_match(self, environment: EnvironmentConfig, policies: Mapping[str, str]) -> None:
        self._refuse([*programs_of_environment(environment), *programs_of_policies(policies, self.home)])

    def check_policy(self, policy: str) -> None:
        self._refuse(programs_of_policies({"policy": policy}, self.home))

    def check_place(self, path: str) -> None:
        """Check a file or folder that a request wants written; a program could be replaced there."""
        self._refuse([f"out={path}, a path outside the server's own folders"])

    def check_checkpoint(self, reference: str) -> None:
        """Check a checkpoint that a request names by its path; what is there may hold pickles, and its env be code."""
        self._refuse([f"run={reference}, a file or folder of the server's machine: name the run it belongs to"])

    def _refuse(self, forms: list[str]) -> None:
        if forms and not self.allowed:
            raise ForbiddenProgramsError(forms)
