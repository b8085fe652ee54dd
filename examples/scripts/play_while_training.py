"""A person plays an agent of an env of Mosaic while a run trains the other agents on these games.

mosaic train external:5555 --set environment.options.env=classic/tictactoe_v3 --agent player_2=human
python examples/scripts/play_while_training.py 5555 classic/tictactoe_v3 player_2
"""

import sys
from typing import Any

from mosaic import EpisodeLostError, LoadedPolicy, PolicyClient, load_policy, make_env

port, name, person = sys.argv[1:4]
policy = sys.argv[4] if len(sys.argv) > 4 else "human"  # or any other policy
episodes = int(sys.argv[5]) if len(sys.argv) > 5 else 1_000_000

env = make_env(name)
others = set(env.spec.possible_agents) - {person}


def play(client: PolicyClient, player: LoadedPolicy, seed: int) -> float:
    """Play a game and return what the person got; every action and reward is reported to the run."""
    episode, turn, total = client.start_episode(), env.reset(seed=seed), 0.0
    player.reset(seed=seed)
    while not turn.over:
        learning, mine = turn.only(others), turn.only({person})
        actions: dict[str, Any] = {}
        if learning.observations:
            masks = dict(learning.action_masks) or None
            actions |= client.get_action(episode, dict(learning.observations), action_mask=masks)
        if mine.observations:
            if policy == "human":
                print(mine.observations[person])
            chosen, masks = dict(player.act(mine)), dict(mine.action_masks) or None
            client.log_action(episode, dict(mine.observations), chosen, action_mask=masks)
            actions |= chosen
        turn = env.step(actions)
        total += turn.rewards.get(person, 0.0)
        client.log_returns(episode, dict(turn.rewards))
    client.end_episode(episode, dict(turn.final_observations))
    return total


with PolicyClient(f"http://127.0.0.1:{port}", wait_s=60) as client, load_policy(policy, env, (person,)) as player:
    for number in range(episodes):
        try:
            print(f"game {number + 1}: {person} {play(client, player, number):+g}")
        except EpisodeLostError as error:  # the run ended: a later one may listen
            print(error)
