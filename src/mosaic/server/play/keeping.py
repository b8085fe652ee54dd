"""Episodes that matches keep: as files for replay, and in demonstrations."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.env import Env
from mosaic.runners.record import episode_to_json, save_episode
from mosaic.runners.trajectories import Trajectory, TrajectoryRecorder
from mosaic.server.play.episode import MatchPhase
from mosaic.server.play.saved import STOPPED, SavedMatch, SavedMatches
from mosaic.server.play.state import MatchState
from mosaic.store.atomic import private_folder
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.recording import recording

_END = ".episode.json"
MOST_BYTES = 512 << 20  # of observations of one episode, which a match keeps until the episode ends
MOST_UNASKED_BYTES = 64 << 20  # while no demonstration is recorded
SAVE_EVERY_S = 2.0  # of a game that does not wait for people


class KeptEpisodes:
    """Stored episodes of all matches of a server."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.demos, self.saved = Demonstrations(home), SavedMatches(home)

    def keep(self, name: str, episode: Episode) -> str:
        """Store an episode and return its name in `episodes`."""
        env = re.sub(r"[^A-Za-z0-9_.-]+", "-", str(episode.environment.get("env_id", "env")))
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        full = f"{env}-{when}-{name}"
        private_folder(self._home)
        private_folder(self._folder)
        save_episode(self._folder / f"{full}{_END}", episode)
        return full

    def all(self) -> list[Path]:
        """Return the stored episodes, newest first."""
        found = [path for path in self._folder.glob(f"*{_END}") if path.is_file()] if self._folder.is_dir() else []
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)

    def file(self, name: str) -> Path:
        """Look the name up among the files that exist; it is never joined to a path."""
        files = {path.name.removesuffix(_END): path for path in self.all()}
        if name not in files:
            raise unknown("recorded episode", name, files)
        return files[name]

    def add_to_demo(self, name: str, episode: Episode, trajectories: Sequence[Trajectory]) -> None:
        with recording(self.demos, name, episode.environment) as sink:
            sink.add(0, episode, trajectories)

    @property
    def _folder(self) -> Path:
        return self._home / "episodes"


class EpisodeRecorder:
    """Recorder of one match's episodes; used only by the match's own thread.

    The observations of the current episode are always kept, so that an episode can be saved when it was good.
    """

    def __init__(self, match_id: str, state: MatchState, kept: KeptEpisodes | None) -> None:
        self._match_id, self._state, self._kept = match_id, state, kept
        self._recorder: TrajectoryRecorder | None = None
        self._saved_at_s = -math.inf

    def note(self, env: Env, turn: Turn, record: Episode) -> None:
        """Take every Turn of the match."""
        if record.env_steps == 0:
            self._recorder = TrajectoryRecorder(env)
        if self._recorder is not None:
            self._recorder.note(turn, record)
            if self._recorder.bytes_seen > (MOST_UNASKED_BYTES if self._state.kept.demo is None else MOST_BYTES):
                self._recorder = None

    def seen_before(self, agent: AgentID) -> list[Turn] | None:
        """Return what the agent observed in this episode before the current turn; None if that is too much to keep."""
        return None if self._recorder is None else self._recorder.seen(agent)[:-1]

    def save(self, env: Env, record: Episode, *, last: bool = False) -> None:
        """Save the match as it is, so that a later server can continue it; at intervals if it is fast."""
        state, now_s = self._state, time.monotonic()
        waits = not state.pace.real_time and any(map(state.assignments.is_human, state.episode.agents))
        due = last or waits or now_s - self._saved_at_s > SAVE_EVERY_S
        if self._kept is None or not due:
            return
        self._saved_at_s = now_s
        kept = {"record": state.kept.recording, "demo": state.kept.demo}
        clocks = state.pace.clocks if record.env_steps else None  # before the first move they have not begun
        self._kept.saved.save(
            SavedMatch(
                match_id=self._match_id,
                request=state.request.model_copy(update=kept),
                policies={agent: state.assignments.policy_of(agent) for agent in state.episode.agents},
                number=state.episode.number,
                left_s={} if clocks is None else clocks.left_s(),
                keys=state.access.saved(),
                reproducible=env.spec.facts.reproducible,
                episode=episode_to_json(record),
            )
        )

    def forget(self) -> None:
        """Delete the saved match, unless it is to continue on a later server."""
        if self._kept is not None and self._state.ending != STOPPED:
            self._kept.saved.remove(self._match_id)

    def record_demo(self, name: str | None, record: Episode) -> None:
        """Add every episode to this demonstration from now on, the one that is over too; None: no more."""
        state = self._state
        if name is not None:
            if self._kept is None:
                raise InputError("This match keeps no episodes.")
            self._kept.demos.check(name, record.environment)
        with state.changed:
            state.kept.demo = name
            state.viewers.tell()
        if state.episode.phase is MatchPhase.OVER:
            self._store_demo(record)

    def store(self, record: Episode) -> None:
        """Store an episode that has ended or was cut, if the match records episodes."""
        if self._kept is None or not record.env_steps:
            return
        if self._state.kept.recording:
            self._store_file(self._kept, record)
        self._store_demo(record)

    def _store_file(self, kept: KeptEpisodes, record: Episode) -> None:
        state = self._state
        try:
            name = kept.keep(f"{self._match_id}-{state.episode.number}", record)
        except OSError as error:
            self._say(f"The episode could not be kept: {error}.")
            return
        with state.changed:
            state.kept.files.append(name)
            state.viewers.tell()

    def _store_demo(self, record: Episode) -> None:
        state, name = self._state, self._state.kept.demo
        if name is None or self._kept is None or state.kept.in_demo:
            return
        if self._recorder is None:
            self._say(
                "This episode has too many observations for a demonstration. The next one is recorded from its start."
            )
            return
        trajectories = self._recorder.trajectories()
        if not trajectories:  # cut before any agent saw the outcome of an action
            return
        try:
            self._kept.add_to_demo(name, record, trajectories)
        except (MosaicError, OSError) as error:
            self._say(f"The episode was not added to the demonstration '{name}': {error}")
            return
        with state.changed:
            state.kept.demo_episodes += 1
            state.kept.in_demo = True
            state.viewers.tell()

    def _say(self, note: str) -> None:
        with self._state.changed:
            self._state.note = note
            self._state.viewers.tell()
