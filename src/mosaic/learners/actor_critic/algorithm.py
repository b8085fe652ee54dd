"""SAC and TD3: act with noise, store decisions in a replay buffer, and learn actor and twin critics from them.

See kernels.py for the mathematics, rollout/off_policy.py for the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.encoding import ActionRange
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.actor_critic import kernels as places
from mosaic.learners.actor_critic.engine import FusedActorCriticEngine
from mosaic.learners.actor_critic.kernels import ActorCriticHyper
from mosaic.learners.actor_critic.options import ActorCriticOptions, SacOptions, Td3Options
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import WORKER_PREFIX
from mosaic.learners.dqn.checks import buffer_rows
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.rollout.off_policy import OffPolicyLearner
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays

_CHUNK_STEPS, _CHUNK_UPDATES = 256, 16  # a chunk takes at most some tens of milliseconds


class ActorCriticLearner(OffPolicyLearner[FusedActorCriticEngine]):
    """Learner of one continuous policy; a run in a compiled env continues bit for bit where it was saved."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        architecture: Architecture,
        options: ActorCriticOptions,
        action_range: ActionRange,
        seed: int,
        total_env_steps: int | None = None,
    ) -> None:
        shape = vector.shape
        hyper = make_hyper(options, shape.envs, shape.parts, learns=plan.trained[0])
        per_step = hyper.gradient_steps / hyper.train_freq
        chunk = max(1, min(_CHUNK_STEPS // shape.envs, int(_CHUNK_UPDATES / max(per_step, 1e-9))))
        size = buffer_rows(options.buffer_size, shape.envs, len(shape.agents), total_env_steps)
        engine = FusedActorCriticEngine(
            architecture, shape, hyper, action_range, options.batch_size, size, seed, first_ent_coef(options)
        )
        self._learning_starts, self._saves_replay = options.learning_starts, options.save_replay
        super().__init__(vector, plan, engine, chunk, seed, total_env_steps)

    def _tell_losses(self) -> None:
        self._losses |= explain_actor_critic(self.engine.stats)

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        """Load the actor; its critics start from new weights."""
        if seen is not None:
            raise InputError(
                "That policy was trained on normalised observations, but SAC and TD3 do not normalise them."
            )
        self.engine.load(flat)

    def judge(self, obs: NDArray[np.float32]) -> tuple[float, float, float]:
        """Return the lower critic's value of the policy's action, and the mean and deviation of its first number.

        Mean and deviation are of the number before it is squashed; that of a deterministic policy is 0.
        """
        return self.engine.judge(obs)

    def training_state(self) -> StateArrays:
        """Return all that a new attempt needs except the weights: networks, optimisers, replay buffer and episodes."""
        name = self.plan.names[0]
        own = self.engine.training_state(replay=self._saves_replay)
        state = {f"{name}/{key}": value for key, value in own.items()}
        return state | {WORKER_PREFIX + key: value.copy() for key, value in self._episodes().items()}

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        """Continue; envs that Python steps begin new episodes."""
        name = self.plan.names[0]
        self.engine.load(weights[0])
        own = {key.removeprefix(f"{name}/"): value for key, value in state.items() if key.startswith(f"{name}/")}
        self.engine.load_training_state(own, self.before.env_steps, self._learning_starts)
        for key, array in self._episodes().items():
            stored = state.get(WORKER_PREFIX + key)
            if stored is not None and stored.shape == array.shape:
                array[...] = stored

    def _episodes(self) -> StateArrays:
        """Return the arrays of the episodes in progress, which only a compiled env can continue."""
        if not isinstance(self.vector, CompiledVector):
            return {}
        vector = self.vector
        state: StateArrays = {"state": vector.state, "ints": vector.ints, "rng": vector.rng}
        for name, arrays in (
            ("env", vector.arrays._asdict()),
            ("held", self.engine.agent.held._asdict()),
            ("assignment", self._assignment._asdict()),
            ("tally", self._tally._asdict()),
        ):
            state |= {f"{name}.{field}": array for field, array in arrays.items()}
        return {name: array for name, array in state.items() if array.size}


def first_ent_coef(options: ActorCriticOptions) -> float:
    if not isinstance(options, SacOptions):
        return 1.0
    return options.initial_ent_coef if options.ent_coef is None else options.ent_coef


def make_hyper(options: ActorCriticOptions, envs: int, parts: int, *, learns: bool) -> ActorCriticHyper:
    soft = options if isinstance(options, SacOptions) else None
    sharp = options if isinstance(options, Td3Options) else None
    delay = sharp.policy_delay if sharp is not None else soft.target_update_interval if soft is not None else 1
    updates = options.train_freq * envs if options.gradient_steps < 0 else options.gradient_steps
    aimed = None if soft is None else soft.target_entropy
    return ActorCriticHyper(
        soft=np.int64(soft is not None),
        learning_rate=np.float64(options.learning_rate),
        random_steps=np.int64(options.learning_starts),
        gamma=np.float32(options.gamma),
        tau=np.float32(options.tau),
        train_freq=np.int64(options.train_freq),
        gradient_steps=np.int64(updates if learns else 0),
        delay=np.int64(delay),
        learns_entropy=np.int64(soft is not None and soft.ent_coef is None),
        target_entropy=np.float32(-parts if aimed is None else aimed),
        exploration_noise=np.float32(0 if sharp is None else sharp.exploration_noise),
        target_noise=np.float32(0 if sharp is None else sharp.target_policy_noise),
        noise_limit=np.float32(0 if sharp is None else sharp.target_noise_clip),
    )


def explain_actor_critic(stats: NDArray[np.float64]) -> dict[str, float]:
    """Return means over the updates of a chunk; empty where there was none."""
    updates, made = stats[places.UPDATES], stats[places.ACTOR_UPDATES]
    if not updates:
        return {}
    found = {
        "critic_loss": float(stats[places.CRITIC_LOSS] / updates),
        "q_value": float(stats[places.Q_VALUE] / updates),
        "updates": float(updates),
    }
    if made:
        found["actor_loss"] = float(stats[places.ACTOR_LOSS] / made)
    if stats[places.ENT_COEF]:
        found |= {
            "entropy": float(stats[places.ENTROPY] / updates),
            "ent_coef": float(stats[places.ENT_COEF] / updates),
        }
    return found
