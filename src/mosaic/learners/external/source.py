"""External programs as a learner reads them: it serves their calls until enough experience has been collected."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from mosaic.core.errors import notify
from mosaic.learners.external.episodes import ExternalEpisodes, Taken
from mosaic.learners.external.port import ActionRequest, Ended, Event, LearnerPort, Logged, Lost
from mosaic.learners.rollout.arrays import WINDOW, EpisodeTally
from mosaic.learners.rollout.base import PolicyInfos, Stopwatch
from mosaic.policies.serving.episode import StartedEpisode
from mosaic.policies.serving.messages import CallError

_LOOK_UP_S = 0.1  # without any call; a stop is noticed then
_LONG_EPISODE = 20_000  # steps of one from which nothing was learned


class ExternalSource:
    """Episodes of external programs, and the counts of what was learned from them."""

    def __init__(self, port: LearnerPort, episodes: ExternalEpisodes, tally: EpisodeTally, times: Stopwatch) -> None:
        self.port, self.episodes, self.tally, self._times = port, episodes, tally, times
        self._infos: PolicyInfos = []
        self._told = False

    def wait_for(self, env_steps: int, enough: Callable[[], bool]) -> Taken:
        """Serve calls until there are this many env steps to learn from, or `enough` returns true; take it all."""
        while self.episodes.open_steps < env_steps and not enough():
            began = perf_counter()
            events = self.port.take(_LOOK_UP_S)
            came = perf_counter()
            self._serve(events)
            self._times.add(env_s=came - began, inference_s=perf_counter() - came)
        taken = self.episodes.take()
        for episode in taken.ended:
            self._count(episode.steps, [(each.policy, each.paid) for each in episode.trajectories if each.decided])
            self._infos += [(each.policy, each.numbers) for each in episode.trajectories if each.numbers]
        self.tally.decisions[0] += sum(len(fragment.decisions) for fragment in taken.fragments)
        return taken

    def take_infos(self) -> PolicyInfos:
        taken, self._infos = self._infos, []
        return taken

    def _count(self, steps: int, returns: list[tuple[int, float]]) -> None:
        tally = self.tally
        for policy, paid in returns:
            tally.recent[policy, tally.finished[policy] % WINDOW] = paid
            tally.finished[policy] += 1
        tally.recent_length[tally.finished[-1] % WINDOW] = steps
        tally.finished[-1] += 1

    def _serve(self, events: list[Event]) -> None:
        """Carry out all events; decisions come last, in one batch, as nothing waits for anything but its own."""
        asked: list[ActionRequest] = []
        try:
            for event in events:
                match event:
                    case ActionRequest():
                        asked.append(event)
                    case StartedEpisode():
                        self.episodes.start(event.episode_id, event.seed, learns=event.training_enabled)
                    case Logged():
                        self.episodes.log(event.episode_id, event.turn, event.actions)
                    case Ended():
                        self.episodes.end(event.episode_id, event.turn)
                    case Lost():
                        self.episodes.drop(event.episode_id)
            answers = iter(self.episodes.act([turn for event in asked for turn in event.turns]))
            for event in asked:
                event.answer.set_result([next(answers) for _ in event.turns])
        except BaseException as error:
            for event in asked:
                if not event.answer.done():
                    event.answer.set_result([CallError("episode_lost", f"The run failed: {error}.")] * len(event.turns))
            raise
        self._warn()

    def _warn(self) -> None:
        if not self._told and self.episodes.whole and self.episodes.longest > _LONG_EPISODE:
            self._told = True
            notify(
                f"An episode has {_LONG_EPISODE:,} steps and is not over: nothing is learned from it until then. To "
                "learn from every step, type: --set environment.options.whole_episodes=false"
            )
