"""End-to-end PPO in JAX, env included, in the style of PureJaxRL: python jax_style.py JSON-options."""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

import jax
import jax.numpy as jnp


def begin(key: Any, envs: int) -> Any:
    return jax.random.uniform(key, (envs, 4), minval=-0.05, maxval=0.05)


def step(key: Any, state: Any, time: Any, action: Any) -> tuple[Any, ...]:
    """Step Gymnasium's CartPole-v1 for all envs at once, with auto-reset; the limit of 500 steps counts as an end."""
    x, x_dot, theta, theta_dot = state.T
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    push = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    x_acc = push - 0.05 * theta_acc * cos / 1.1
    after = jnp.stack(
        [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc], axis=1
    )
    time = time + 1
    fell = (jnp.abs(after[:, 0]) > 2.4) | (jnp.abs(after[:, 2]) > 12 * 2 * math.pi / 360)
    done = fell | (time >= 500)
    after = jnp.where(done[:, None], begin(key, state.shape[0]), after)
    return after, jnp.where(done, 0, time), done, jnp.where(done, time, 0)


def make_net(key: Any, sizes: tuple[int, ...], last: float) -> list[tuple[Any, Any]]:
    made = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        key, mine = jax.random.split(key)
        scale = last if number == len(sizes) - 2 else 2**0.5
        made.append((jax.nn.initializers.orthogonal(scale)(mine, (inputs, outputs)), jnp.zeros(outputs)))
    return made


def apply(net: list[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in net[:-1]:
        x = jnp.tanh(x @ weight + bias)
    return x @ net[-1][0] + net[-1][1]


def loss(weights: Any, rows: Any, o: dict[str, Any]) -> Any:
    obs, action, old_logp, advantage, target = rows
    logp_all = jax.nn.log_softmax(apply(weights["policy"], obs))
    logp = jnp.take_along_axis(logp_all, action[:, None], 1)[:, 0]
    ratio = jnp.exp(logp - old_logp)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - o["clip_range"], 1 + o["clip_range"])
    policy = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    value = 0.5 * jnp.square(apply(weights["value"], obs)[:, 0] - target).mean() * 2
    entropy = -(jnp.exp(logp_all) * logp_all).sum(1).mean()
    return policy + o["vf_coef"] * value - o["ent_coef"] * entropy


def adam(
    weights: Any, gradient: Any, first: Any, second: Any, count: Any, rate: Any, longest: float
) -> tuple[Any, ...]:
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, longest / (norm + 1e-6)), gradient)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    small, large = 1 - 0.9**count, 1 - 0.999**count
    weights = jax.tree.map(
        lambda w, m, v: w - rate * (m / small) / (jnp.sqrt(v / large) + 1e-5), weights, first, second
    )
    return weights, first, second


def make_iteration(o: dict[str, Any]) -> Any:
    envs, steps, batch = o["envs"], o["n_steps"], o["batch_size"]
    minibatches = envs * steps // batch

    def act(carry: Any, _: Any) -> tuple[Any, Any]:
        weights, state, time, key = carry
        key, draw, fresh = jax.random.split(key, 3)
        logits = apply(weights["policy"], state)
        action = jax.random.categorical(draw, logits)
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
        value = apply(weights["value"], state)[:, 0]
        after, time, done, length = step(fresh, state, time, action)
        return (weights, after, time, key), (state, action, logp, value, done, length)

    def back(carry: Any, row: Any) -> tuple[Any, Any]:
        advantage, after = carry
        value, done = row
        goes_on = 1.0 - done
        delta = 1.0 + o["gamma"] * after * goes_on - value
        advantage = delta + o["gamma"] * o["gae_lambda"] * goes_on * advantage
        return (advantage, value), advantage

    def learn(carry: Any, rows: Any) -> tuple[Any, None]:
        weights, first, second, count, rate = carry
        gradient = jax.grad(loss)(weights, rows, o)
        count = count + 1
        weights, first, second = adam(weights, gradient, first, second, count, rate, o["max_grad_norm"])
        return (weights, first, second, count, rate), None

    def epoch(carry: Any, key: Any) -> tuple[Any, None]:
        learner, rows = carry
        order = jax.random.permutation(key, envs * steps)
        shuffled = jax.tree.map(lambda x: x[order].reshape(minibatches, batch, *x.shape[1:]), rows)
        learner, _ = jax.lax.scan(learn, learner, shuffled)
        return (learner, rows), None

    def iterate(carry: Any, rate: Any) -> tuple[Any, Any]:
        weights, first, second, count, state, time, key = carry
        (_, state, time, key), seen = jax.lax.scan(act, (weights, state, time, key), None, steps)
        obs, action, logp, value, done, length = seen
        last = apply(weights["value"], state)[:, 0]
        _, advantage = jax.lax.scan(back, (jnp.zeros(envs), last), (value, done.astype(jnp.float32)), reverse=True)
        flat = [x.reshape(envs * steps, *x.shape[2:]) for x in (obs, action, logp, advantage, advantage + value)]
        key, *draws = jax.random.split(key, o["n_epochs"] + 1)
        learner = (weights, first, second, count, rate)
        (learner, _), _ = jax.lax.scan(epoch, (learner, tuple(flat)), jnp.stack(draws))
        weights, first, second, count, _ = learner
        return (weights, first, second, count, state, time, key), (done.sum(), length.sum())

    return jax.jit(lambda carry, rates: jax.lax.scan(iterate, carry, rates), donate_argnums=0)


def start(o: dict[str, Any]) -> Any:
    key, policy, value, states = jax.random.split(jax.random.PRNGKey(o["seed"]), 4)
    weights = {"policy": make_net(policy, (4, 64, 64, 2), 0.01), "value": make_net(value, (4, 64, 64, 1), 1.0)}
    zeros = jax.tree.map(jnp.zeros_like, weights)
    also_zeros = jax.tree.map(jnp.zeros_like, weights)
    times = jnp.zeros(o["envs"], jnp.int32)
    return weights, zeros, also_zeros, jnp.zeros((), jnp.int32), begin(states, o["envs"]), times, key


def main() -> None:
    """Compile, then train again from the start with the clock running; print the mean return of the last chunk."""
    o = json.loads(sys.argv[1])
    per_iteration, chunk = o["envs"] * o["n_steps"], 10
    iterations = -(-o["total"] // (per_iteration * chunk)) * chunk
    run = make_iteration(o)
    rates = jnp.linspace(1.0, 0.0, iterations, endpoint=False) * o["learning_rate"]
    jax.block_until_ready(run(start(o), rates[:chunk]))
    carry, reward = start(o), 0.0
    wall, cpu = perf_counter(), process_time()
    for number in range(0, iterations, chunk):
        carry, (episodes, lengths) = run(carry, rates[number : number + chunk])
        reward = float(lengths.sum()) / max(1, int(episodes.sum()))
    took = {"wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu}
    print(json.dumps({"steps": iterations * per_iteration, "reward": reward, **took}), flush=True)


if __name__ == "__main__":
    main()
