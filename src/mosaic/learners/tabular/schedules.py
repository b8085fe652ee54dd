"""How epsilon and the learning rate change with time."""

from __future__ import annotations

from typing import assert_never

from mosaic.learners.tabular.settings import TabularOptions


def epsilon_after(options: TabularOptions, epsilon: float, episode: int) -> float:
    """Epsilon once `episode` episodes are over, from the epsilon of the last of them."""
    match options.epsilon_schedule:
        case "constant":
            return epsilon
        case "exponential":
            return exponential(epsilon, options.epsilon_decay, min(options.epsilon_min, options.epsilon))
        case "linear":
            floor = min(options.epsilon_min, options.epsilon)
            return linear(options.epsilon, floor, episode, options.epsilon_episodes)
    assert_never(options.epsilon_schedule)


def exponential(epsilon: float, decay: float, floor: float) -> float:
    """One step: multiplying again and again is equal in every language, powers are not."""
    return max(floor, epsilon * decay)


def linear(start: float, floor: float, episode: int, episodes: int) -> float:
    """A straight line from `start` at episode 0 to `floor` at `episodes`, flat after it."""
    return floor if episode >= episodes else start + (floor - start) * (episode / episodes)


def rate_by_visits(visits: int, floor: float) -> float:
    """The learning rate of a pair's n-th update under which its value is the average of its targets."""
    return max(1.0 / visits, floor)
