"""Policy from a zip that SB3 wrote: `sb3:FILE[,algo=NAME]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from mosaic.core.errors import FormatError, InputError, TrustError, unknown
from mosaic.core.files import file_stamp
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_json import Document
from mosaic.policies.controller import (
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Sampling,
    TrainedPolicyOptions,
    default_sampling,
)
from mosaic.policies.network import ScalerArrays
from mosaic.store.archives.trust import VARIABLE, trust_given
from mosaic.store.checkpoint_record import PolicyEntry
from mosaic.store.policies.foreign_checkpoint import ForeignSource
from mosaic.workers.sb3.checkpoint.controllers import make_controller
from mosaic.workers.sb3.checkpoint.facts import (
    ACTIVATIONS,
    ALGORITHMS,
    CLIP_MEAN,
    NORM_EPS,
    Family,
    Sb3Facts,
    Sb3Policy,
    Weights,
    acting_weights,
    save_policy,
)
from mosaic.workers.sb3.checkpoint.space_text import UnreadableSpaceError, space_from_fields
from mosaic.workers.sb3.checkpoint.statistics import (
    VecNormalizeStatistics,
    read_statistics,
    scaler_of,
    statistics_beside,
)
from mosaic.workers.sb3.checkpoint.zip_file import POLICY, Fields, Sb3Zip, read_zip

_OURS = ("stable_baselines3.", "sb3_contrib.")
_EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
_CLASS = re.compile(r"<class '(?P<module>[\w.]+)\.(?P<name>\w+)'>")
_MODULES = {
    "maskable": "maskable_ppo",
    "recurrent": "recurrent_ppo",
    "qrdqn": "qrdqn",
    "tqc": "tqc",
    "crossq": "crossq",
}
_KNOWN_EXTRACTOR = re.compile(
    r"^(actor\.|q_net\.|quantile_net\.|pi_)?features_extractor\.(extractors\.[^.]+\.)?(cnn\.[024]|linear\.0)\.(weight|bias)$"
)


class NeedsPickleError(TrustError):
    """Field of a zip that only its pickle could restore."""


class Sb3PolicyOptions(TrainedPolicyOptions):
    path: str = Field(min_length=1, description="Zip that SB3's model.save() wrote.")
    algo: str | None = Field(None, description="Its algorithm, such as ppo or sac; default: found in the file.")


def play_zip(path: Path, request: PolicyRequest, algorithm: str | None = None) -> PolicyController:
    """Return a controller for a zip; where only a pickle could restore a part, SB3 itself loads it with `--trust`."""
    found = read_zip(path)
    name = zip_algorithm(found, algorithm)
    try:
        policy = describe_zip(found, name)
    except NeedsPickleError:
        if not trust_given():
            raise
        from mosaic.workers.sb3.checkpoint.trusted_controller import TrustedSb3Controller

        return TrustedSb3Controller(path, name, request)
    try:
        return make_controller(policy, request)
    except FormatError as error:
        raise FormatError(f"'{path}': {error}") from error


def describe_zip(found: Sb3Zip, algorithm: str) -> Sb3Policy:
    """Return the policy in a zip, described by its JSON; raise NeedsPickleError where that is not enough."""
    fields, weights = found.fields, acting_weights(ALGORITHMS[algorithm], found.weights)
    kwargs = fields.get("policy_kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise FormatError(f"'{found.path}': policy_kwargs is not an object.")
    _check_classes(found, kwargs, weights)
    default = "Tanh" if ALGORITHMS[algorithm] == "actor_critic" else "ReLU"
    facts = Sb3Facts(
        algorithm=algorithm,
        observation=_space(found, "observation_space"),
        action=_space(found, "action_space"),
        activation=_activation(found, kwargs, default),
        normalize_images=_flag(found, kwargs, "normalize_images", True),
        use_sde=_flag(found, fields, "use_sde", False),
        use_expln=_flag(found, kwargs, "use_expln", False),
        squash_output=_flag(found, kwargs, "squash_output", False),
        clip_mean=_number(found, kwargs, "clip_mean", CLIP_MEAN),
        norm_eps=_number(found, kwargs, "batch_norm_eps", NORM_EPS),
        epsilon=_number(found, fields, "exploration_rate", 1.0) if "exploration_rate" in fields else None,
    )
    return Sb3Policy(facts, weights, _scaler(found, facts.observation))


def zip_algorithm(found: Sb3Zip, asked: str | None = None) -> str:
    """Return the algorithm of a zip, or the asked one if it fits its weights."""
    family = _family(found)
    if asked is None:
        return _detected(found.fields, found.weights, family)
    if asked not in ALGORITHMS:
        raise unknown("algorithm of a zip of SB3", asked, ALGORITHMS)
    if ALGORITHMS[asked] != family:
        fitting = ", ".join(name for name, each in ALGORITHMS.items() if each == family)
        raise InputError(f"'{found.path}' holds no {asked} policy: its weights are those of one of {fitting}.")
    return asked


def _family(found: Sb3Zip) -> Family:
    names = found.weights
    if "action_net.weight" in names and any(name.startswith(("mlp_extractor.", "value_net.")) for name in names):
        return "actor_critic"
    if any(name.startswith("quantile_net.quantile_net.") for name in names):
        return "quantiles"
    if any(name.startswith("q_net.q_net.") for name in names):
        return "values"
    if any(name.startswith("actor.log_std") for name in names):
        return "squashed"
    if any(name.startswith("actor.mu.") for name in names):
        return "deterministic"
    raise InputError(
        f"'{found.path}' is not a policy of {', '.join(ALGORITHMS)}: its weights begin with '{min(names)}'."
    )


def _detected(fields: Fields, weights: Weights, family: Family) -> str:
    """Return the algorithm, by where its policy's class was defined and by the settings that the model has."""
    module = str(_inner(fields.get("policy_class")).get("__module__", ""))
    told = next((name for part, name in _MODULES.items() if part in module.split(".")), None)
    if told is not None and ALGORITHMS[told] == family:
        return told
    if family == "actor_critic":
        if any(name.startswith("lstm_actor.") for name in weights):
            return "recurrent_ppo"
        return "ppo" if "clip_range" in fields else "a2c"
    return next(name for name, each in ALGORITHMS.items() if each == family)


def _check_classes(found: Sb3Zip, kwargs: Fields, weights: Weights) -> None:
    """Raise NeedsPickleError for a class that a user wrote: its code is not in the JSON."""
    module = str(_inner(found.fields.get("policy_class")).get("__module__", _OURS[0]))
    if not module.startswith(_OURS):
        raise _needs_pickle(found, "policy_class", f"a class of {module}")
    extractor = kwargs.get("features_extractor_class")
    if extractor is not None:
        named = _CLASS.search(str(extractor))
        if named is None or not named["module"].startswith(_OURS) or named["name"] not in _EXTRACTORS:
            raise _needs_pickle(found, "policy_kwargs.features_extractor_class", str(extractor))
    stranger = next(
        (name for name in weights if "features_extractor." in name and not _KNOWN_EXTRACTOR.match(name)), None
    )
    if stranger is not None:
        raise _needs_pickle(
            found, "policy_kwargs.features_extractor_class", f"unknown, and has the weights '{stranger}'"
        )


def _space(found: Sb3Zip, field: str) -> Any:
    try:
        return space_from_fields(found.fields.get(field))
    except UnreadableSpaceError as error:
        raise _needs_pickle(found, field, str(error)) from error


def _activation(found: Sb3Zip, kwargs: Fields, default: str) -> str:
    if "activation_fn" not in kwargs:
        return default
    named = _CLASS.search(str(kwargs["activation_fn"]))
    if named is None or not named["module"].startswith("torch.nn.") or named["name"] not in ACTIVATIONS:
        raise _needs_pickle(found, "policy_kwargs.activation_fn", str(kwargs["activation_fn"]))
    return named["name"]


def _flag(found: Sb3Zip, fields: Fields, name: str, default: bool) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise FormatError(f"'{found.path}': {name} should be true or false, not {value!r}.")
    return value


def _number(found: Sb3Zip, fields: Fields, name: str, default: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, Mapping):  # a number of numpy, which SB3 pickles
        raise _needs_pickle(found, name, str(value.get(":type:", "no number")))
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        raise FormatError(f"'{found.path}': {name} should be a number, not {value!r}.")
    return float(value)


def _inner(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _needs_pickle(found: Sb3Zip, field: str, what: str) -> NeedsPickleError:
    return NeedsPickleError(
        f"'{found.path}': its field {field} is {what[:200]}, which only a pickle in the zip could restore, and a "
        f"pickle runs code when it is loaded. If you trust its origin, add --trust (or set {VARIABLE}=1), and SB3 "
        "itself loads it."
    )


def _scaler(found: Sb3Zip, observation: Document) -> ScalerArrays | None:
    """Return how VecNormalize scaled observations."""
    statistics = zip_statistics(found)
    return None if statistics is None else scaler_of(statistics, observation)


def zip_statistics(found: Sb3Zip) -> VecNormalizeStatistics | None:
    """Return the statistics beside a zip, None if it was trained without VecNormalize; raise if they are missing."""
    beside = statistics_beside(found.path)
    if beside is not None:
        return read_statistics(found.path.parent / beside)
    if _family(found) != "actor_critic" or found.fields.get("_last_original_obs") is None:
        return None  # on-policy algorithms keep it only with VecNormalize; the others always do, see `zip_note`
    raise InputError(
        f"'{found.path}' was trained with VecNormalize (it keeps the original of a normalised observation), and "
        "without its statistics it would see other observations than in training. Put the file that env.save() wrote "
        "beside it as vecnormalize.pkl; its numbers are read without unpickling."
    )


def zip_note(path: Path) -> str | None:
    """Return what a zip does not say: off-policy algorithms keep the same fields with VecNormalize and without."""
    found = read_zip(path)
    unknown_scale = _family(found) != "actor_critic" and found.fields.get("_last_original_obs") is not None
    if not unknown_scale or statistics_beside(path) is not None:
        return None
    return (
        f"'{path}' does not say whether it was trained with VecNormalize (off-policy algorithms keep no sign of it), "
        "and sees observations as the env gives them. If it was, put the file that env.save() wrote beside it as "
        "vecnormalize.pkl."
    )


def _sampling(options: Sb3PolicyOptions, algorithm: str, spec: EnvSpec) -> Sampling | None:
    if options.sample or options.temperature is not None:
        return Sampling(options.temperature)
    stochastic = ALGORITHMS[algorithm] in ("actor_critic", "squashed")
    return None if options.sample is False else default_sampling(spec, stochastic=stochastic)


def play_source(source: ForeignSource, request: PolicyRequest) -> PolicyController:
    """Return a controller for `checkpoint:FILE`, which draws where `sb3:FILE` does."""
    if source.policy not in (None, POLICY):
        raise InputError(f"'{request.reference}': a zip of SB3 holds one policy, without a name. Leave policy out.")
    drawn = request.sampling
    asked = True if drawn is not None else False if source.best else None
    options = Sb3PolicyOptions(
        path=str(source.path), algo=source.algorithm, sample=asked, temperature=drawn.temperature if drawn else None
    )
    return _make(options, request)


def convert_zip(source: ForeignSource, folder: Path, request: PolicyRequest) -> dict[str, PolicyEntry]:
    """Write the policy of a zip as a run writes it; what only a pickle could restore needs `--trust`."""
    if source.policy not in (None, POLICY):
        raise InputError(f"'{request.reference}': a zip of SB3 holds one policy, without a name. Leave policy out.")
    found = read_zip(source.path)
    algorithm = zip_algorithm(found, source.algorithm)
    try:
        policy = describe_zip(found, algorithm)
    except NeedsPickleError:
        if not trust_given():
            raise
        from mosaic.workers.sb3.checkpoint.trusted_controller import load_model
        from mosaic.workers.sb3.checkpoint.writer import describe_model

        policy = describe_model(load_model(source.path, algorithm))
        policy = policy._replace(scaler=_scaler(found, policy.facts.observation))
    make_controller(policy, request).close()  # refuses what does not fit, with the differences
    save_policy(folder / f"{POLICY}.safetensors", policy)
    stochastic = ALGORITHMS[algorithm] in ("actor_critic", "squashed")
    normalized = policy.scaler is not None
    files = (f"{POLICY}.safetensors",)
    return {POLICY: PolicyEntry(files=files, agents=("*",), stochastic=stochastic, normalized=normalized)}


def _make(options: Sb3PolicyOptions, request: PolicyRequest) -> PolicyController:
    path = Path(options.path).expanduser().absolute()
    algorithm = zip_algorithm(read_zip(path), options.algo)
    wanted = replace(request, sampling=_sampling(options, algorithm, request.spec))
    return play_zip(path, wanted, algorithm)


def _notes(options: Sb3PolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    _make(options, request).close()  # raises where it cannot play
    note = zip_note(Path(options.path).expanduser().absolute())
    return () if note is None else (note,)


kind = PolicyKind(
    usage="sb3:FILE[,algo=NAME][,sample=true][,temperature=T]",
    help="Policy from a zip that Stable-Baselines3 wrote; nothing in it is unpickled.",
    make=_make,
    notes=_notes,
    options=Sb3PolicyOptions,
    first="path",
    version=lambda options: file_stamp(Path(options.path).expanduser()),
)
