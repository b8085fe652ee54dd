"""Random legal moves in Pgx's tic-tac-toe, compiled from end to end: python pgx_tictactoe.py JSON-options."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time
from typing import Any

import jax
import jax.numpy as jnp
import pgx
from pgx.experimental import auto_reset


def main() -> None:
    asked = json.loads(sys.argv[1])
    env = pgx.make("tic_tac_toe")
    step = jax.vmap(auto_reset(env.step, env.init))

    def move(carry: Any, _: Any) -> tuple[Any, Any]:
        state, key = carry
        key, draw, fresh = jax.random.split(key, 3)
        action = jax.random.categorical(draw, jnp.where(state.legal_action_mask, 0.0, -1e9), axis=1)
        state = step(state, action, jax.random.split(fresh, asked["envs"]))
        return (state, key), (state.terminated | state.truncated).sum()

    run = jax.jit(lambda carry: jax.lax.scan(move, carry, None, asked["steps"]))
    key, first = jax.random.split(jax.random.PRNGKey(asked["seed"]))
    carry = (jax.vmap(env.init)(jax.random.split(first, asked["envs"])), key)
    jax.block_until_ready(run(carry))
    wall, cpu = perf_counter(), process_time()
    _, ended = jax.block_until_ready(run(carry))
    took = {"wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu}
    steps = asked["steps"] * asked["envs"]
    print(json.dumps({"steps": steps, "reward": steps / max(1, int(ended.sum())), **took}), flush=True)


if __name__ == "__main__":
    main()
