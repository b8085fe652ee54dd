"""CartPole in a loop of your own, trained by a run of Mosaic: start the run, then this program, as often as you like.

mosaic train external:5555
python examples/scripts/external_env.py 5555
"""

import sys

import gymnasium

from mosaic import EpisodeLostError, PolicyClient

env = gymnasium.make("CartPole-v1")  # anything that observes and acts: a simulator, a game, a robot
port = sys.argv[1] if len(sys.argv) > 1 else "5555"
episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000

with PolicyClient(
    f"http://127.0.0.1:{port}",
    observation_space=env.observation_space,  # the run learns them from its first program
    action_space=env.action_space,
    wait_s=60,  # for a run that is not there yet, or is resumed
) as client:
    for number in range(episodes):
        try:
            episode = client.start_episode()
            observation, info = env.reset(seed=number)
            reward, over = None, False
            while not over:
                action = client.get_action(episode, observation, reward=reward)  # the reward of the last action
                observation, paid, terminated, truncated, info = env.step(int(action))
                reward, over = float(paid), terminated or truncated
            client.end_episode(episode, observation, reward=reward, truncated=not terminated)
        except EpisodeLostError as error:  # the run ended: a later one may listen
            print(error)
