"""PPO in one file of plain torch, in the style of CleanRL: sync vector env, two nets, a loop over minibatches."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from ppo_rows.measure import Outcome, timed
from torch import nn
from torch.distributions.categorical import Categorical

torch.set_num_threads(1)


def layer(inputs: int, outputs: int, std: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    torch.nn.init.orthogonal_(made.weight, std)
    torch.nn.init.constant_(made.bias, 0.0)
    return made


class Agent(nn.Module):
    def __init__(self, width: int, actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(width, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(width, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, 0.01))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.critic(obs)
        return value

    def act(self, obs: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        chances = Categorical(logits=self.actor(obs))  # type: ignore[no-untyped-call]
        if action is None:
            action = chances.sample()  # type: ignore[no-untyped-call]
        return action, chances.log_prob(action), chances.entropy(), self.critic(obs)  # type: ignore[no-untyped-call]


def train(
    seed: int,
    total: int,
    steps: int,
    goal: float | None = None,
    *,
    num_envs: int = 4,
    num_steps: int = 128,
    num_minibatches: int = 4,
    update_epochs: int = 4,
    learning_rate: float = 2.5e-4,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
    clip_coef: float = 0.2,
    ent_coef: float = 0.01,
    vf_coef: float = 0.5,
    max_grad_norm: float = 0.5,
) -> Outcome:
    """Train for `steps`, or until 100 episodes reach the goal; the learning rate falls linearly to zero at `total`."""
    torch.manual_seed(seed)
    envs = SyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1")) for _ in range(num_envs)],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    agent = Agent(4, 2)
    optimizer = torch.optim.Adam(agent.parameters(), lr=learning_rate, eps=1e-5)
    obs = torch.zeros((num_steps, num_envs, 4))
    actions, logprobs, rewards, dones, values = (torch.zeros((num_steps, num_envs)) for _ in range(5))
    recent: deque[float] = deque(maxlen=100)
    batch_size = num_envs * num_steps
    done_steps = 0
    next_obs = torch.Tensor(envs.reset(seed=seed)[0])
    next_done = torch.zeros(num_envs)
    with timed() as clock:
        while done_steps < steps:
            optimizer.param_groups[0]["lr"] = (1.0 - done_steps / total) * learning_rate
            for step in range(num_steps):
                obs[step], dones[step] = next_obs, next_done
                with torch.no_grad():
                    action, logprob, _, value = agent.act(next_obs)
                values[step], actions[step], logprobs[step] = value.flatten(), action, logprob
                seen, reward, terminated, truncated, infos = envs.step(action.numpy())
                rewards[step] = torch.tensor(reward).view(-1)
                next_obs = torch.Tensor(seen)
                next_done = torch.Tensor(np.logical_or(terminated, truncated))
                _remember(recent, infos)
            done_steps += batch_size
            with torch.no_grad():
                next_value = agent.value(next_obs).reshape(1, -1)
                advantages = torch.zeros_like(rewards)
                last: Any = 0
                for t in reversed(range(num_steps)):
                    goes_on = 1.0 - (next_done if t == num_steps - 1 else dones[t + 1])
                    after = next_value if t == num_steps - 1 else values[t + 1]
                    delta = rewards[t] + gamma * after * goes_on - values[t]
                    advantages[t] = last = delta + gamma * gae_lambda * goes_on * last
                returns = advantages + values
            b_obs, b_actions, b_logprobs = obs.reshape(-1, 4), actions.reshape(-1), logprobs.reshape(-1)
            b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
            b_inds = np.arange(batch_size)
            for _ in range(update_epochs):
                np.random.shuffle(b_inds)
                for start in range(0, batch_size, batch_size // num_minibatches):
                    rows = b_inds[start : start + batch_size // num_minibatches]
                    _, newlogprob, entropy, newvalue = agent.act(b_obs[rows], b_actions.long()[rows])
                    ratio = (newlogprob - b_logprobs[rows]).exp()
                    advantage = b_advantages[rows]
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                    clipped = torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)
                    pg_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
                    newvalue = newvalue.view(-1)
                    near = b_values[rows] + torch.clamp(newvalue - b_values[rows], -clip_coef, clip_coef)
                    wrong = torch.max((newvalue - b_returns[rows]) ** 2, (near - b_returns[rows]) ** 2)
                    loss = pg_loss - ent_coef * entropy.mean() + vf_coef * 0.5 * wrong.mean()
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
                    optimizer.step()
            if goal is not None and len(recent) == 100 and np.mean(recent) >= goal:
                break
    envs.close()
    return Outcome(done_steps, clock.wall_s, clock.cpu_s, float(np.mean(recent)))


def _remember(recent: deque[float], infos: dict[str, Any]) -> None:
    final = infos.get("final_info")
    if final is not None and "episode" in final:
        recent.extend(float(r) for r in np.asarray(final["episode"]["r"])[final["_episode"]])
