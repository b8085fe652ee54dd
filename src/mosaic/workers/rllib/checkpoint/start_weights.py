"""Start weights of an RLlib run, named by `training.init`: of another run, or of a checkpoint that RLlib wrote."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.models.weights_file import check_finite
from mosaic.store.archives.trust import require_trust, require_trust_in_foreign
from mosaic.store.policies.checkpoint_policy import trusts
from mosaic.store.policies.init_source import InitSource, find_init
from mosaic.workers.rllib.checkpoint.foreign import ForeignFolder, find_parts, observation_filter
from mosaic.workers.rllib.checkpoint.state import RLLIB
from mosaic.workers.rllib.config.setup import DEFAULT_MODULE, RllibSetup
from mosaic.workers.rllib.reporting.log_filter import keep_quiet

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
_LEARNER = Path("learner_group", "learner", "state.pkl")


@dataclass(frozen=True, slots=True)
class StartWeights:
    """Weights for the modules of a run, with the modules they come from."""

    source: InitSource
    parts: ForeignFolder
    modules: Mapping[str, str]  # RLlib's name of each policy that starts from them: here → there
    arrays: Mapping[str, Arrays]  # by the names here


def check_start(source: InitSource, setup: RllibSetup) -> None:
    """Raise InputError before the run if its networks have other shapes than those it is to start from."""
    _check_shapes(read_start(source, setup), network_shapes(setup))


def start_from(reference: str, setup: RllibSetup, algo: Algorithm) -> None:
    """Load the weights, with them the observation filter, and with `optimizer=true` the optimizer's state."""
    source = find_init(reference)
    start = read_start(source, setup)
    group: Any = algo.learner_group
    _check_shapes(start, {here: shapes_of(group.get_weights([here])[here]) for here in start.modules})
    state: dict[str, Any] = {"rl_module": {here: dict(arrays) for here, arrays in start.arrays.items()}}
    if source.optimizer:
        state["optimizer"] = _optimizers(start, group.get_state()["learner"]["optimizer"])
    group.set_state({"learner": state})
    _set_filter(start, setup, algo)
    runners: Any = algo.env_runner_group
    runners.sync_weights(from_worker_or_learner_group=group, inference_only=True)


def read_start(source: InitSource, setup: RllibSetup) -> StartWeights:
    """Read the weights of each of the run's policies; unpickling them needs trust, as resuming does."""
    parts = find_parts(source.path if source.checkpoint is None else source.path / RLLIB)
    if parts is None:
        raise InputError(
            f"'{source.reference}' holds no networks of RLlib, and RLlib starts from those alone: name a run of the "
            "worker rllib, or a checkpoint that RLlib wrote."
        )
    if source.checkpoint is None:
        require_trust_in_foreign(source.path)
    else:
        require_trust(source.checkpoint, trusts(source.checkpoint))
    modules = {module: _module_there(source, parts, policy) for policy, module in setup.modules.items()}
    arrays = {here: _read_module(parts.modules[there]) for here, there in modules.items()}
    return StartWeights(source, parts, modules, arrays)


def _module_there(source: InitSource, parts: ForeignFolder, policy: str) -> str:
    """Return the module for a policy of this run: the requested one, else of the same name, else the only one."""
    learned = parts.modules if source.checkpoint is None else _of_run(source, parts)
    asked = source.policy or parts.asked
    if asked is not None and asked not in learned:
        raise unknown(f"policy of '{source.reference}'", asked, learned)
    if asked is not None or policy in learned:
        return learned_name(learned, asked or policy)
    if len(learned) > 1:
        raise InputError(
            f"'{source.reference}' has no policy named '{policy}', and several others: {', '.join(learned)}. Name one "
            "of them for all policies, as in run:RUN/POLICY or checkpoint:PATH,policy=POLICY."
        )
    return learned_name(learned, next(iter(learned)))


def _of_run(source: InitSource, parts: ForeignFolder) -> dict[str, str]:
    """Return RLlib's name of each policy of a run; snapshots of self-play are none of them."""
    assert source.checkpoint is not None
    names = source.checkpoint.manifest.policies
    return {name: name if name in parts.modules else DEFAULT_MODULE for name in names}


def learned_name(learned: Mapping[str, object], name: str) -> str:
    found = learned[name]
    return found if isinstance(found, str) else name


def _read_module(folder: Path) -> Arrays:
    try:
        with (folder / "module_state.pkl").open("rb") as file:
            state = pickle.load(file)
        arrays = {name: np.asarray(array) for name, array in state.items()}
    except (OSError, ValueError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise FormatError(f"The weights in '{folder}' cannot be read: {error}") from error
    for name, array in arrays.items():
        check_finite(array, f"{folder}: the weights '{name}'", FormatError)
    return arrays


def shapes_of(arrays: Arrays) -> Shapes:
    return {name: tuple(np.shape(array)) for name, array in arrays.items()}


def _check_shapes(start: StartWeights, here: Mapping[str, Shapes]) -> None:
    for module, wanted in here.items():
        found = shapes_of(start.arrays[module])
        different = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
        if different:
            name = different[0]
            raise InputError(
                f"'{start.source.reference}' has another network than '{module}' of this run: {name} is "
                f"{_shape(found.get(name))} there and {_shape(wanted.get(name))} here"
                f"{_more(len(different) - 1)}. Set fcnet_hiddens and the other options of the network alike."
            )


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "×".join(map(str, shape)) or "a number"


def _more(count: int) -> str:
    return f" ({count} more differ)" if count else ""


def network_shapes(setup: RllibSetup) -> dict[str, Shapes]:
    """Build the run's networks, without Ray, and return the shapes of their weights."""
    from ray.rllib.core.rl_module.apis import TargetNetworkAPI

    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.env.env import make_rllib_env

    keep_quiet()
    config: Any = configure(setup)
    with closing(make_rllib_env(setup.env_config)) as made:
        env: Any = made
        if setup.single:
            spaces = {DEFAULT_MODULE: (env.observation_space, env.action_space)}
        else:
            first = {module: setup.agents_of(policy)[0] for policy, module in setup.modules.items()}
            spaces = {
                module: (env.observation_spaces[agent], env.action_spaces[agent]) for module, agent in first.items()
            }
        built = config.get_multi_rl_module_spec(spaces=spaces, inference_only=False).build()
    for module in built.values():
        if isinstance(module, TargetNetworkAPI):  # a learner adds them
            module.make_target_networks()
    return {module: shapes_of(built[module].get_state()) for module in spaces}


def _optimizers(start: StartWeights, here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optimizers' states there under the names here; learning rates and the like stay those of this run."""
    if start.parts.root is None:
        raise InputError(f"'{start.source.reference}' holds networks without their optimizer. Leave optimizer out.")
    try:
        with (start.parts.root / _LEARNER).open("rb") as file:
            there = pickle.load(file)["optimizer"]
    except (OSError, KeyError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise FormatError(f"The optimizer in '{start.parts.root / _LEARNER}' cannot be read: {error}") from error
    states: dict[str, Any] = {}
    for name, own in here.items():
        module = own["module_id"]
        source = start.modules.get(module)
        other = there.get(name.replace(module, source, 1)) if source is not None else None
        if source is not None and other is None:
            raise InputError(
                f"'{start.source.reference}' has no optimizer '{name.replace(module, source, 1)}': another algorithm "
                "wrote it. Leave optimizer out."
            )
        if other is not None:
            groups = own["state"]["param_groups"]
            states[name] = {"module_id": module, "state": {**other["state"], "param_groups": groups}}
    return states


def _set_filter(start: StartWeights, setup: RllibSetup, algo: Algorithm) -> None:
    """Take over the observation filter, without which the weights would see other numbers."""
    from mosaic.workers.rllib.env.filters import ObservationFilter

    theirs, ours = observation_filter(start.parts), setup.options.observation_filter == "MeanStdFilter"
    if (theirs is not None) != ours:
        raise InputError(
            f"'{start.source.reference}' was trained {'without' if ours else 'with'} an observation filter. Set "
            f"training.params.observation_filter={'NoFilter' if ours else 'MeanStdFilter'}."
        )
    if theirs is None:
        return
    state = theirs.get_state()

    def load(runner: Any) -> None:
        for connector in runner._env_to_module.connectors:
            if isinstance(connector, ObservationFilter):
                connector.set_state(state)

    runners: Any = algo.env_runner_group
    runners.foreach_env_runner(load, local_env_runner=True)
