"""Somebody who looks at a run: from another process through its ring, or inside, in the place of a WorkerContext."""

from itertools import pairwise
from time import monotonic

from mosaic.runs.launch import sleep_between_polls
from mosaic.store.state import ENDED
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import OCCASION
from mosaic.workers.inbox import Inbox
from mosaic.workers.registry import load_worker, parse_params
from tests.workers.hosting import new_folder

PATIENCE_S = 120  # from the first iteration on: starting Ray may take longer on a busy machine
_CLOCKS = ("timestamp", "env_steps_per_s", "time_split")


class EagerContext(WorkerContext):
    """As if somebody asked for a picture at every moment; keeps what is shown of the training and of evaluations."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.shown, self.evaluated = [], []

    def frame_wanted(self):
        return True

    def frame(self, rgb, **facts):
        kept = self.evaluated if facts["agent"].startswith(OCCASION) else self.shown
        kept.append((rgb.copy(), facts))


def train_here(home, config, context_class):
    """The context after a whole run in this process."""
    worker = load_worker(config.training.worker)
    folder = new_folder(home, config)
    algorithm = config.training.algorithm or worker.info.algorithms[0]
    with EventWriter(folder.metrics, 1) as writer:
        options = parse_params(worker, algorithm, dict(config.training.params))
        context = context_class(config, options, folder, writer, Inbox(lambda *_, **__: None))
        worker.run(context)
        context.close_frames(finished=True)
    return context


def without_clocks(events):
    return [{key: value for key, value in event.items() if key not in _CLOCKS} for event in events]


def collect(run, reader, enough):
    """Frames until `enough(frames)`; fails if the run ends before."""
    frames, deadline_s = [], None
    while not enough(frames):
        frame = reader.read()
        if frame is not None:
            frames.append(frame)
            continue
        record = run.record()
        assert record.state not in ENDED, f"{record.state} after {len(frames)} pictures\n{run.log()}"
        if deadline_s is None and any(event["kind"] == "iteration" for event in run.events()):
            deadline_s = monotonic() + PATIENCE_S
        assert deadline_s is None or monotonic() < deadline_s, f"{len(frames)} pictures\n{run.log()}"
        sleep_between_polls(record)
    return frames


def looking(run, **request):
    reader = FrameReader(run.folder.path)
    reader.look(**request)
    return reader


def distinct(frames):
    return len({frame.pixels.tobytes() for frame in frames})


def assert_in_order(frames):
    for earlier, later in pairwise(frames):
        assert earlier.number < later.number
        assert earlier.step < later.step
        assert earlier.episode <= later.episode
        assert earlier.wall_time <= later.wall_time
