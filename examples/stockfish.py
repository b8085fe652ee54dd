"""A learner against Stockfish: PPO learns chess with Stockfish at its lowest level as opponent, and is rated.

python examples/stockfish.py        # needs Stockfish: apt install stockfish
"""

from __future__ import annotations

import mosaic

ENV = "classic/chess_v6"
ENGINE = "stockfish:skill=0,nodes=10"


def main(steps: int = 20_000, games: int = 2, max_steps: int = 200) -> dict[str, float]:
    """Return the rating of each policy in a small tournament."""
    run = mosaic.train(
        ENV,
        worker="native",
        algorithm="ppo",
        policies="parameter_sharing",
        agents={"player_1": ENGINE},
        total_timesteps=steps,
        seed=1,
    )
    asked = [f"run:{run.id}/shared", ENGINE, "random"]  # trained for one side, it plays both
    table = mosaic.tournament(ENV, asked, games=games, max_steps=max_steps)
    ratings = {policy: rating.value for policy, rating in table.ratings().items()}
    print(ratings)
    return ratings


if __name__ == "__main__":
    main()
