"""Recorded play as arrays: record an expert, load its steps, and measure how often a simple imitator agrees with it.

python examples/demonstrations.py
"""

from __future__ import annotations

from collections import Counter, defaultdict

import mosaic

ENV, AGENT = "classic/tictactoe_v3", "player_1"


def main(episodes: int = 200) -> float:
    """Return the share of held-out steps in which the most frequent action seen in a state is the expert's."""
    mosaic.evaluate(
        ENV, {AGENT: "minimax", "player_2": "random"}, episodes=episodes, recorder=mosaic.record_demo("expert")
    )
    steps = mosaic.load_demo("demo:expert", agents=[AGENT])
    held_out = steps.trajectory % 5 == 0
    states = [observation.tobytes() for observation in steps.observations]
    seen: dict[bytes, Counter[int]] = defaultdict(Counter)
    for state, action, out in zip(states, steps.actions, held_out, strict=True):
        if not out:
            seen[state][int(action)] += 1
    known = [index for index in held_out.nonzero()[0] if states[index] in seen]
    agreement = sum(seen[states[index]].most_common(1)[0][0] == steps.actions[index] for index in known) / len(known)
    assert steps.masks is not None  # of a board game
    by_chance = (1 / steps.masks[known].sum(axis=1)).mean()  # a random legal action; the expert has several good ones
    print(
        f"{len(steps)} steps of {', '.join(set(steps.controllers))}; {len(known)} held-out ones in states seen before"
    )
    print(f"agreement {agreement:.0%}, by chance {by_chance:.0%}")
    return float(agreement)


if __name__ == "__main__":
    main()
