"""A league of frozen opponents: an earlier run, the learner's own past, and random play.

python examples/league.py
"""

from __future__ import annotations

import mosaic

ENV = "classic/connect_four_v3"


def main(steps: int = 400_000, games: int = 20) -> dict[str, float]:
    """Train a first run, then a second one against it and its own past; return the ratings of a tournament."""
    first = mosaic.train(ENV, worker="native", algorithm="ppo", policies="self_play", total_timesteps=steps, seed=1)
    opponents = [f"run:{first.id}", f"self@-{max(1, steps // 4)}", "random"]
    second = mosaic.train(
        ENV,
        worker="native",
        algorithm="ppo",
        policies="self_play",
        params={"opponents": opponents, "selfplay_share": 0.25},
        total_timesteps=steps,
        seed=2,
    )
    table = mosaic.tournament(ENV, [f"run:{second.id}", f"run:{first.id}", "random"], games=games)
    ratings = {policy: rating.value for policy, rating in table.ratings().items()}
    for policy, rating in ratings.items():
        print(f"{rating:6.0f}  {policy}")
    return ratings


if __name__ == "__main__":
    main()
