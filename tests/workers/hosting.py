"""A worker's host process without a supervisor: the test holds the other ends of its two pipes."""

import json
import os
import subprocess
import sys

from mosaic.config.run import RunConfig
from mosaic.store.store import Store
from mosaic.telemetry.events.reader import follow, read_events


def run_config(worker, params=None, **settings):
    training = {"worker": worker, "params": params or {}, **settings.pop("training", {})}
    settings.setdefault("environment", {"env_id": "gym/CartPole-v1"})
    return RunConfig.model_validate({"training": training, **settings})


def new_folder(home, config):
    return Store(home).create(config)


class Hosted:
    """`with Hosted(folder) as host`: one attempt."""

    def __init__(self, folder, attempt=1, **env):
        self.folder = folder
        control, self.commands = os.pipe()
        self._progress, progress = os.pipe()
        self._words = os.fdopen(self._progress, "r")
        pipes = {"MOSAIC_CONTROL_FD": str(control), "MOSAIC_PROGRESS_FD": str(progress)}
        with folder.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mosaic.workers.host", str(folder.path), str(attempt)],
                pass_fds=(control, progress),
                env={**os.environ, **pipes, "MOSAIC_RUN": folder.run_id, **env},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(control)
        os.close(progress)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()
        self._words.close()
        self.hang_up()

    def say(self, command, **facts):
        os.write(self.commands, json.dumps({"command": command, **facts}).encode() + b"\n")

    def hang_up(self):
        """As if the supervisor had died."""
        if self.commands >= 0:
            os.close(self.commands)
        self.commands = -1

    def hear(self, progress):
        """Waits for this word; fails if the process ends without it."""
        for line in self._words:
            word = json.loads(line)
            if word["progress"] == progress:
                return word
        raise AssertionError(f"never said {progress}; log:\n{self.log()}")

    def wait(self):
        return self.process.wait(timeout=60)

    def log(self):
        return self.folder.log.read_text(errors="replace")

    def stored(self):
        return list(read_events(self.folder.metrics))

    def events(self, kind=None):
        """What the worker said; the host's own first and last word only if asked for."""
        hosts = () if kind else ("started", "ended")
        events = (event for event in read_events(self.folder.metrics) if event.get("trigger") != "clock")
        return [event for event in events if kind in (None, event["kind"]) and event["kind"] not in hosts]

    def event(self, wanted):
        """The first event, past or to come, for which `wanted` is true; none that only the clock made due."""
        for event in follow(self.folder.metrics, poll_s=0.005):
            if event.get("trigger") != "clock" and wanted(event):
                return event
