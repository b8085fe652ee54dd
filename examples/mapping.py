"""Functions that choose policies while training: who plays which agent in an episode, and which policies train.

mosaic train mpe/simple_tag_v3 --steps 20000 --agent python:examples.mapping:two_preys \
    --set training.policies.fast.learning_rate=1e-2 --set training.policies.slow.network.hidden='[16]'
mosaic train classic/tictactoe_v3 --worker native --steps 20000 --agent python:examples.mapping:harder_and_harder
mosaic train mpe/simple_tag_v3 --steps 20000 --worker rllib --set policies_to_train=python:examples.mapping:in_turns
"""

from __future__ import annotations

from typing import Any

from mosaic.plugins import AgentID, PolicyID


def two_preys(agent_id: AgentID, episode: int) -> PolicyID:
    """Let two prey policies train in turns against the same hunters."""
    if agent_id.startswith("adversary"):
        return "hunters"
    return "fast" if episode % 2 == 0 else "slow"


def harder_and_harder(agent_id: AgentID, episode: int) -> PolicyID:
    """Let player_1 learn against a random opponent first, and then in every other episode against a perfect one."""
    if agent_id == "player_1":
        return "student"
    return "minimax" if episode >= 200 and episode % 2 else "random"


_batches = {"adversary": 0, "agent": 0}


def in_turns(policy: PolicyID, batch: Any) -> bool:
    """Train hunters and prey in turns, ten batches each; RLlib asks about both with every batch."""
    _batches[policy] += 1
    hunting = (_batches[policy] - 1) // 10 % 2 == 0
    return hunting == (policy == "adversary")
