"""A person and trained policies as a team against another policy: predators and prey.

python examples/team.py             # you are adversary_0 and type moves: 0 waits, 1 left, 2 right, 3 down, 4 up
python examples/team.py random      # anything else in the person's place

The person sees nothing of the field here: `mosaic play` with the same mapping draws it, and so does the page Play of
the web app. The program prints the command.
"""

from __future__ import annotations

import sys

import mosaic

ENV = "mpe/simple_tag_v3"


def main(person: str = "human", steps: int = 200_000, max_steps: int = 25) -> dict[str, float]:
    """Train predators and prey, then play one episode with a person among the predators; return the returns."""
    run = mosaic.train(ENV, worker="native", algorithm="ppo", total_timesteps=steps, seed=1)
    team = {"adversary_0": person, "adversary_*": f"run:{run.id}", "agent_0": f"run:{run.id}"}
    mapping = " ".join(f"--agent '{agent}={policy}'" for agent, policy in team.items())
    print(f"with pictures: mosaic play {ENV} {mapping}")
    episode = mosaic.play_episode(mosaic.make_env(ENV), team, seed=3, max_steps=max_steps)
    for agent, total in episode.returns.items():
        print(f"{agent}: {total:+.1f}")
    return dict(episode.returns)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "human")
