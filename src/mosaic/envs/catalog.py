"""Catalog of environments, and their creation by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gymnasium.spaces import Space

from mosaic.config.sections import EnvironmentConfig, Incentives, split_id
from mosaic.core.errors import InputError, MosaicError, nearest, unknown
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.user_code import PREFIX
from mosaic.envs.env import Env
from mosaic.envs.family import EnvEntry, EnvFamily, split_version
from mosaic.envs.objects import Environment, env_from_object, is_described, registered_environment
from mosaic.envs.spaces import describe_space


def make_env(env: Environment, **options: object) -> Env:
    """Make an env by its name, for example `make_env("mpe/simple_spread_v3", N=5)`, or by its configuration.

    Also accepts an id that Gymnasium has registered, a Gymnasium or PettingZoo env, and a class or function that makes
    one.
    """
    if not is_described(env):
        return env_from_object(env, options)
    config = registered_environment(env)
    if options:
        config = config.model_copy(update={"options": {**config.options, **options}})
    made = _make(config)
    if not config.wrappers:
        return made
    from mosaic.envs.wrappers.registry import wrap

    try:
        return wrap(made, config.wrappers)
    except MosaicError:
        made.close()
        raise


def _make(config: EnvironmentConfig) -> Env:
    if config.family == "python":
        from mosaic.envs.adapters.user import make_own

        return make_own(config)
    if not config.family:
        raise _without_family(config.env_id)
    if config.family not in plugins("mosaic.envs"):
        known = [*plugins("mosaic.envs"), "python"]
        advice = _own(config.id) or "Type: mosaic envs. A game of Godot is godot/PATH."
        raise unknown("environment family", config.family, known, advice)
    return load_family(config.family).make(config)


def load_family(name: str) -> EnvFamily:
    family: EnvFamily = load_plugin("mosaic.envs", name)
    return family


def entries(family: str | None = None) -> list[EnvEntry]:
    """Return the entries of the catalog, or of one family."""
    names = plugins("mosaic.envs")
    if family is not None and family not in names:
        raise unknown("environment family", family, names)
    return [entry for name in names if family in (None, name) for entry in load_family(name).entries()]


def find_entries(asked: str) -> list[EnvEntry]:
    """Return the entries of a family, or that of one env, which no family has to list."""
    names = plugins("mosaic.envs")
    if asked in names:
        return entries(asked)
    family, name = split_id(asked)
    if not family:
        if nearest(name, names) and not _ids_with(name):
            raise unknown("environment family", name, names, "Type: mosaic envs")
        raise _without_family(name)
    listed = entries(family) if family in names else []
    found = (entry for entry in listed if asked in (entry.id, split_version(entry.id)[0]))
    return [next(found, EnvEntry(asked, installed=True))]


def _ids_with(name: str) -> list[EnvID]:
    """Return the ids of all families that have this name, with or without its version."""
    ids = [entry.id for entry in entries()]
    return [i for i in ids if name in (split_id(i)[1], split_version(split_id(i)[1])[0])]


def _without_family(name: str) -> InputError:
    """Return the error for an id without its family, naming the families that have it."""
    if same := _ids_with(name):
        return InputError(f"'{name}' needs its family: type {' or '.join(same)}.")
    return unknown("environment", name, [entry.id for entry in entries()], _own(name) or "Type: mosaic envs")


def _own(name: str) -> str:
    """Return how to name an env of the user's own, for a name that looks like a file or MODULE:NAME; "" for others."""
    if name.endswith(".py"):
        return f"Your own env is {PREFIX}{name}:NAME, with the name of a class or function of the file."
    return f"Your own env is {PREFIX}{name}." if ":" in name else ""


@dataclass(frozen=True, slots=True)
class EnvDescription:
    """An entry of `mosaic envs`; texts are empty if the env is not installed."""

    id: EnvID
    installed: bool
    install: str | None
    agents: tuple[AgentID, ...] = ()
    turn_based: bool = False
    competitive: bool = False
    reproducible: bool = True
    observation: str = ""
    action: str = ""
    compiled_twin: bool = False
    incentives: Incentives = "unknown"
    shared_reward: bool | None = None  # None: not declared, or one agent
    note: str = ""  # what `install` does, if it installs nothing

    @property
    def kind(self) -> str:
        return describe_incentives(self.incentives, self.shared_reward)


def describe_incentives(incentives: Incentives, shared_reward: bool | None) -> str:
    return f"{incentives}, shared reward" if shared_reward else incentives


def inspect_env(entry: EnvEntry) -> EnvDescription:
    from mosaic.envs.compiled.registry import has_kernel

    if not entry.installed:
        return EnvDescription(
            entry.id,
            False,
            entry.install,
            incentives=entry.incentives,
            shared_reward=entry.shared_reward,
            note=entry.note,
        )
    env = make_env(entry.id)
    try:
        facts = env.spec.facts
        return EnvDescription(
            entry.id,
            True,
            None,
            env.possible_agents,
            facts.turn_based,
            facts.competitive,
            facts.reproducible,
            _of_all(env.observation_spaces, env.possible_agents),
            _of_all(env.action_spaces, env.possible_agents),
            has_kernel(entry.id),
            env.spec.incentives,
            facts.shared_reward,
        )
    finally:
        env.close()


def _of_all(spaces: Mapping[AgentID, Space[object]], agents: Iterable[AgentID]) -> str:
    """Describe the space, or the different spaces, of the agents."""
    return " or ".join(dict.fromkeys(describe_space(spaces[agent]) for agent in agents))
