"""Checkpoints that RLlib wrote without Mosaic: where their parts are, and loading them, which runs pickled code."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.models.weights_file import check_finite

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from mosaic.store.policies.foreign_checkpoint import ForeignSource

Mapped: TypeAlias = Callable[[str, Any], object]  # RLlib's policy_mapping_fn: (agent, episode) → module

_BUILD = "class_and_ctor_args.pkl"  # in the folder of every part that RLlib can build again
_MODULES = Path("learner_group", "learner", "rl_module")
_TO_MODULE = Path("env_runner", "env_to_module_connector")
_TO_ENV = Path("env_runner", "module_to_env_connector")
_INSIDE = (_MODULES, Path("learner", "rl_module"), Path("rl_module"), Path())  # where a part of a checkpoint has them


@dataclass(frozen=True, slots=True)
class ForeignFolder:
    """Parts of a checkpoint folder of RLlib's new API stack."""

    root: Path | None  # the algorithm's checkpoint; None where only networks were given
    modules: Mapping[str, Path]  # folders of RLModules by their names
    asked: str | None = None  # the module whose own folder was given


def find_parts(path: Path) -> ForeignFolder | None:
    """Return the parts of a checkpoint, or of the folder of its RLModules or of one of them; None for another folder.

    Nothing is loaded.
    """
    path = path.absolute()
    for inside in _INSIDE:
        modules = _modules_in(path / inside)
        if modules:
            return ForeignFolder(_root_of(path / inside), modules)
    if (path / _BUILD).is_file() and any(path.glob("module_state.*")):
        beside = _modules_in(path.parent)
        root = _root_of(path.parent)
        return ForeignFolder(root, beside if root else {path.name: path}, path.name)
    return None


def _modules_in(folder: Path) -> dict[str, Path]:
    """Return the RLModules of a MultiRLModule's folder."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {each.name: each for each in found if (each / _BUILD).is_file() and any(each.glob("module_state.*"))}


def _root_of(modules: Path) -> Path | None:
    root = modules.parents[2]
    return root if root / _MODULES == modules and (root / _TO_MODULE / _BUILD).is_file() else None


def check_algorithm(parts: ForeignFolder, source: ForeignSource) -> None:
    """Raise InputError if the user named another algorithm than the one whose checkpoint it is; it unpickles."""
    if source.algorithm is None:
        return
    if parts.root is None or not (parts.root / _BUILD).is_file():
        raise InputError(f"'{source.path}' holds networks of RLlib without their algorithm: leave algo out.")
    kind = _built(parts.root)["class"].__name__
    if source.algorithm.casefold() != kind.casefold():
        raise InputError(f"'{source.path}' was written by RLlib's {kind}, not by {source.algorithm}: leave algo out.")


@dataclass(slots=True)
class ForeignModule:
    """RLModule of a checkpoint, with its connectors to the env."""

    module: Any  # RLModule, or MultiRLModule if RLlib's env had several agents
    single: Any  # the RLModule that plays
    to_module: Any
    to_env: Any
    agent: str | None  # RLlib's name of the agent it plays; None if RLlib's env had one agent
    observation_space: Space[object]
    action_space: Space[object]


def choose_module(parts: ForeignFolder, path: Path, policy: str | None, agent: str) -> str:
    """Return the requested module, or else that of the agent by RLlib's own mapping."""
    asked = policy or parts.asked
    if asked is not None:
        if asked not in parts.modules:
            raise unknown(f"RLModule of '{path}'", asked, parts.modules)
        return asked
    if len(parts.modules) == 1:
        return next(iter(parts.modules))
    advice = f"Name one: checkpoint:{path},policy=NAME with {', '.join(parts.modules)}."
    if parts.root is None:
        raise InputError(f"'{path}' has several RLModules. {advice}")
    mapping = _mapping_of(_load(parts.root / _TO_MODULE))
    found = None if mapping is None else _mapped(mapping, agent, advice)
    if found is None or found not in parts.modules:
        raise InputError(f"'{path}' has no RLModule for agent '{agent}'. {advice}")
    return found


def modules_by_agent(parts: ForeignFolder, source: ForeignSource, agents: Iterable[str]) -> dict[str, list[str]]:
    """Return the modules that play these agents, each with its agents."""
    groups: dict[str, list[str]] = {}
    for agent in agents:
        groups.setdefault(choose_module(parts, source.path, source.policy, agent), []).append(agent)
    return groups


def load_module(parts: ForeignFolder, name: str, agent: str) -> ForeignModule:
    """Load a module and its connectors; without those of training, RLlib's defaults stand in."""
    single = _squashed_mode(_load(parts.modules[name]))
    for part, array in single.get_state().items():
        check_finite(np.asarray(array), f"{parts.modules[name]}: the weights '{part}'", FormatError)
    if parts.root is None:
        to_module, to_env = _default_connectors(single)
        return ForeignModule(single, single, to_module, to_env, None, single.observation_space, single.action_space)
    to_module, to_env = _frozen(_load(parts.root / _TO_MODULE)), _load(parts.root / _TO_ENV)
    seen, done = to_module.input_observation_space, to_module.input_action_space
    mapping = _mapping_of(to_module)
    if mapping is None:
        return ForeignModule(single, single, to_module, to_env, None, seen, done)
    trained = _trained_agent(mapping, name, agent, list(seen.spaces))
    several = _load(parts.root / _MODULES)
    return ForeignModule(
        several, _squashed_mode(several[name]), to_module, to_env, trained, seen[trained], done[trained]
    )


def _squashed_mode(module: Any) -> Any:
    """Squash the likeliest action of SAC and its kin: RLlib's own is unsquashed, which is not what was trained."""
    from gymnasium.spaces import Box
    from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
    from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule

    from mosaic.workers.rllib.learner.modules import SquashedGaussian

    if isinstance(module, DefaultSACTorchRLModule | DefaultTQCTorchRLModule) and isinstance(module.action_space, Box):
        module.get_inference_action_dist_cls = lambda: SquashedGaussian  # type: ignore[method-assign]
    return module


def _trained_agent(mapping: Mapped, name: str, agent: str, agents: list[str]) -> str:
    """Return an agent of RLlib's env that the module played: the same one, if it did."""
    first = [agent] if agent in agents else []
    return next((each for each in first + agents if _mapped(mapping, each) == name), (first + agents)[0])


def _mapped(mapping: Mapped, agent: str, advice: str = "") -> str:
    from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

    try:
        return str(mapping(agent, MultiAgentEpisode()))
    except Exception as error:
        raise InputError(f"RLlib's policy_mapping_fn fails for the agent '{agent}': {error!r}. {advice}") from error


def _mapping_of(to_module: Any) -> Mapped | None:
    """Return the mapping of agents to modules; None if RLlib's env had one agent."""
    from ray.rllib.connectors.env_to_module import AgentToModuleMapping

    found = [each for each in to_module.connectors if isinstance(each, AgentToModuleMapping)]
    mapping: Mapped | None = found[0]._agent_to_module_mapping_fn if found else None
    return mapping


def observation_filter(parts: ForeignFolder) -> Any | None:
    """Return the filter that normalised observations in training; None if there was none, or it is not known."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    pipeline = None if parts.root is None else _load(parts.root / _TO_MODULE)
    found = [] if pipeline is None else [each for each in pipeline.connectors if isinstance(each, MeanStdFilter)]
    return found[0] if found else None


def _frozen(pipeline: Any) -> Any:
    """Keep observation filters as training left them: playing must not change how the policy sees."""
    for connector in pipeline.connectors:
        if hasattr(connector, "_update_stats"):
            connector._update_stats = False
    return pipeline


def _default_connectors(module: Any) -> tuple[Any, Any]:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

    config: Any = AlgorithmConfig()
    both = (module.observation_space, module.action_space)
    spaces = {INPUT_ENV_SPACES: both, INPUT_ENV_SINGLE_SPACES: both, DEFAULT_MODULE_ID: both}
    return config.build_env_to_module_connector(spaces=spaces), config.build_module_to_env_connector(spaces=spaces)


def _load(folder: Path) -> Any:
    """Build a part of a checkpoint; the caller has made sure that the user trusts it."""
    from ray.rllib.utils.checkpoints import Checkpointable

    _built(folder)
    return Checkpointable.from_checkpoint(folder)


def _built(folder: Path) -> Any:
    """Return the class of a part and the arguments it is made with, unpickled."""
    try:  # RLlib would replace a class that cannot be loaded by an abstract one, with a message about that
        with (folder / _BUILD).open("rb") as file:
            return pickle.load(file)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"'{folder}' needs code that is not found: {error}. Start Mosaic where RLlib found it, or name its folder "
            "in PYTHONPATH."
        ) from error
    except (OSError, ValueError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise FormatError(f"'{folder / _BUILD}' cannot be read: {error}") from error
