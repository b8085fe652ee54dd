"""Self-play by search, compiled: many games at once, whose positions become training data when a game is decided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import UNKNOWN, KernelData, begin_at, step_at
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.rollout.arrays import WINDOW, EpisodeTally
from mosaic.models.random import draw_below, draw_uniform
from mosaic.policies.search.simulations import score_edges, simulate
from mosaic.policies.search.tree import ILLEGAL, Evaluator, Leaves, Rules, Tree, open_edges, plant, write_inputs

PLIES = 128  # positions that a game keeps; a longer one is split
ENV_STEPS, POSITIONS, PROVEN = 0, 1, 2  # in Games.counts
NOT_LEGAL = np.float32(-1)  # instead of a probability in policy targets

_ZERO, _ONE, _LOWEST = np.float32(0), np.float32(1), np.float32(-1e30)
_FLOOR = np.float32(-4)  # of the logits in the policy target of a proven position
_ON_COURSE, _EXACT, _SLIP = 0, 1, 2  # kinds of kept positions


class Positions(NamedTuple):
    """Training data: rows that the network reads, improved policies and values for the mover."""

    obs: NDArray[np.int8]  # or of float32
    policy: NDArray[np.float32]
    value: NDArray[np.float32]
    at: NDArray[np.int64]  # [next row, rows in use]


class Games(NamedTuple):
    """Running games and the positions that they have kept."""

    obs: NDArray[np.int8]  # [games, PLIES, width] or of float32
    policy: NDArray[np.float32]  # [games, PLIES, actions]
    value: NDArray[np.float32]  # [games, PLIES] of the search
    mover: NDArray[np.int8]  # [games, PLIES]
    kind: NDArray[np.int8]  # [games, PLIES]
    kept: NDArray[np.int64]  # [games]
    length: NDArray[np.int64]  # [games] moves
    plays_out: NDArray[np.uint8]  # [games]
    rng: NDArray[np.uint64]  # [games]
    counts: NDArray[np.int64]  # [3]


class PlaySettings(NamedTuple):
    simulations: int
    exploration: np.float32
    opening_share: np.float32
    opening_plies: int
    random_moves: np.float32
    play_out: np.float32
    result_weight: np.float32
    begin: int  # address of the kernel's machine code


def make_games(games: int, width: int, actions: int, dtype: type[np.generic], rng: NDArray[np.uint64]) -> Games:
    shape = (games, PLIES)
    return Games(
        obs=np.zeros((*shape, width), dtype),
        policy=np.zeros((*shape, actions), np.float32),
        value=np.zeros(shape, np.float32),
        mover=np.zeros(shape, np.int8),
        kind=np.zeros(shape, np.int8),
        kept=np.zeros(games, np.int64),
        length=np.zeros(games, np.int64),
        plays_out=np.zeros(games, np.uint8),
        rng=rng,
        counts=np.zeros(3, np.int64),
    )


def make_positions(rows: int, width: int, actions: int, dtype: type[np.generic]) -> Positions:
    return Positions(
        np.zeros((rows, width), dtype),
        np.zeros((rows, actions), np.float32),
        np.zeros(rows, np.float32),
        np.zeros(2, np.int64),
    )


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def play_moves(
    rules: Rules,
    data: KernelData,
    arrays: VectorArrays,
    tree: Tree,
    leaves: Leaves,
    net: Evaluator,
    games: Games,
    done: Positions,
    tally: EpisodeTally,
    settings: PlaySettings,
    schedule: NDArray[np.int64],
    moves: int,
) -> None:
    """Play moves in every game; positions of decided games are appended to `done`."""
    count, actions = tree.logits.shape
    noise = np.zeros((count, actions), np.float32)
    for _ in range(moves):
        plant(rules, tree, leaves, net, data, arrays)
        for game in range(count):
            for action in range(actions):
                drawn = draw_uniform(games.rng, game)
                noise[game, action] = -np.log(-np.log(drawn * np.float32(0.999998) + np.float32(1e-6)))
            if open_edges(tree, game) <= 1:  # nothing to choose
                tree.spent[game] = settings.simulations
        simulate(rules, tree, leaves, net, settings.simulations, settings.exploration, schedule, noise)
        for game in range(count):
            write_inputs(rules, data, game, arrays.obs, game, leaves.inputs, game)
            action = keep_position(tree, games, game, leaves.inputs, noise[game], settings)
            proof = tree.proof[game, 0]
            mover = tree.mover[game, 0]
            if proof != UNKNOWN and not games.plays_out[game]:
                end_game(games, game, np.float32(proof), mover, done, tally, settings)
                begin_game(rules, data, arrays, games, game, leaves.act, settings)
                continue
            if step_game(rules, data, arrays, games, game, action, leaves.act):
                end_game(games, game, arrays.rew[2 * game + mover], mover, done, tally, settings)
                begin_game(rules, data, arrays, games, game, leaves.act, settings)
            elif games.kept[game] == PLIES:
                write_positions(games, game, games.value[game, PLIES - 1], mover, done, settings)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def keep_position(
    tree: Tree, games: Games, game: int, inputs: NDArray[np.float32], noise: NDArray[np.float32], settings: PlaySettings
) -> int:
    """Keep the root with its improved policy and value; return the action to play."""
    actions, place, proof = tree.logits.shape[1], games.kept[game], tree.proof[game, 0]
    score, value = np.zeros(actions, np.float32), np.zeros(actions, np.float32)
    score_edges(tree, game, noise, score, value)
    most = _ZERO
    for action in range(actions):
        if tree.edge_proof[game, 0, action] == UNKNOWN:
            most = max(most, tree.edge_visits[game, 0, action])
    chosen = -1
    for action in range(actions):  # the best score of the most visited and the proven edges
        edge = tree.edge_proof[game, 0, action]
        if edge == ILLEGAL or (edge == UNKNOWN and tree.edge_visits[game, 0, action] < most):
            continue
        if proof != UNKNOWN and edge != proof:
            continue
        if chosen < 0 or score[action] > score[chosen]:
            chosen = action
    improve_policy(tree, game, noise, score, games.policy[game, place])
    expected = _ZERO
    for action in range(actions):
        if games.policy[game, place, action] > 0:
            expected += games.policy[game, place, action] * value[action]
    for column in range(inputs.shape[1]):
        games.obs[game, place, column] = inputs[game, column]
    games.mover[game, place] = tree.mover[game, 0]
    games.kind[game, place] = _ON_COURSE if proof == UNKNOWN else _EXACT
    games.value[game, place] = expected if proof == UNKNOWN else np.float32(proof)
    games.kept[game] += 1
    games.counts[POSITIONS] += 1
    if proof != UNKNOWN:
        games.counts[PROVEN] += 1
    elif draw_uniform(games.rng, game) < settings.random_moves:
        games.kind[game, place] = _SLIP
        chosen = draw_below(games.rng, game, actions)
        while tree.edge_proof[game, 0, chosen] == ILLEGAL:
            chosen = draw_below(games.rng, game, actions)
    return chosen


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def improve_policy(
    tree: Tree, game: int, noise: NDArray[np.float32], score: NDArray[np.float32], policy: NDArray[np.float32]
) -> None:
    """Write the policy target of a root: softmax of logits and scaled values; where proven, over the best actions.

    `score` is as `score_edges` wrote it. Illegal actions get NOT_LEGAL.
    """
    proof, top, total = tree.proof[game, 0], _LOWEST, _ZERO
    for action in range(policy.shape[0]):
        edge = tree.edge_proof[game, 0, action]
        policy[action] = NOT_LEGAL
        if edge == ILLEGAL:
            continue
        policy[action] = score[action] - noise[action]
        if proof != UNKNOWN:
            policy[action] = max(tree.logits[game, action], _FLOOR) if edge == proof else _LOWEST
        top = max(top, policy[action])
    for action in range(policy.shape[0]):
        if tree.edge_proof[game, 0, action] != ILLEGAL:
            policy[action] = np.exp(max(policy[action] - top, np.float32(-80)))
            total += policy[action]
    for action in range(policy.shape[0]):
        if tree.edge_proof[game, 0, action] != ILLEGAL:
            policy[action] /= total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def step_game(
    rules: Rules, data: KernelData, arrays: VectorArrays, games: Games, game: int, action: int, act: NDArray[np.float32]
) -> bool:
    """Play one action in one game; return whether that ended it, in which case the next has begun."""
    act[0, 0] = action
    here, rows = slice(game, game + 1), slice(2 * game, 2 * game + 2)
    step_at(rules.step)(
        data.facts,
        data.state[here],
        data.ints[here],
        data.rng[here],
        act[:1],
        arrays.obs[here],
        arrays.mask[here],
        arrays.who[here],
        arrays.rew[rows],
        arrays.term[rows],
        arrays.trunc[rows],
        arrays.fin[rows],
    )
    games.counts[ENV_STEPS] += 1
    games.length[game] += 1
    return bool(arrays.term[2 * game] != 0 or arrays.trunc[2 * game] != 0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def begin_game(
    rules: Rules,
    data: KernelData,
    arrays: VectorArrays,
    games: Games,
    game: int,
    act: NDArray[np.float32],
    settings: PlaySettings,
) -> None:
    """Begin a game, with random moves if it is drawn to; an opening that ends the game is drawn again."""
    games.plays_out[game] = draw_uniform(games.rng, game) < settings.play_out
    opens = draw_uniform(games.rng, game) < settings.opening_share
    here, actions = slice(game, game + 1), games.policy.shape[2]
    over = True
    while over:
        over = False
        games.length[game] = 0
        begin_at(settings.begin)(
            data.facts,
            data.state[here],
            data.ints[here],
            data.rng[here],
            arrays.obs[here],
            arrays.mask[here],
            arrays.who[here],
        )
        plies = 1 + draw_below(games.rng, game, settings.opening_plies) if opens else 0
        for _ in range(plies):
            action = draw_below(games.rng, game, actions)
            while arrays.mask.shape[0] > 0 and arrays.mask[game, action] == 0:
                action = draw_below(games.rng, game, actions)
            over = step_game(rules, data, arrays, games, game, action, act)
            if over:
                break


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def begin_games(
    rules: Rules,
    data: KernelData,
    arrays: VectorArrays,
    games: Games,
    act: NDArray[np.float32],
    settings: PlaySettings,
) -> None:
    for game in range(games.kept.shape[0]):
        begin_game(rules, data, arrays, games, game, act, settings)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def end_game(
    games: Games,
    game: int,
    result: np.float32,
    viewer: int,
    done: Positions,
    tally: EpisodeTally,
    settings: PlaySettings,
) -> None:
    """Record a game whose result for the viewer is known, and write its positions."""
    write_positions(games, game, result, viewer, done, settings)
    for sign in (-_ONE, _ONE):
        tally.recent[0, tally.finished[0] % WINDOW] = sign * result
        tally.finished[0] += 1
    tally.recent_length[tally.finished[1] % WINDOW] = games.length[game]
    tally.finished[1] += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def write_positions(
    games: Games, game: int, result: np.float32, viewer: int, done: Positions, settings: PlaySettings
) -> None:
    """Append a game's kept positions to the training data, the last first.

    The value target mixes the result with the search's value. Behind an exact value or a random move, what happened
    later does not count.
    """
    for place in range(games.kept[game] - 1, -1, -1):
        mover, found = games.mover[game, place], games.value[game, place]
        if mover != viewer:
            result, viewer = -result, mover
        if games.kind[game, place] != _ON_COURSE:
            result = found
        row = done.at[0]
        done.at[0] += 1
        for column in range(done.obs.shape[1]):
            done.obs[row, column] = games.obs[game, place, column]
        for action in range(done.policy.shape[1]):
            done.policy[row, action] = games.policy[game, place, action]
        done.value[row] = settings.result_weight * result + (_ONE - settings.result_weight) * found
    games.kept[game] = 0
