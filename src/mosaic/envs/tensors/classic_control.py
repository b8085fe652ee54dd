"""Gymnasium's classic control as functions of tensors: CartPole, MountainCar, Acrobot and Pendulum.

The formulas and the order of constants (`facts`) are those of the compiled kernels. Precision is that of the state: in
float32 episodes differ from Gymnasium's in their last digits, which grow in time.
"""

from __future__ import annotations

from math import pi

import torch
from gymnasium.envs.classic_control.pendulum import DEFAULT_X, DEFAULT_Y
from torch import Tensor

from mosaic.envs.compiled.vector import CompiledKernel
from mosaic.envs.tensors.rules import Moved, Situation, TensorView


class _SingleAgent:
    """Env of one agent whose `ints` hold the steps of the episode."""

    def __init__(self, kernel: CompiledKernel, device: torch.device) -> None:
        self.facts: tuple[float, ...] = tuple(kernel.facts.tolist())
        self.time_limit = int(self.facts[-1])

    def show(self, here: Situation) -> TensorView:
        return TensorView(self.observe(here.state)[:, None], None, None)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def moved(self, state: Tensor, age: Tensor, reward: Tensor, over: Tensor) -> Moved:
        age = age + 1
        late = (age == self.time_limit)[:, 0]
        return Moved(Situation(state, age), reward[:, None], over, late)


class CartPole(_SingleAgent):
    draws = 4

    def begin(self, drawn: Tensor) -> Situation:
        return Situation(drawn * 0.1 - 0.05, _no_steps(drawn))

    def move(self, here: Situation, act: Tensor) -> Moved:
        gravity, pole_mass, mass, length, pole_mass_length, force_size, seconds, far, steep, *pay = self.facts
        upright, fallen, _ = pay
        x, speed, angle, turn = here.state.unbind(1)
        force = torch.where(act[:, 0, 0] == 1, force_size, -force_size)
        sine, cosine = angle.sin(), angle.cos()
        push = (force + pole_mass_length * (turn * turn) * sine) / mass
        turn_change = (gravity * sine - cosine * push) / (length * (4.0 / 3.0 - pole_mass * (cosine * cosine) / mass))
        speed_change = push - pole_mass_length * turn_change * cosine / mass
        x, angle = x + seconds * speed, angle + seconds * turn
        after = torch.stack((x, speed + seconds * speed_change, angle, turn + seconds * turn_change), 1)
        fell = (x.abs() > far) | (angle.abs() > steep)
        return self.moved(after, here.ints, torch.where(fell, fallen, upright).to(after.dtype), fell)


class MountainCar(_SingleAgent):
    draws = 1

    def begin(self, drawn: Tensor) -> Situation:
        place = drawn * 0.2 - 0.6
        return Situation(torch.cat((place, torch.zeros_like(place)), 1), _no_steps(drawn))

    def move(self, here: Situation, act: Tensor) -> Moved:
        force, gravity, left, right, fastest, goal, goal_speed, _ = self.facts
        place, speed = here.state.unbind(1)
        speed = (speed + (act[:, 0, 0] - 1.0) * force - torch.cos(3 * place) * gravity).clamp(-fastest, fastest)
        place = (place + speed).clamp(left, right)
        speed = torch.where((place <= left) & (speed < 0), 0.0, speed)
        over = (place >= goal) & (speed >= goal_speed)
        return self.moved(torch.stack((place, speed), 1), here.ints, -torch.ones_like(place), over)


class Acrobot(_SingleAgent):
    draws = 4

    def begin(self, drawn: Tensor) -> Situation:
        return Situation(drawn * 0.2 - 0.1, _no_steps(drawn))

    def observe(self, state: Tensor) -> Tensor:
        angles, speeds = state[:, :2], state[:, 2:]
        turned = torch.stack((angles.cos(), angles.sin()), 2).flatten(1)
        return torch.cat((turned, speeds), 1)

    def move(self, here: Situation, act: Tensor) -> Moved:
        """Advance by one fourth-order Runge-Kutta step."""
        fastest1, fastest2, seconds = self.facts[6:9]
        torque, before = act[:, 0, 0] - 1.0, here.state
        first = self._change(before, torque)
        second = self._change(before + seconds / 2 * first, torque)
        third = self._change(before + seconds / 2 * second, torque)
        fourth = self._change(before + seconds * third, torque)
        angle1, angle2, speed1, speed2 = (before + seconds / 6 * (first + 2 * second + 2 * third + fourth)).unbind(1)
        angle1, angle2 = _wrapped(angle1), _wrapped(angle2)
        speeds = speed1.clamp(-fastest1, fastest1), speed2.clamp(-fastest2, fastest2)
        over = -angle1.cos() - (angle2 + angle1).cos() > 1.0
        reward = torch.where(over, 0.0, -1.0).to(before.dtype)
        return self.moved(torch.stack((angle1, angle2, *speeds), 1), here.ints, reward, over)

    def _change(self, state: Tensor, torque: Tensor) -> Tensor:
        """Return the derivative of the state, Gymnasium's `_dsdt`."""
        m1, m2, l1, lc1, lc2, moi = self.facts[:6]
        angle1, angle2, speed1, speed2 = state.unbind(1)
        cosine2, sine2 = angle2.cos(), angle2.sin()
        d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * cosine2) + moi + moi
        d2 = m2 * (lc2**2 + l1 * lc2 * cosine2) + moi
        phi2 = m2 * lc2 * 9.8 * torch.cos(angle1 + angle2 - pi / 2)
        phi1 = (
            -m2 * l1 * lc2 * speed2**2 * sine2
            - 2 * m2 * l1 * lc2 * speed2 * speed1 * sine2
            + (m1 * lc1 + m2 * l1) * 9.8 * torch.cos(angle1 - pi / 2)
            + phi2
        )
        faster2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * speed1**2 * sine2 - phi2) / (
            m2 * lc2**2 + moi - d2**2 / d1
        )
        return torch.stack((speed1, speed2, -(d2 * faster2 + phi1) / d1, faster2), 1)


class Pendulum(_SingleAgent):
    draws = 2

    def begin(self, drawn: Tensor) -> Situation:
        angle, speed = (2 * drawn - 1).unbind(1)
        return Situation(
            torch.stack((angle * DEFAULT_X, speed * DEFAULT_Y, torch.zeros_like(angle)), 1), _no_steps(drawn)
        )

    def observe(self, state: Tensor) -> Tensor:
        return torch.stack((state[:, 0].cos(), state[:, 0].sin(), state[:, 1]), 1)

    def move(self, here: Situation, act: Tensor) -> Moved:
        pull, push, seconds, fastest, strongest, _, _ = self.facts
        angle, speed, _ = here.state.unbind(1)
        torque = act[:, 0, 0].clamp(-strongest, strongest).to(angle.dtype)
        tilt = torch.remainder(angle + pi, 2 * pi) - pi
        cost = tilt**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = (speed + (pull * angle.sin() + push * torque) * seconds).clamp(-fastest, fastest)
        after = torch.stack((angle + speed * seconds, speed, torque), 1)
        return self.moved(after, here.ints, -cost, torch.zeros_like(cost, dtype=torch.bool))


def _no_steps(drawn: Tensor) -> Tensor:
    return torch.zeros(len(drawn), 1, dtype=torch.int64, device=drawn.device)


def _wrapped(angle: Tensor) -> Tensor:
    """Return the angle within ±π; a step turns by less than two rounds."""
    for _ in range(2):
        angle = torch.where(angle > pi, angle - 2 * pi, torch.where(angle < -pi, angle + 2 * pi, angle))
    return angle
