"""Curriculum of a run: which stage it is in, when the next one begins, and a check of all stages ahead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec

_FILE = "curriculum.json"  # in a checkpoint: the stage in which it was saved


@dataclass(slots=True)
class CurriculumProgress:
    """Stage of a run, counted from 0."""

    environment: EnvironmentConfig  # as configured, with all stages
    stage: int = 0

    @property
    def number(self) -> int:
        """Stage as people count, from 1."""
        return self.stage + 1

    @property
    def is_last(self) -> bool:
        return self.number == len(self.environment.curriculum)

    @property
    def current(self) -> EnvironmentConfig:
        return self.environment.at_stage(self.stage)

    def is_over(self, env_steps: int, reward: float | None) -> bool:
        """Return whether the next stage begins; `reward` is the mean over episodes of this stage, None without any."""
        stage = self.environment.curriculum[self.stage]
        by_steps = stage.until_steps is not None and env_steps >= stage.until_steps
        by_reward = stage.until_reward is not None and reward is not None and reward >= stage.until_reward
        return not self.is_last and (by_steps or by_reward)

    def advance(self) -> dict[str, tuple[object, object]]:
        """Enter the next stage and return the options that change, each with its old and its new value."""
        before = self.current.options
        self.stage += 1
        after = self.current.options
        return {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}

    def describe(self, changes: Mapping[str, tuple[object, object]]) -> str:
        """Return a line such as `stage 2 of 3: size=8 (was 4)`."""
        said = ", ".join(f"{name}={json.dumps(new)} (was {_shown(old)})" for name, (old, new) in changes.items())
        return f"stage {self.number} of {len(self.environment.curriculum)}: {said or 'the same options'}"

    def save(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps({"stage": self.number}))


def _shown(value: object) -> str:
    return "the default" if value is None else json.dumps(value)


def begin_curriculum(environment: EnvironmentConfig, checkpoint: Path | None) -> CurriculumProgress | None:
    """Return the stage of a run that begins, or that resumes from a checkpoint; None without a curriculum."""
    if not environment.curriculum:
        return None
    stage = 0
    if checkpoint is not None and (checkpoint / _FILE).exists():
        stage = int(json.loads((checkpoint / _FILE).read_text())["stage"]) - 1
    return CurriculumProgress(environment, min(max(0, stage), len(environment.curriculum) - 1))


def stage_config(config: RunConfig, stage: int) -> RunConfig:
    """Return the configuration of a run in the env of one stage."""
    return config.model_copy(update={"environment": config.environment.at_stage(stage)})


def check_same_spaces(first: EnvSpec, other: EnvSpec, stage: int) -> None:
    """Raise InputError if the env of a stage has other agents or spaces than that of the first."""
    if first.possible_agents != other.possible_agents:
        raise InputError(
            f"environment.curriculum: stage {stage + 1} has the agents {', '.join(other.possible_agents)}, and stage 1 "
            f"has {', '.join(first.possible_agents)}. All stages need the same agents and spaces."
        )
    for what in ("observation", "action"):
        before, after = getattr(first, f"{what}_spaces"), getattr(other, f"{what}_spaces")
        for agent in first.possible_agents:
            if before[agent] != after[agent]:
                raise InputError(
                    f"environment.curriculum: in stage {stage + 1} the {what} of '{agent}' is {after[agent]}, and in "
                    f"stage 1 {before[agent]}. All stages need the same spaces: let the env take the largest in each."
                )
