"""Process that plays an evaluation: it reads its request from a folder and writes results as JSON lines."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from mosaic.core.errors import MosaicError
from mosaic.core.ids import JsonObject
from mosaic.runners.screen import Screen
from mosaic.runners.trajectories import Recorder
from mosaic.server.evaluations.request import EvaluationRequest, Request, TournamentRequest
from mosaic.store.live_sessions import live_screen

ORDER, EPISODES = "order.json", "episodes"
_TELL_EVERY_S = 0.1


def main(folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # envs print banners on stdout

    def say(answer: JsonObject) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    threading.Thread(target=_end_with_parent, daemon=True, name="parent-watch").start()
    try:
        say({"result": _examine(folder, say)})
    except MosaicError as error:
        say({"error": str(error)})
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be reported to the requester
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"})


def _end_with_parent() -> None:
    """Exit with the server: stdin is a pipe that is never written to and is closed when the server dies, however it
    does.
    """
    os.read(0, 1)
    os._exit(1)


def _examine(folder: Path, say: Callable[[JsonObject], None]) -> JsonObject:
    order = json.loads((folder / ORDER).read_bytes())
    episodes = folder / EPISODES
    tell, kind = _Progress(say), order["kind"]
    model = EvaluationRequest if kind == "evaluate" else TournamentRequest
    asked = model.model_validate(order["request"])
    with live_screen(kind, asked.environment.id, asked.references, session_id=folder.name) as screen:
        if isinstance(asked, EvaluationRequest):
            return _evaluate(asked, episodes, tell, screen)
        return _tournament(asked, episodes, tell, screen)


class _Progress:
    """Progress report, throttled to a readable rate."""

    def __init__(self, say: Callable[[JsonObject], None]) -> None:
        self._say, self._done, self._said_at = say, 0, float("-inf")

    def __call__(self, result: object) -> None:
        self._done += 1
        if monotonic() - self._said_at >= _TELL_EVERY_S:
            self._said_at = monotonic()
            self._say({"done": self._done})


def _recorder(asked: Request) -> Recorder | None:
    from mosaic.store.demos.recording import record_demo

    return None if asked.demo is None else record_demo(asked.demo)


def _evaluate(asked: EvaluationRequest, episodes: Path, tell: _Progress, screen: Screen) -> JsonObject:
    from mosaic.evaluation.evaluate import evaluate

    result = evaluate(
        asked.environment,
        asked.agents,
        episodes=asked.episodes,
        seed=asked.seed,
        num_env_runners=asked.num_env_runners,
        max_steps=asked.max_steps,
        record_dir=episodes if asked.record else None,
        recorder=_recorder(asked),
        on_episode=tell,
        screen=screen,
    )
    return result.to_json()


def _tournament(asked: TournamentRequest, episodes: Path, tell: _Progress, screen: Screen) -> JsonObject:
    from mosaic.evaluation.tournament import tournament

    result = tournament(
        asked.environment,
        asked.policies,
        games=asked.games,
        seed=asked.seed,
        num_env_runners=asked.num_env_runners,
        max_steps=asked.max_steps,
        record_dir=episodes if asked.record else None,
        recorder=_recorder(asked),
        on_game=tell,
        screen=screen,
    )
    games = [{key: value for key, value in game.to_json().items() if key != "game"} for game in result.results]
    return {**result.to_json(), "episode_results": games}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
