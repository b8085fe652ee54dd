"""What the command line films, saves and shows of pictures."""

from __future__ import annotations

import io
import json
import threading
from contextlib import contextmanager
from math import inf

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from mosaic.core.errors import MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.frames.writer import FrameWriter
from mosaic.ui.cli.pictures import WORDS, PicturePane
from mosaic.ui.cli.recording import take
from mosaic.ui.cli.watching import TrainingView, together

TOY = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 100}}


def frame(step=1, wall_time=0.0, agent="", ret=2.5):
    return Frame(step, np.full((40, 60, 3), 200, np.uint8), step, 3, 0, agent, wall_time, 0.0, ret)


class Shown:
    """Pictures that a test decides on."""

    def __init__(self, frames=(), state="live", error=None):
        self.frames, self.state, self.error = list(frames), state, error

    def newest(self):
        if self.error:
            raise self.error
        return self.frames.pop(0) if self.frames else None

    def close(self):
        pass


def drawn(renderable, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable)
    return console.file.getvalue()


@contextmanager
def drawing(lane):
    """A run that draws whenever somebody looks."""
    over = threading.Event()

    def draw():
        step = 0
        while not over.wait(0.002):
            step += 1
            if lane.wanted():
                lane.publish(np.full((40, 300, 3), 7, np.uint8), step=step, env=lane.request().env, agent="a=1, b=-2")

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def frames_in(path):
    with Image.open(path) as film:
        return film.n_frames, film.size


@pytest.mark.slow
@pytest.mark.chosen
def test_evaluate_films_its_first_episodes_and_changes_no_number(mosaic, tmp_path):
    words = ("evaluate", "mosaic/gridworld", "--agent", "*=random", "--episodes", "4", "--max-steps", "9", "--json")
    plain = json.loads(mosaic(*words).out)
    filmed = mosaic(*words, "--video", "two.gif", "--video-episodes", "2", "--num-workers", "2", "--fps", "10")
    assert filmed.code == 0
    again = json.loads(filmed.out)
    lengths = [result["length"] for result in again["episode_results"]]
    assert again["agents"] == plain["agents"]
    assert lengths == [result["length"] for result in plain["episode_results"]]
    frames, (width, height) = frames_in(tmp_path / "two.gif")
    assert (width, height > 240) == (240, True)
    # GIF joins equal neighbours; each episode has a picture after reset, one a step, and holds its last one
    assert 4 <= frames <= lengths[0] + lengths[1] + 2 + 20
    assert "first 2 episodes is in one.gif" in mosaic(*words[:-1], "--video", "one.gif", "--video-episodes", "2").err


def test_replay_films_what_was_recorded(mosaic, tmp_path):
    mosaic("evaluate", "mosaic/gridworld", "--agent", "*=random", "--episodes", "1", "--record", "kept")
    (episode,) = (tmp_path / "kept").iterdir()
    answer = mosaic("replay", str(episode), "--video", "again.gif")
    assert answer.code == 0
    assert "bit for bit the same" in answer.out
    assert "The video is in again.gif" in answer.out
    assert frames_in(tmp_path / "again.gif")[0] > 1
    assert json.loads(mosaic("replay", str(episode), "--video", "b.mp4", "--json").out)["video"] == "b.mp4"
    assert (tmp_path / "b.mp4").read_bytes()[4:8] == b"ftyp"


def test_a_wrong_video_is_said_before_anything_is_played(mosaic):
    answer = mosaic("evaluate", "mosaic/gridworld", "--agent", "*=random", "--video", "film.avi")
    assert answer.code == 2
    assert "Type: film.mp4" in answer.err


def test_a_snapshot_of_a_run(mosaic, tmp_path):
    run = Trainer(tmp_path / "home").submit(TOY, start=False)
    with FrameWriter(run.folder.path) as lane, drawing(lane):
        answer = mosaic("watch", run.id, "--picture", "now.png", "--env", "4")
    assert (answer.code, answer.err.startswith("now.png: env 4, episode 0, step ")) == (0, True)
    with Image.open(tmp_path / "now.png") as picture:
        assert picture.width == 300
        assert picture.height > 40
        assert picture.getpixel((5, 5)) == (7, 7, 7)
    assert "Type: --picture now.png" in mosaic("watch", run.id, "--picture", "now.jpg").err
    run.stop()
    ended = mosaic("watch", run.id, "--picture", "now.png")
    assert ended.code == 2
    assert f"The run {run.id} is stopped: it shows no more pictures." in " ".join(ended.err.split())


def test_a_snapshot_is_new_if_it_can_be():
    old, new = frame(1, wall_time=0.0), frame(2, wall_time=0.0)
    assert take(Shown([old, None, new]), "r") == new
    assert take(Shown([old], "finished"), "r") == old
    assert take(Shown([old], "stalled"), "r", patience_s=0.0) == old
    with pytest.raises(
        MosaicError, match=r"The run r showed no picture within 0 s \(its pictures: waiting\). Try again"
    ):
        take(Shown([], "waiting"), "r", patience_s=0.0)
    with pytest.raises(MosaicError, match=r"The run r has ended, and no picture was drawn before that."):
        take(Shown([], "waiting"), "r", patience_s=inf, ended=lambda: True)


@pytest.mark.parametrize("state", list(WORDS))
def test_how_the_writer_is_stands_below_the_picture(state):
    pane = PicturePane(Shown([frame(1200, agent="red_0=1.5, red_1=-2")], state))
    pane.look()
    text = drawn(pane.render(80, 12))
    assert WORDS[state] in text
    assert "env 0 · episode 3 · step 1,200 · red_0 1.5 · red_1 -2" in text
    assert len(text.splitlines()) <= 12


def test_the_last_picture_stays_and_trouble_is_shown():
    source = Shown([frame(5)])
    pane = PicturePane(source)
    pane.look()
    pane.look()
    assert "step 5 · return 2.5" in drawn(pane.render(80, 12))
    source.error = MosaicError("The server has stopped sending pictures: gone.")
    pane.look()
    text = drawn(pane.render(80, 12))
    assert "step 5" in text
    assert "The server has stopped sending pictures: gone." in text


@pytest.mark.parametrize(("columns", "rows"), [(60, 40), (80, 24), (120, 34), (250, 60)])
def test_curve_and_picture_fit_the_terminal(columns, rows):
    view = TrainingView("run-1", "gym/CartPole-v1   toy walk", 1000, curve=True)
    for step in (10, 20, 30):
        view.add({"kind": "iteration", "env_steps": step, "episode_reward_mean": step})
    bare = drawn(together(view, PicturePane(Shown([], "waiting")), columns, rows), columns)
    assert WORDS["waiting"] in bare
    lines = drawn(together(view, PicturePane(Shown([frame()])), columns, rows), columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= rows
    beside = [line for line in lines if "│" in line and ("#" in line or "%" in line)]
    assert bool(beside) == (columns >= 70)


def test_watch_without_pictures_is_as_before():
    view = TrainingView("run-1", "title", curve=True)
    assert drawn(together(view, None, 80, 24), 80) == drawn(view.render(80), 80)
