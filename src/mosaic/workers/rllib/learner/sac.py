"""SAC configuration that accepts Mosaic's replay buffers."""

from __future__ import annotations

from ray.rllib.algorithms.sac import SACConfig


class AnyBufferSACConfig(SACConfig):
    """RLlib's configuration, which knows buffers by a list of names, without its refusal of all others."""

    def validate(self) -> None:
        asked = self.replay_buffer_config
        if "." in str(asked["type"]):  # path of a class
            self.replay_buffer_config = {**asked, "type": "MultiAgentEpisodeReplayBuffer"}
        try:
            super().validate()
        finally:
            if self.replay_buffer_config != asked:
                self.replay_buffer_config = asked
