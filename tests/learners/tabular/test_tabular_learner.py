"""The learner as a library object: it refuses nonsense, trains in envs, and goes on exactly from a file."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.learners.tabular.engines import base as engine
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.optimal import value_iteration
from mosaic.learners.tabular.options import ALGORITHMS, TabularOptions


def test_bad_input_is_refused_in_words_and_changes_nothing() -> None:
    table = TabularLearner(3, 2)
    refusals = {
        "The reward is nan; it should be a finite number. The table was not changed.": (0, 0, float("nan"), 1, False),
        "The reward is inf; it": (0, 0, float("inf"), 1, False),
        "The state 3 is outside the table, which has states 0..2.": (3, 0, 0.0, 1, False),
        "The state -1 is outside": (0, 0, 0.0, -1, False),
        "The action 2 is outside the table, which has actions 0..1.": (0, 2, 0.0, 1, False),
        "The state is 0.5; it should be a whole number in 0..2.": (0.5, 0, 0.0, 1, False),
    }
    for text, step in refusals.items():
        with pytest.raises(InputError, match=f"^{text}"):
            table.update(*step)  # type: ignore[arg-type]
    nothing = "The mask of state 1 allows no action. An episode without legal actions is over: the env should set"
    with pytest.raises(InputError, match=nothing):
        table.update(0, 0, 1.0, 1, False, [False, False])
    with pytest.raises(InputError, match=nothing):
        table.select_action(1, [False, False])
    with pytest.raises(InputError, match=nothing):
        table.greedy(1, [False, False])
    with pytest.raises(
        InputError, match=r"The mask has the shape \(3,\); it should have one entry for each of 2 actions."
    ):
        table.select_action(1, [True, True, True])
    assert not table.values.any()
    assert not table.visits.any()
    table.update(0, 0, 1.0, 1, True, [False, False])  # a full board is no reason to complain


def test_bad_batches_are_refused() -> None:
    table = TabularLearner(3, 2)
    with pytest.raises(
        InputError, match=r"^actions has the shape \(1,\); there are 2 states, so it should be \(2,\).$"
    ):
        table.batch_update([0, 1], [0], [0.0, 0.0], [1, 1], [False, False])
    with pytest.raises(InputError, match=r"^The state 7 is outside the table"):
        table.batch_update([0, 7], [0, 0], [0.0, 0.0], [1, 1], [False, False])
    with pytest.raises(InputError, match=r"^The reward is nan"):
        table.batch_update([0, 1], [0, 0], [0.0, np.nan], [1, 1], [False, False])
    with pytest.raises(InputError, match=r"^The mask of state 2 allows no action"):
        table.batch_update([0], [0], [0.0], [2], [False], [[False, False]])
    with pytest.raises(InputError, match=r"^next_masks has the shape \(1, 3\); it should be \(1, 2\).$"):
        table.batch_update([0], [0], [0.0], [2], [False], [[True, True, True]])
    assert not table.visits.any()


def test_a_batch_with_a_pair_twice_learns_twice() -> None:
    table = TabularLearner(3, 2, options=TabularOptions(learning_rate=0.5, dtype="float64"))
    errors = table.batch_update([0, 0], [1, 1], [1.0, 1.0], [2, 2], [True, True])
    assert errors.tolist() == [1.0, 0.5]
    assert table.values[0, 1] == 0.75
    assert table.epsilon == 0.1  # retold, not lived


def test_values_that_overflow_are_reported() -> None:
    table = TabularLearner(2, 1, options=TabularOptions(learning_rate=1.0, discount_factor=1.0))
    table.update(0, 0, 3e38, 1, True)
    table.update(1, 0, 3e38, 0, False)
    with pytest.raises(InputError, match=r"no longer a finite number: the rewards are too large for the table"):
        table.update(1, 0, 3e38, 1, False)


def test_options_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"^epsilon is 1.5: it should be in 0..1.$"):
        TabularLearner(2, 2).epsilon = 1.5
    with pytest.raises(
        InputError, match=r"^There is no tabular algorithm named 'qlearning'. Did you mean 'q_learning'\?"
    ):
        TabularLearner(2, 2, "qlearning")
    with pytest.raises(InputError, match=r"^A table needs a whole number of states, at least 1, not 0.$"):
        TabularLearner(0, 2)


def test_a_table_that_does_not_fit_is_refused_with_its_size() -> None:
    text = r"^A table of 1,000,000,000,000 states × 4 actions needs 32,000,000,000,000 bytes; [\d,]+ are free here. "
    with pytest.raises(InputError, match=text + r"Use fewer bins .* --worker native$"):
        TabularLearner(10**12, 4)
    assert engine.table_bytes(10, 2, 2, TabularOptions(dtype="float64")) == 10 * 2 * (2 * 8 + 4)


def test_training_wants_one_limit_and_an_env_that_fits() -> None:
    env = make_env("gym/FrozenLake-v1")
    text = r"^Give either episodes or steps: train\(env, episodes=1000\) or train\(env, steps=100_000\).$"
    for limits in ({}, {"episodes": 1, "steps": 1}):
        with pytest.raises(InputError, match=text):
            TabularLearner(16, 4).train(env, **limits)
    with pytest.raises(
        InputError, match=r"16 states and 4 actions, the table has 5 and 4. .*: TabularLearner\(16, 4\)$"
    ):
        TabularLearner(5, 4).train(env, steps=1)
    env.close()
    game = make_env("classic/tictactoe_v3")
    with pytest.raises(
        InputError, match=r"^classic/tictactoe_v3 has 2 agents; TabularLearner.train plays envs of one."
    ):
        TabularLearner(5, 4).train(game, steps=1)
    game.close()


def test_training_counts_exactly() -> None:
    env = make_env("gym/FrozenLake-v1")
    table = TabularLearner(16, 4)
    by_steps = table.train(env, steps=777)
    assert by_steps.total_steps == table.visits.sum() == 777
    assert TabularLearner(16, 4).train(env, episodes=25).summary()["total_episodes"] == 25
    assert TabularLearner(16, 4).train(env, steps=0).total_steps == 0
    env.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["fused", "list"])
def test_a_saved_learner_goes_on_exactly(tmp_path: Path, algorithm: str, kind: str) -> None:
    """Left in the middle of an episode: trails and decisions made ahead must survive."""
    options = TabularOptions.model_validate({"epsilon": 0.4, "n_step": 3, "table_engine": kind})
    whole = TabularLearner(6, 2, algorithm, options, seed=5)
    _walk(whole, 0, 40)
    parts = TabularLearner(6, 2, algorithm, options, seed=5)
    state = _walk(parts, 0, 17)
    parts.save(tmp_path / "table.safetensors")
    again = TabularLearner.load(tmp_path / "table.safetensors")
    assert again.options == options
    _walk(again, state, 23, begun=17)
    assert np.array_equal(again.values, whole.values)
    assert np.array_equal(again.visits, whole.visits)
    assert (again.epsilon, again.episodes, again.seed) == (whole.epsilon, whole.episodes, 5)
    assert [again.select_action(0) for _ in range(20)] == [whole.select_action(0) for _ in range(20)]
    assert [path.name for path in tmp_path.iterdir()] == ["table.safetensors"]


def _walk(table: TabularLearner, state: int, steps: int, begun: int = 0) -> int:
    """A line with a reward at its right end; an episode has 8 steps at most."""
    for step in range(begun, begun + steps):
        action = table.select_action(state)
        after = max(0, state + 2 * action - 1)
        ended = after == 5
        table.update(state, action, float(ended), after, ended, truncated=step % 8 == 7)
        state = 0 if ended or step % 8 == 7 else after
    return state


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(InputError, match=r"^There is no file .*none.$"):
        TabularLearner.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello, hello, hello")
    with pytest.raises(FormatError, match=r"text is not a safetensors file"):
        TabularLearner.load(tmp_path / "text")
    save_file({"weights": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(FormatError, match=r"other is not a table of a TabularLearner"):
        TabularLearner.load(tmp_path / "other")


def test_training_goes_on_after_loading_as_without(tmp_path: Path) -> None:
    env = make_env("gym/FrozenLake-v1")
    whole = TabularLearner(16, 4, "sarsa", seed=3)
    whole.train(env, episodes=30)
    whole.save(tmp_path / "t")
    whole.train(env, episodes=30)
    again = TabularLearner.load(tmp_path / "t")
    again.train(env, episodes=30)
    assert np.array_equal(again.values, whole.values)
    env.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_solves_a_small_lake(algorithm: str) -> None:
    """FrozenLake without ice: six steps to the goal, greedily, for on-policy algorithms too."""
    env = GymnasiumEnv(gymnasium.make("FrozenLake-v1", is_slippery=False))
    options = TabularOptions(epsilon=1.0, epsilon_decay=0.999, epsilon_min=0.05, learning_rate=0.2)
    table = TabularLearner(16, 4, algorithm, options, seed=1)
    table.train(env, episodes=3000)
    turn, steps = env.reset(seed=0), 0
    while not turn.over and steps < 20:
        turn = env.step({"agent_0": table.greedy(int(turn.observations["agent_0"]))})
        steps += 1
    assert (steps, turn.rewards["agent_0"]) == (6, 1.0)
    env.close()


def test_truncation_uses_the_final_observation() -> None:
    """A corridor cut after every step: only bootstrapping from final observations carries the reward to its start."""

    class Corridor(gymnasium.Env[int, int]):
        observation_space = gymnasium.spaces.Discrete(4)  # type: ignore[assignment]
        action_space = gymnasium.spaces.Discrete(1, start=7)  # type: ignore[assignment]

        def reset(self, *, seed: int | None = None, options: object = None) -> tuple[int, dict[str, object]]:  # type: ignore[override]
            super().reset(seed=seed)
            self.place = int(self.np_random.integers(3))
            return self.place, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:
            assert action == 7
            self.place += 1
            return self.place, float(self.place == 3), self.place == 3, True, {}

    table = TabularLearner(4, 1, options=TabularOptions(learning_rate=0.5, discount_factor=0.5))
    table.train(GymnasiumEnv(Corridor()), episodes=200)
    assert table.values[:3, 0].tolist() == pytest.approx([0.25, 0.5, 1.0], abs=1e-4)


def test_q_learning_finds_the_values_of_the_oracle() -> None:
    env = make_env("gym/CliffWalking-v1")
    plan = value_iteration(compile_mdp(env), 0.9)
    options = TabularOptions(
        discount_factor=0.9, epsilon=0.5, epsilon_schedule="constant", learning_rate=1.0, dtype="float64"
    )
    table = TabularLearner(48, 4, options=options)
    table.train(env, steps=60_000)
    often = table.visits > 200
    assert often.sum() > 60
    assert np.abs(table.values - plan.action_values)[often].max() < 1e-6
    env.close()
