"""Buffers that leave out what idle slots did: the steps of agents whose episode continues without them.

SB3's buffers have a row for every slot and step. Rows of idle slots must not be learned from: no agent acted there.
Rollout buffers keep them, so that the advantages of the other rows are computed as usual, and never sample them; replay
buffers do not store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError

Acted = Callable[[], NDArray[np.bool_]]  # slots that acted in the last step


def leave_out_idle(model: Any, acted: Acted) -> None:
    """Replace the buffer of a model by one of the same kind that leaves idle slots out."""
    from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

    if hasattr(model, "rollout_buffer"):
        recurrent = hasattr(model.rollout_buffer, "hidden_states_pi")
        model.rollout_buffer = _with(_LivingSequences if recurrent else _LivingRows, model.rollout_buffer, acted)
        model.rollout_buffer.reset()
        return
    buffer = model.replay_buffer
    if type(buffer) not in (ReplayBuffer, DictReplayBuffer) or model.optimize_memory_usage:
        raise InputError(
            "With several agents that learn, the replay buffer is SB3's own, of single steps. Leave n_steps, "
            "optimize_memory_usage and replay_buffer_class at their defaults."
        )
    model.replay_buffer = _with(_LivingReplay, buffer, acted)
    model.replay_buffer.waiting = []


def _with(part: type, buffer: Any, acted: Acted) -> Any:
    """Return the same buffer with the methods of `part` for adding and sampling."""
    kind: Any = type(f"Living{type(buffer).__name__}", (part, type(buffer)), {})
    made = kind.__new__(kind)
    made.__dict__.update(buffer.__dict__, acted=acted)
    return made


class _Living:
    """Part of a rollout buffer that remembers which rows were acted in."""

    acted: Acted

    def reset(self: Any) -> None:
        super().reset()  # type: ignore[misc]
        self.living = np.ones((self.buffer_size, self.n_envs), bool)

    def add(self: Any, *args: Any, **kwargs: Any) -> None:
        self.living[self.pos] = self.acted()
        super().add(*args, **kwargs)  # type: ignore[misc]


class _LivingRows(_Living):
    """Rows of any order; the last minibatch is left out where it would have one row, as its deviation is not known."""

    def get(self: Any, batch_size: int | None = None) -> Iterator[Any]:
        if not self.generator_ready:
            next(super().get())  # type: ignore[misc]  # lays the rows out, slot by slot
        rows = np.random.permutation(np.flatnonzero(self.living.swapaxes(0, 1).reshape(-1)))
        size = batch_size or len(rows)
        for start in range(0, len(rows), size):
            chosen = rows[start : start + size]
            if len(chosen) > 1 or len(rows) == 1:
                yield self._get_samples(chosen)


class _LivingSequences(_Living):
    """Sequences for recurrent networks, whose mask leaves rows out; minibatches of fewer than two are left out."""

    def get(self: Any, batch_size: int | None = None) -> Iterator[Any]:
        for samples in super().get(batch_size):  # type: ignore[misc]
            if int((samples.mask > 0).sum()) > 1:
                yield samples

    def _get_samples(self: Any, batch_inds: NDArray[np.int64], env_change: Any, env: Any = None) -> Any:
        samples = super()._get_samples(batch_inds, env_change, env)  # type: ignore[misc]
        living = self.living.swapaxes(0, 1).reshape(-1, 1)[batch_inds].astype(np.float32)
        return samples._replace(mask=self.pad_and_flatten(living))


class _LivingReplay:
    """Replay buffer of single steps, which it stores as soon as there are as many as slots."""

    acted: Acted

    def add(self: Any, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        for slot in np.flatnonzero(self.acted()).tolist():
            step = (_row(obs, slot), _row(next_obs, slot), action[slot], reward[slot], done[slot], infos[slot])
            self.waiting.append(step)
        while len(self.waiting) >= self.n_envs:
            ready, self.waiting = self.waiting[: self.n_envs], self.waiting[self.n_envs :]
            seen, following, actions, rewards, dones, facts = zip(*ready, strict=True)
            columns = (_stack(seen), _stack(following), np.stack(actions), np.array(rewards), np.array(dones))
            super().add(*columns, list(facts))  # type: ignore[misc]


def _row(observations: Any, slot: int) -> Any:
    if isinstance(observations, dict):
        return {key: part[slot].copy() for key, part in observations.items()}
    return observations[slot].copy()


def _stack(rows: Any) -> Any:
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)
