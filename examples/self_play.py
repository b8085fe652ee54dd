"""Self-play from scratch: PPO learns tic-tac-toe against itself and a league of its past, then meets perfect play.

python examples/self_play.py
"""

from __future__ import annotations

import mosaic

ENV = "classic/tictactoe_v3"


def main(steps: int = 400_000, episodes: int = 200) -> dict[str, float]:
    """Return the share of games that the trained policy does not lose, by opponent."""
    run = mosaic.train(ENV, worker="native", algorithm="ppo", policies="self_play", total_timesteps=steps, seed=1)
    print(f"trained {run.id}: {run.metrics()['env_steps'][-1]:,} env steps")
    results = {}
    for opponent in ("random", "minimax"):
        result = mosaic.evaluate(ENV, {"player_1": f"run:{run.id}", "player_2": opponent}, episodes=episodes, seed=7)
        row = result.agents["player_1"]
        results[opponent] = 1 - (row.losses or 0) / episodes
        print(f"against {opponent}: {row.wins} won, {row.draws} drawn, {row.losses} lost")
    return results


if __name__ == "__main__":
    main()
