"""Compiled games that can be searched: copies have the same future, and every declaration holds."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import _COMPILED, find_kernel
from mosaic.envs.compiled.vector import UNKNOWN, CompiledVector, SearchRules, Symmetry
from mosaic.envs.contract.compiled_game import GAMES, _outlook, random_actions
from mosaic.policies.minimax.connect_four import ConnectFourBoard, drop, landings, value
from mosaic.testing import ContractError, check_search_rules


def kernel_of(env_id, **options):
    return find_kernel(EnvironmentConfig(env_id=env_id, options=options))


def broken(kernel, **changes):
    return kernel._replace(search=kernel.search._replace(**changes))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("classic/tictactoe_v3", {}),
        ("mosaic/tictactoe", {}),
        ("mosaic/tictactoe", {"illegal": "lost"}),
        ("classic/connect_four_v3", {}),
    ],
)
def test_the_contract_of_every_game(env_id, options):
    assert check_search_rules(kernel_of(env_id, **options)) > 20


def test_games_of_the_registry_are_all_tested():
    hidden = ("rps", "kuhn_poker")  # search would look at the other's move or card
    boards = {name for name in _COMPILED if "board_games" in _COMPILED[name].kernel and not name.endswith(hidden)}
    assert boards == {"classic/tictactoe", "mosaic/tictactoe", "classic/connect_four"}


def test_broken_declarations_are_noticed():
    kernel = kernel_of("classic/connect_four_v3")
    (mirror,) = kernel.search.symmetries

    def forgets_the_mover(row, mover, state, ints):
        kernel.search.read(row, 0, state, ints)

    with pytest.raises(ContractError, match="`read` finds another state"):
        check_search_rules(broken(kernel, read=forgets_the_mover))
    shifted = Symmetry(mirror.observation, np.roll(mirror.actions, 1))
    with pytest.raises(ContractError, match="a symmetry does not map"):
        check_search_rules(broken(kernel, symmetries=(shifted,)))
    with pytest.raises(ContractError, match="declares no search rules"):
        check_search_rules(kernel._replace(search=None))
    with pytest.raises(ContractError, match="two agents that act in turns"):
        check_search_rules(kernel._replace(turn_based=False))


def test_a_state_that_is_not_copied_whole_is_noticed(monkeypatch):
    def copies_too_little(source, env, target, to):
        target.ints[to, :2] = source.ints[env, :2]

    monkeypatch.setattr("mosaic.envs.contract.compiled_game.copy_state", copies_too_little)
    with pytest.raises(ContractError, match="a copy has another"):
        check_search_rules(broken(kernel_of("classic/connect_four_v3"), symmetries=()), seed=1)


def test_the_symmetries_of_tictactoe():
    symmetries = kernel_of("mosaic/tictactoe").search.symmetries
    images = {tuple(each.actions) for each in symmetries}
    assert len(symmetries) == len(images) == 7
    assert tuple(range(9)) not in images


def test_search_rules_are_plain_data():
    assert SearchRules(kernel_of("mosaic/tictactoe").search.read).symmetries == ()


def test_the_outlook_of_connect_four_is_exact():
    kernel, random = kernel_of("classic/connect_four_v3"), np.random.default_rng(0)
    vector, seen = CompiledVector(kernel, GAMES), set()
    vector.reset(0)
    for _ in range(60):
        proofs = _outlook(vector, kernel.search)
        late = [env for env in range(GAMES) if int(vector.ints[env, 1]).bit_count() >= 24]
        for env in late:
            mine, taken, _ = vector.ints[env].tolist()
            board = ConnectFourBoard(mine, taken ^ mine)
            for column in landings(board):
                proof = int(proofs[env, column])
                if proof != UNKNOWN:
                    after = drop(board, column)
                    assert proof == -value(after), (board, column)
                    seen.add((proof, value(after, depth=0)))
        vector.step(random_actions(vector, random))
    assert seen >= {(1, -1), (1, 0), (-1, 1)}  # won at once, by two threats, lost to the next move
