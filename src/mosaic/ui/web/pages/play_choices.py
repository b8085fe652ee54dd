"""Choices for the Play page: policies that fit an environment, and matches that start with one click."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, EnvID, PolicyID
from mosaic.envs.family import split_version
from mosaic.policies.uci.options import missing_stockfish
from mosaic.store.checkpoints import Checkpoint, list_checkpoints
from mosaic.store.index.summary import RunSummary
from mosaic.store.policies.run_policy import policy_for
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.store.views import RunRow

_MOST_RUNS = 12
_RUN_ID = re.compile(r"(?<=\brun:)[^@/,]+")  # also in a policy that uses that of a run: search:run:ID,simulations=200
_TRAINED = frozenset({State.FINISHED, State.STOPPED, State.RUNNING, State.PAUSED})
_FITTING: Mapping[str, tuple[PolicyID, ...]] = {
    "classic/tictactoe": ("minimax", "minimax:depth=2"),
    "classic/connect_four": ("minimax:depth=6", "minimax:depth=2", "minimax"),
    "classic/chess": ("stockfish:elo=1350", "stockfish:skill=0,depth=1", "stockfish:time_s=0.2"),
    "mpe/simple_spread": ("nearest_landmark",),
}


@dataclass(frozen=True, slots=True)
class Quick:
    title: str
    words: str
    env: EnvID
    agents: tuple[tuple[str, PolicyID], ...]


QUICK = (
    Quick(
        "Tic-tac-toe", "against perfect play", "classic/tictactoe_v3", (("player_1", "human"), ("player_2", "minimax"))
    ),
    Quick(
        "Connect Four",
        "against six plies of search",
        "classic/connect_four_v3",
        (("player_0", "human"), ("player_1", "minimax:depth=6")),
    ),
    Quick(
        "Chess",
        "against Stockfish at 1350 Elo",
        "classic/chess_v6",
        (("player_0", "human"), ("player_1", "stockfish:elo=1350")),
    ),
    Quick("Chess for two", "two people, one board", "classic/chess_v6", (("*", "human"),)),
    Quick(
        "Cooperative Pong",
        "two paddles, one keyboard: W\N{NO-BREAK SPACE}S and ↑\N{NO-BREAK SPACE}↓",
        "butterfly/cooperative_pong",
        (("*", "human"),),
    ),
    Quick("Cart Pole", "balance it with the arrow keys", "gym/CartPole-v1", (("*", "human"),)),
)


def policies_for(env: EnvID, rows: Iterable[RunSummary | RunRow]) -> list[PolicyID]:
    """Return `human`, then policies made for the game, runs trained in it, and `random`."""
    name = split_version(env)[0]
    known = _FITTING.get(name, ())
    if name == "classic/chess" and missing_stockfish() is not None:
        known = ()
    runs = [f"run:{row.run_id}" for row in rows if row.env == env and row.state in _TRAINED and row.env_steps]
    return ["human", *known, *runs[:_MOST_RUNS], "random"]


def labels_of(policies: Iterable[PolicyID], rows: Iterable[RunSummary | RunRow]) -> dict[PolicyID, str]:
    """Return what is shown for policies of runs that have a name, since ids of runs are too long for a list."""
    names = {row.run_id: row.name for row in rows if row.name}
    shown = {policy: _RUN_ID.sub(lambda found: names.get(found[0], found[0]), policy) for policy in policies}
    return {policy: label for policy, label in shown.items() if label != policy}


def trained_agents(folder: RunFolder, agents: Iterable[AgentID]) -> frozenset[AgentID]:
    """Return the agents that the run has trained policies for; none as long as it has no checkpoint."""
    saved = list_checkpoints(folder)
    return frozenset(agent for agent in agents if _plays(saved[-1], agent)) if saved else frozenset()


def _plays(checkpoint: Checkpoint, agent: AgentID) -> bool:
    try:
        policy_for(checkpoint, agent)
    except InputError:  # raised where the checkpoint has no policy for the agent
        return False
    return True


def initial_policies(
    agents: tuple[AgentID, ...], opponent: PolicyID, offers: list[PolicyID], trained: Collection[AgentID] = ()
) -> dict[AgentID, PolicyID]:
    """Assign the human to the first agent that the opponent was not trained for, else to the first.

    The opponent gets the rest; where it was trained for only some of them, the others get the first policy that fits.
    """
    fitting = next((policy for policy in offers if policy != "human" and not policy.startswith("run:")), "random")
    other = opponent or next((policy for policy in offers if policy != "human"), "random")
    if len(agents) == 1:
        return {agents[0]: opponent or "human"}
    known = trained or agents
    person = next((agent for agent in agents if agent not in known), agents[0])
    policies = {agent: other if agent in known else fitting for agent in agents}
    return {**policies, person: "human"}
