"""Sources of a run's pictures, and a viewer that follows whichever is active."""

import os
from contextlib import closing

import numpy as np
import pytest

from mosaic.core.errors import UnknownNameError
from mosaic.telemetry.frames.on_demand import OnDemandWriter
from mosaic.telemetry.frames.paths import pictures_requested, request_pictures, ring_paths
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.run_pictures import RunPictures
from mosaic.telemetry.frames.sources import (
    announce_source,
    list_sources,
    parse_source,
    remove_rings,
    source_folder,
    title,
    usual_source,
    withdraw_source,
)
from mosaic.telemetry.frames.writer import FrameWriter


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        self.now_s += 1.0  # every look is late enough to choose again
        return self.now_s


def picture(value):
    return np.full((2, 2, 3), value, np.uint8)


def seen(pictures, writer, value):
    """The value of the last frame that the viewer gets while the writer shows this value; None: it gets none."""
    frames = []
    for _ in range(4):  # the first look asks for the ring, the second for a frame
        frames.append(pictures.newest())
        if writer.wanted():
            writer.publish(picture(value))
    shown = [int(frame.pixels[0, 0, 0]) for frame in (*frames, pictures.newest()) if frame is not None]
    return shown[-1] if shown else None


def rings(folder):
    return [path for path in ring_paths(folder) if path.exists()]


def test_sources_are_listed_runners_first_in_the_order_of_their_numbers(tmp_path):
    assert list_sources(tmp_path) == ()
    assert usual_source(tmp_path) is None
    for name in ("env-runner-10", "evaluation", "env-runner-2"):
        announce_source(tmp_path, name)
    (source_folder(tmp_path, "stranger")).mkdir()
    assert list_sources(tmp_path) == ("env-runner-2", "env-runner-10", "evaluation")
    assert usual_source(tmp_path) == "evaluation"  # while it lasts
    withdraw_source(source_folder(tmp_path, "evaluation"))
    withdraw_source(source_folder(tmp_path, "evaluation"))
    assert usual_source(tmp_path) == "env-runner-2"
    assert title("env-runner-2") == "env runner 2"
    remove_rings(tmp_path)
    assert list(tmp_path.iterdir()) == []
    remove_rings(tmp_path)


@pytest.mark.parametrize("text", ["env-runner-2", "env runner 2", "2"])
def test_a_source_is_found_as_people_write_it(text):
    assert parse_source(text, ("env-runner-1", "env-runner-2")) == "env-runner-2"
    assert parse_source(text, ()) == "env-runner-2"  # a run that has just begun
    assert parse_source("evaluation", ("env-runner-1",)) == "evaluation"


@pytest.mark.parametrize(
    ("text", "known"), [("env-runner-3", ("env-runner-1",)), ("../x", ()), ("0", ()), ("runner", ())]
)
def test_an_unknown_source_is_refused_with_those_that_exist(text, known):
    with pytest.raises(UnknownNameError, match=r"no source of pictures named .*Known: env-runner-1, evaluation\."):
        parse_source(text, known)


def test_a_new_source_forgets_the_requests_to_its_predecessor(tmp_path):
    folder = announce_source(tmp_path, "env-runner-1")
    request_pictures(folder)
    assert pictures_requested(folder)
    assert not pictures_requested(announce_source(tmp_path, "env-runner-1"))


def test_a_viewer_without_a_choice_follows_the_evaluation_and_returns(tmp_path):
    clock = Clock()
    runner = OnDemandWriter(announce_source(tmp_path, "env-runner-1"), clock)
    with closing(RunPictures(tmp_path, FrameRequest(1000), clock=clock)) as pictures:
        assert rings(runner.folder) == []
        assert seen(pictures, runner, 1) == 1
        evaluation = OnDemandWriter(announce_source(tmp_path, "evaluation"), clock)
        assert seen(pictures, evaluation, 2) == 2
        evaluation.close()
        withdraw_source(evaluation.folder)
        assert pictures.state == "waiting"  # the run is not over
        assert seen(pictures, runner, 3) == 3
        runner.close()
        remove_rings(tmp_path)
        assert pictures.newest() is None
        assert pictures.state == "finished"


def test_a_chosen_source_is_waited_for_and_no_other_one_draws(tmp_path):
    clock = Clock()
    runner = OnDemandWriter(announce_source(tmp_path, "env-runner-1"), clock)
    with closing(RunPictures(tmp_path, FrameRequest(1000), "evaluation", clock)) as pictures:
        assert seen(pictures, runner, 1) is None
        assert pictures.state == "waiting"
        assert rings(runner.folder) == []
        evaluation = OnDemandWriter(announce_source(tmp_path, "evaluation"), clock)
        assert seen(pictures, evaluation, 2) == 2
        evaluation.close()


def test_a_viewer_that_waits_for_a_source_counts_from_its_beginning(tmp_path):
    """An evaluation may take less time than a viewer and a writer need to find each other."""
    announce_source(tmp_path, "env-runner-1")
    with closing(RunPictures(tmp_path, FrameRequest(1000), "evaluation", Clock())) as pictures:
        pictures.newest()
        folder = announce_source(tmp_path, "evaluation")
        assert pictures_requested(folder)
        assert not pictures_requested(announce_source(tmp_path, "env-runner-2"))  # nobody waits for it
        withdraw_source(folder)
    os.utime(folder.with_name(".evaluation"), (0, 0))  # the viewer left long ago
    assert not pictures_requested(announce_source(tmp_path, "evaluation"))
    assert list_sources(tmp_path) == ("env-runner-1", "env-runner-2", "evaluation")
    remove_rings(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_viewer_without_a_choice_sees_short_evaluations_too(tmp_path):
    announce_source(tmp_path, "env-runner-1")
    with closing(RunPictures(tmp_path, FrameRequest(1000), clock=Clock())) as pictures:
        pictures.newest()
        evaluation = OnDemandWriter(announce_source(tmp_path, "evaluation"))
        assert evaluation.wanted()  # in its first step
        evaluation.publish(picture(7))
        assert [int(each.pixels[0, 0, 0]) for each in (pictures.newest(), pictures.newest()) if each] == [7]
        evaluation.close()


def test_a_request_at_the_moment_of_the_end_does_not_keep_a_source(tmp_path, monkeypatch):
    folder = announce_source(tmp_path, "evaluation")
    remove = os.rmdir

    def asked_meanwhile(path, *where, **how):
        request_pictures(folder)
        remove(path, *where, **how)

    monkeypatch.setattr(os, "rmdir", asked_meanwhile)
    withdraw_source(folder)
    assert list_sources(tmp_path) == ()
    assert [each.name for each in folder.parent.iterdir()] == []


def test_a_run_with_one_picture_is_watched_as_before(tmp_path):
    with FrameWriter(tmp_path) as writer, closing(RunPictures(tmp_path, FrameRequest(1000))) as pictures:
        assert seen(pictures, writer, 5) == 5
        assert pictures.state == "live"
        writer.close()
        assert pictures.state == "finished"


def test_rings_of_killed_sources_are_removed_and_links_are_not_followed(tmp_path):
    folder = announce_source(tmp_path, "env-runner-1")
    FrameWriter(folder)  # never closed, as after kill -9
    assert rings(folder)
    (where,) = {path.parent for path in rings(folder)}
    remove_rings(tmp_path)
    assert not where.exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").touch()
    (tmp_path / ".pictures").symlink_to(other)
    remove_rings(tmp_path)
    assert list(other.iterdir()) == [other / "kept"]
    assert not (tmp_path / ".pictures").exists()


def test_evaluations_of_a_run_with_one_ring_are_a_source_too(tmp_path):
    with FrameWriter(tmp_path) as writer, closing(RunPictures(tmp_path, FrameRequest(), "evaluation", Clock())) as seen:
        assert seen.newest() is None
        writer.publish(picture(1), agent="")
        assert seen.newest() is None
        writer.publish(picture(2), agent="evaluation, return=1")
        assert int(seen.newest().pixels[0, 0, 0]) == 2
        writer.publish(picture(3), agent="red=1, blue=2")
        assert seen.newest() is None
        announce_source(tmp_path, "env-runner-1")  # it starts Ray: there will be a source of this name
        writer.publish(picture(4), agent="evaluation, return=1")
        assert seen.newest() is None
