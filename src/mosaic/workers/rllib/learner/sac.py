"""SAC with a replay buffer of our own."""

from __future__ import annotations

from ray.rllib.algorithms.sac import SACConfig


class AnyBufferSACConfig(SACConfig):
    """RLlib's, which knows buffers by a list of names and refuses every other one."""

    def validate(self) -> None:
        asked = self.replay_buffer_config
        if "." in str(asked["type"]):  # the path of a class
            self.replay_buffer_config = {**asked, "type": "MultiAgentEpisodeReplayBuffer"}
        try:
            super().validate()
        finally:
            if self.replay_buffer_config != asked:
                self.replay_buffer_config = asked
