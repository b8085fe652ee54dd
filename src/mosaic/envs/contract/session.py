"""An env instance under check: random legal episodes in which every Turn is checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Protocol

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Turn, digest_value
from mosaic.envs.contract.report import CheckPosition, ContractError, blamed
from mosaic.envs.contract.turn_checks import TurnChecker
from mosaic.envs.env import Env
from mosaic.envs.spaces import draw_action

_REMEMBERED = 3  # Turns: an env that reuses buffers does so soon, and images are large


class Kept:
    """The latest Turns of one env instance, across its episodes: reset may write into old buffers too."""

    def __init__(self) -> None:
        self._turns: deque[tuple[CheckPosition, Turn, dict[tuple[str, AgentID], int]]] = deque(maxlen=_REMEMBERED)
        self._pictures: deque[tuple[CheckPosition, NDArray[np.uint8], int]] = deque(maxlen=1)

    def add(self, place: CheckPosition, turn: Turn) -> None:
        self._turns.append((place, turn, _digests(turn)))

    def add_picture(self, place: CheckPosition, picture: NDArray[np.uint8]) -> None:
        self._pictures.append((place, picture, digest_value(picture)))

    def check(self, now: CheckPosition) -> None:
        for place, turn, digests in self._turns:
            now_said = _digests(turn)
            for field, agent in {**digests, **now_said}:
                if digests.get((field, agent)) != now_said.get((field, agent)):
                    raise _changed(place, f"the {field} returned here had changed by this point: {now.when}", agent)
        for place, picture, number in self._pictures:
            if digest_value(picture) != number:
                raise _changed(place, f"the picture returned here had changed by this point: {now.when}", None)


def _digests(turn: Turn) -> dict[tuple[str, AgentID], int]:
    """Compute digests of all fields except infos, which are allowed to change."""
    return {
        (field, agent): digest_value(value)
        for field, part in zip(turn._fields[:-1], turn[:-1], strict=True)
        for agent, value in part.items()
    }


def _changed(place: CheckPosition, found: str, agent: AgentID | None) -> ContractError:
    return ContractError(
        place,
        found,
        "returned values never change",
        "return a copy of every array or dict that is modified later",
        agent,
    )


class Sampler:
    """Random legal actions, drawn from private copies of the spaces.

    The env's own spaces may be shared, and sampling changes them.
    """

    def __init__(self, action_spaces: Mapping[AgentID, Space[object]], seed: int) -> None:
        self._random = Random(seed)
        self._spaces: Lookup[AgentID, Space[object]] = Lookup(lambda agent: self._private(action_spaces[agent]))

    def draw(self, turn: Turn) -> dict[AgentID, Action]:
        masks = turn.action_masks
        return {agent: draw_action(self._spaces[agent], masks.get(agent), self._random) for agent in turn.observations}

    def _private(self, space: Space[object]) -> Space[object]:
        copy = deepcopy(space)
        copy.seed(self._random.getrandbits(31))
        return copy


_NOBODY: AgentID = "nobody_of_this_name"


class CheckWatcher(Protocol):
    """Reader of every Turn of a check while it runs."""

    def see(self, turn: Turn, step: int) -> None: ...  # step 0: the env was reset

    def wants_more(self) -> bool: ...  # random play continues after the check while this is True


class CheckedEnv:
    def __init__(self, env: Env, watcher: CheckWatcher | None = None) -> None:
        self.env = env
        self._watcher = watcher
        self.place = CheckPosition(env.spec.env_id)
        self._kept = Kept()
        self._actions: Mapping[AgentID, Action] = {}  # the latest legal ones

    def episode(self, seed: int | None, steps: int, *, draw: int = 0) -> Iterator[Turn]:
        """Yield the Turns from reset on; `draw` seeds the actions if the env continues without a seed."""
        checker = TurnChecker(self.env, seed)
        sampler = Sampler(self.env.action_spaces, draw if seed is None else seed)
        self.place = checker.place
        with blamed(self.place, "reset"):
            turn = self.env.reset(seed)
        yield self._seen(checker, turn, 0)
        for step in range(1, steps + 1):
            if turn.over:
                return
            self.place = CheckPosition(self.place.env_id, seed, step)
            actions = self._actions = sampler.draw(turn)
            before = {agent: digest_value(action) for agent, action in actions.items()}
            with blamed(self.place, "step"):
                turn = self.env.step(actions)
            self._check_actions(actions, before)
            yield self._seen(checker, turn, step)

    def _seen(self, checker: TurnChecker, turn: Turn, step: int) -> Turn:
        checker.see(turn, step)
        self._kept.check(checker.place)
        self._kept.add(checker.place, turn)
        if self._watcher is not None:
            self._watcher.see(turn, step)
        return turn

    def _check_actions(self, actions: Mapping[AgentID, Action], before: Mapping[AgentID, int]) -> None:
        if {agent: digest_value(action) for agent, action in actions.items()} != before:
            raise ContractError(
                self.place,
                f"step changed the actions it was given into {actions!r}",
                "step does not modify its arguments",
                "copy an action before modifying it in place",
            )

    def render(self) -> tuple[int, int] | None:
        """Return height and width of the image, if there is one."""
        with blamed(self.place, "render"):
            picture = self.env.render()
        self._kept.check(self.place)
        if picture is None:
            return None
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
            shape, dtype = np.shape(picture), getattr(picture, "dtype", type(picture).__name__)
            raise ContractError(
                self.place,
                f"render gave {dtype} of shape {shape}",
                "a picture is a numpy array of uint8, height × width × 3, or None where there is none",
                "convert it, or return None",
            )
        self._kept.add_picture(self.place, picture)
        return picture.shape[0], picture.shape[1]

    def refuse(self, turn: Turn) -> None:
        """Step with the wrong agents, which the env must refuse."""
        right = Sampler(self.env.action_spaces, 0).draw(turn)
        first = next(iter(right))
        for wrong in ({}, {**right, _NOBODY: right[first]}, {_NOBODY: right[first]}, _without(right, first)):
            try:
                self.env.step(wrong)
            except ValueError:
                continue
            except Exception as error:
                raise self._not_refused(wrong, right, f"raised {type(error).__name__}: {error}") from error
            raise self._not_refused(wrong, right, "was played")

    def _not_refused(
        self, wrong: Mapping[AgentID, Action], right: Mapping[AgentID, Action], found: str
    ) -> ContractError:
        return ContractError(
            self.place,
            f"a step with actions for {sorted(wrong)}, while {sorted(right)} must act, {found}",
            "step rejects wrong agents with a ValueError before changing any state",
            "compare set(actions) with the agents of the last observations first",
        )

    def refuse_after_end(self) -> None:
        """Step after the end, which the env must refuse."""
        for actions in ({}, self._actions):
            try:
                self.env.step(actions)
            except (RuntimeError, ValueError):
                continue
            except Exception as error:
                raise self._not_over(f"raised {type(error).__name__}: {error}") from error
            raise self._not_over("was played")

    def _not_over(self, found: str) -> ContractError:
        return ContractError(
            self.place,
            f"a step after the end of the episode {found}",
            "step after the end raises a RuntimeError or ValueError",
            "raise RuntimeError('call reset() first') if no agent must act",
        )

    def close(self) -> None:
        for count in ("close", "close for the second time"):
            with blamed(CheckPosition(self.place.env_id), count):
                self.env.close()


def _without(actions: Mapping[AgentID, Action], agent: AgentID) -> dict[AgentID, Action]:
    return {other: action for other, action in actions.items() if other != agent}
