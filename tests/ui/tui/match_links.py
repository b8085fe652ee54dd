"""Matches and replays for the Play tab without processes: real ones, each in a thread of the test."""

import json
from queue import SimpleQueue
from threading import Event, Thread

from mosaic.core.episode import first_steps
from mosaic.core.errors import MosaicError
from mosaic.runners.record import environment_of
from mosaic.server.client.matches import MatchOverError
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.replay_views import EpisodeRow, replay_row, report_rows
from mosaic.server.play.replays import Replay
from mosaic.store.views import LiveRow


class ThreadMatch:
    """Connection to a match of this process; `asked` keeps what was sent."""

    def __init__(self, request, opening=None):
        self.asked, self._out, self._wake, self._over, self._open = [], SimpleQueue(), Event(), Event(), Event()
        self._match = Match("here", MatchRequest.model_validate(request), opening=opening)
        Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        try:
            self._match.open()
        except MosaicError as error:
            self._out.put(MatchOverError(str(error)))
            return
        self._feed = MatchFeed(self._match, set(), lambda policy: None, self._wake.set)
        self._feed.join()
        self._match.state.identify(self._feed.viewer, self._match.state.access.owner_key)
        self._open.set()
        while not self._over.is_set() and not self._feed.ending:
            self._wake.wait()
            self._wake.clear()
            for text in self._feed.texts():
                self._out.put(text)
            frame = self._feed.picture()
            if frame is not None:
                self._out.put(frame.message())
        self._match.end("it was left.")
        self._match.join_thread(5)
        self._out.put(MatchOverError("This match has ended."))

    def receive(self):
        found = self._out.get()
        if isinstance(found, MatchOverError):
            raise found
        return found

    def send(self, message):
        self.asked.append(message)
        self._open.wait(60)  # as a pipe keeps what is sent before the match is open
        self._feed.take(json.dumps(message))

    def end(self):
        self.close()

    def close(self):
        self._over.set()
        self._wake.set()


class FakePictures:
    """Pictures of a game elsewhere that has not begun."""

    state = "waiting"

    def newest(self):
        return None

    def close(self):
        self.state = "finished"


class FakeMatches:
    def __init__(self):
        self.opened = []
        policies = {"player_1": "human", "player_2": "run:run-a"}
        self.rows = [LiveRow(id="far", kind="match", env="classic/chess_v6", policies=policies, began=0.0)]
        self.joins = False

    def open(self, request):
        self.opened.append(ThreadMatch(request))
        return self.opened[-1]

    def sessions(self):
        return list(self.rows)

    def join(self, session_id):
        if not self.joins:
            return None
        return self.open({"environment": {"env_id": "mosaic/tictactoe"}, "agents": {"*": "random"}})

    def pictures(self, session_id, rate_hz):
        return FakePictures()


class ThreadReplay:
    """Connection to a replay of this process."""

    def __init__(self, asked, episodes):
        self._replay = Replay("here", environment_of(episodes[asked.name]), episodes[asked.name])
        self._replay.start()
        self.closed = False

    def show(self):
        return replay_row(self._replay)

    def reports(self):
        return report_rows(self._replay)

    def picture(self, step):
        return self._replay.picture(step).data

    def play_on(self, step, agents):
        self.played_on = ThreadMatch(
            {"environment": self._replay.environment, "agents": agents}, first_steps(self._replay.episode, step)
        )
        return self.played_on

    def close(self):
        self._replay.end()
        self.closed = True


class FakeReplays:
    """Recorded episodes by their names."""

    def __init__(self):
        self.kept, self.opened = {}, []

    def episodes(self):
        return [EpisodeRow(name=name, bytes=9, time=0.0) for name in self.kept]

    def open(self, asked):
        self.opened.append(ThreadReplay(asked, self.kept))
        return self.opened[-1]
