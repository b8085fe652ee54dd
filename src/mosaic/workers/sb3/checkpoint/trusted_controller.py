"""Controller for a zip whose parts only SB3 itself can restore: it unpickles, and is made only with `--trust`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.core.errors import FormatError, InputError, MissingExtraError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.space_json import space_to_json
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.sb3.checkpoint.controllers import agent_codes
from mosaic.workers.sb3.checkpoint.facts import Sb3Facts

_CLASSES = {
    "ppo": "stable_baselines3:PPO",
    "a2c": "stable_baselines3:A2C",
    "dqn": "stable_baselines3:DQN",
    "sac": "stable_baselines3:SAC",
    "td3": "stable_baselines3:TD3",
    "ddpg": "stable_baselines3:DDPG",
    "trpo": "sb3_contrib:TRPO",
    "maskable_ppo": "sb3_contrib:MaskablePPO",
    "recurrent_ppo": "sb3_contrib:RecurrentPPO",
    "qrdqn": "sb3_contrib:QRDQN",
    "tqc": "sb3_contrib:TQC",
    "crossq": "sb3_contrib:CrossQ",
}


def load_model(path: Path, algorithm: str) -> Any:
    """Return the model in a zip, loaded by SB3: the caller has made sure that the user trusts it."""
    module, _, name = _CLASSES[algorithm].partition(":")
    try:
        loader: Any = getattr(import_module(module), name)
    except ImportError as error:
        raise MissingExtraError(f"'{path}' needs SB3 itself: pip install 'mosaic-rl[sb3]'") from error
    try:
        return loader.load(path, device="cpu")
    except Exception as error:  # whatever the user's own classes raise
        raise FormatError(f"'{path}': SB3 cannot load it: {type(error).__name__}: {error}") from error


class TrustedSb3Controller:
    """Controller that asks SB3's `predict`. Every agent has its own memory."""

    def __init__(self, path: Path, algorithm: str, request: PolicyRequest) -> None:
        if request.sampling is not None and request.sampling.temperature is not None:
            raise InputError(
                f"'{request.reference}' is played by SB3 itself, which draws actions as trained: use sample=true "
                "instead of a temperature."
            )
        self._deterministic = request.sampling is None
        self._model = load_model(path, algorithm)
        spaces = (space_to_json(self._model.observation_space), space_to_json(self._model.action_space))
        self._actions = agent_codes(Sb3Facts(algorithm, *spaces, "ReLU"), request).actions
        self._masked = algorithm == "maskable_ppo"
        self._memory: dict[AgentID, Any] = {}
        self._streams: tuple[Any, Any] | None = None
        self.begin(request.agents, request.seed)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._memory.clear()
        with self._own_streams():
            torch: Any = import_module("torch")
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            self._model.action_space.seed(seed % 2**31)
            if self._model.use_sde:
                self._model.policy.reset_noise()

    def forget(self, agent: AgentID) -> None:
        self._memory.pop(agent, None)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        with self._own_streams():
            return {agent: self._act(agent, turn) for agent in turn.observations}

    def close(self) -> None:
        pass

    @contextmanager
    def _own_streams(self) -> Iterator[None]:
        """Let SB3 draw from this controller's own random streams: it uses the process's, which belong to others."""
        torch: Any = import_module("torch")
        before = torch.get_rng_state(), np.random.get_state()
        torch.set_rng_state((self._streams or before)[0])
        np.random.set_state((self._streams or before)[1])
        try:
            yield
        finally:
            self._streams = torch.get_rng_state(), np.random.get_state()
            torch.set_rng_state(before[0])
            np.random.set_state(before[1])

    def _act(self, agent: AgentID, turn: Turn) -> Action:
        mask = turn.action_masks.get(agent)
        masks = {"action_masks": np.ravel(mask).astype(bool)} if self._masked and mask is not None else {}
        chosen, self._memory[agent] = self._model.predict(
            turn.observations[agent], state=self._memory.get(agent), deterministic=self._deterministic, **masks
        )
        return chosen if np.ndim(chosen) else int(chosen)
