"""Policies of SB3 models, written to files: safetensors that plays without SB3, and the zip that SB3 itself loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import InputError, unknown
from mosaic.envs.space_json import space_to_json
from mosaic.workers.sb3.checkpoint.facts import (
    ACTIVATIONS,
    ALGORITHMS,
    CLIP_MEAN,
    NORM_EPS,
    Array,
    Sb3Facts,
    Sb3Policy,
    acting_weights,
    save_policy,
)

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_CLASSES = {
    "PPO": "ppo",
    "A2C": "a2c",
    "TRPO": "trpo",
    "MaskablePPO": "maskable_ppo",
    "RecurrentPPO": "recurrent_ppo",
    "DQN": "dqn",
    "QRDQN": "qrdqn",
    "SAC": "sac",
    "TQC": "tqc",
    "CrossQ": "crossq",
    "TD3": "td3",
    "DDPG": "ddpg",
}
_EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")


def policy_files(name: str) -> tuple[str, str]:
    """Return the files of a policy, relative to its folder: the first plays, SB3 itself loads the second."""
    return f"{name}.safetensors", f"{name}.zip"


def write_policy(
    model: BaseAlgorithm, folder: Path, name: str, *, scaler: tuple[Array, Array] | None = None
) -> tuple[str, str]:
    """Write the policy of a model and return its files, as `policy_files` does.

    `scaler` holds shift and scale of observation rows that a run normalises outside the model. Nothing in the model
    changes, and no random number is drawn.
    """
    plays, loads = policy_files(name)
    save_policy(folder / plays, describe_model(model)._replace(scaler=scaler))
    model.save(folder / loads)
    return plays, loads


def algorithm_of(model: BaseAlgorithm) -> str:
    """Return the algorithm of a model, also where its class is derived from one of SB3's."""
    names = [each.__name__ for each in type(model).__mro__]
    found = next((_CLASSES[name] for name in names if name in _CLASSES), None)
    if found is None:
        raise unknown("algorithm of Stable-Baselines3", names[0], _CLASSES)
    return found


def describe_model(model: BaseAlgorithm) -> Sb3Policy:
    """Return the description and the weights of a model's policy."""
    algorithm, policy = algorithm_of(model), _untyped(model.policy)
    extractor, function = policy.features_extractor_class, policy.activation_fn
    activation = function.__name__ if function.__module__.startswith("torch.") else str(function)
    if extractor.__name__ not in _EXTRACTORS or not _is_known(extractor):
        raise InputError(
            f"The features extractor {extractor.__name__} is not one of SB3's own ({', '.join(_EXTRACTORS)}), so that "
            "its policy cannot be written as a file that plays without it."
        )
    if not _is_known(type(policy)):
        raise InputError(
            f"The policy class {type(policy).__name__} of {type(policy).__module__} is not one of SB3's own, so that "
            "its policy cannot be written as a file that plays without it."
        )
    if activation not in ACTIVATIONS:
        raise unknown("activation of a policy that plays without SB3", activation, ACTIVATIONS)
    actor = getattr(policy, "actor", None)
    noise = policy.dist_kwargs or {} if actor is None and hasattr(policy, "dist_kwargs") else {}
    facts = Sb3Facts(
        algorithm=algorithm,
        observation=space_to_json(model.observation_space),
        action=space_to_json(model.action_space),
        activation=activation,
        normalize_images=bool(policy.normalize_images),
        use_sde=bool(model.use_sde),
        use_expln=bool(getattr(actor, "use_expln", noise.get("use_expln", False))),
        squash_output=bool(noise.get("squash_output", False)),
        clip_mean=float(getattr(actor, "clip_mean", CLIP_MEAN)),
        norm_eps=_norm_eps(actor),
        epsilon=float(model.exploration_rate) if hasattr(model, "exploration_rate") else None,
    )
    state = acting_weights(ALGORITHMS[algorithm], policy.state_dict())
    return Sb3Policy(facts, {name: tensor.detach().cpu().float().numpy() for name, tensor in state.items()})


def _is_known(kind: type[object]) -> bool:
    """Return whether a class is SB3's: one of a user may act in another way with the same weights."""
    return kind.__module__.partition(".")[0] in ("stable_baselines3", "sb3_contrib")


def _norm_eps(actor: Any) -> float:
    layers = [layer for layer in getattr(actor, "latent_pi", ()) if hasattr(layer, "ra_mean")]
    return float(layers[0].eps) if layers else NORM_EPS


def _untyped(policy: Any) -> Any:
    """Return a policy whose attributes depend on its class, which mypy cannot know."""
    return policy
