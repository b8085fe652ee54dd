"""An app whose terminal is gone ends, even while it waits for that terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

WAITING = """
import asyncio, queue, sys
from mosaic.ui.tui import run
class App:
    async def run_async(self):
        full = queue.Queue(1)
        full.put("a screen")
        print("waiting", file=sys.stderr, flush=True)
        full.put("another screen that nobody takes")
    def exit(self, return_code):
        raise AssertionError
asyncio.run(run._run(App()))
"""


def test_an_app_that_waits_for_a_terminal_that_is_gone_ends():
    ours, theirs = os.openpty()
    app = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    os.close(theirs)
    with app:
        assert app.stderr is not None
        assert app.stderr.readline() == "waiting\n"
        app.send_signal(signal.SIGHUP)  # as tmux does, while the terminal is still there
        os.close(ours)
        try:
            assert app.wait(60) == 129
        finally:
            app.kill()
