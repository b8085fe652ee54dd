"""Round-robin tournaments, and the file that stores their games."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from itertools import permutations
from pathlib import Path
from typing import IO, Unpack

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError, InputError, check_keywords
from mosaic.core.ids import EnvID, Json, JsonObject, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.run_games import check_counts, most_steps, play_games
from mosaic.evaluation.schedule import MALFORMED, SCORES, MatchResult, ScheduledMatch, schedule
from mosaic.evaluation.standings import Tournament
from mosaic.evaluation.worker import EvaluationPlan, GameTask, PlayOptions, env_runners_asked, record_folder_asked
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import add_code_of, is_reproducible, policy_notes

FORMAT, VERSION = "mosaic.tournament", 1


class MatchStore:
    """File of JSON lines: the conditions, then one line per finished game; only the last line may be incomplete."""

    def __init__(self, file: IO[bytes], finished: Mapping[ScheduledMatch, MatchResult]) -> None:
        self.finished = finished
        self._file = file

    def add(self, result: MatchResult) -> None:
        self._file.write(_line(result.to_json()))  # unbuffered: handed to the operating system before the next game


@contextmanager
def opened(path: Path, conditions: Mapping[str, Json], seeds: Mapping[ScheduledMatch, int]) -> Iterator[MatchStore]:
    """Open or create the store of the tournament with exactly these conditions and games."""
    with _file(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"Another process is playing the tournament in '{path}'.") from error
        file.seek(0)
        data = file.read()
        header = _line({"format": FORMAT, "version": VERSION, **conditions})
        if header.startswith(data):  # new, or cut off within its first line
            file.truncate(0)
            file.write(header)
            yield MatchStore(file, {})
            return
        _check_header(path, data.partition(b"\n")[0], json.loads(header))
        finished, whole = _read(path, data, seeds)
        if whole < len(data):
            file.truncate(whole)
        elif not data.endswith(b"\n"):
            file.write(b"\n")
        yield MatchStore(file, finished)


def _file(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b", buffering=0)
    except OSError as error:
        raise InputError(f"The tournament's store '{path}' cannot be opened: {error.strerror}.") from error


def _line(data: Mapping[str, Json]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _check_header(path: Path, line: bytes, ours: Mapping[str, Json]) -> None:
    theirs = _parsed(line)
    if not isinstance(theirs, dict) or theirs.get("format") != FORMAT:
        raise FormatError(f"'{path}' is not the store of a tournament; it was left unchanged. Choose another file.")
    for key, value in ours.items():
        if theirs.get(key) != value:
            raise InputError(
                f"'{path}' holds another tournament: its {key} is {json.dumps(theirs.get(key))}, "
                f"this one's is {json.dumps(value)}. Choose another file, or ask for the same tournament to "
                f"continue it."
            )


def _read(
    path: Path, data: bytes, seeds: Mapping[ScheduledMatch, int]
) -> tuple[dict[ScheduledMatch, MatchResult], int]:
    """Return the finished games and the number of bytes that form complete lines."""
    finished: dict[ScheduledMatch, MatchResult] = {}
    lines = data.splitlines(keepends=True)
    whole = len(lines[0])
    for number, line in enumerate(lines[1:], start=2):
        values = _parsed(line)
        if values is None and number == len(lines) and not line.endswith(b"\n"):
            break  # incomplete: its game is played again
        try:
            result = MatchResult.from_json(values)
        except MALFORMED as error:
            raise FormatError(f"Line {number} of '{path}' is damaged: {error!r}.") from error
        if seeds.get(result.match) != result.seed or result.match in finished:
            raise FormatError(f"Line {number} of '{path}' repeats a game or names one that is not played here.")
        finished[result.match] = result
        whole += len(line)
    return finished, whole


def _parsed(line: bytes) -> Json:
    """Parse a line; return None where it is not JSON."""
    try:
        parsed: Json = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed


def tournament(
    env: EnvID | EnvironmentConfig,
    policies: Sequence[PolicyID],
    *,
    games: int = 10,
    seed: int = 0,
    num_env_runners: int = 1,
    store: Path | None = None,
    on_game: Callable[[MatchResult], None] | None = None,
    **options: Unpack[PlayOptions],
) -> Tournament:
    """Play a round robin of a two-player game, with `games` games per ordered pair.

    The first policy of a pair plays as the env's first agent. `store` keeps every finished game; called again with the
    same store, an interrupted tournament resumes.

    `on_game` is called once per game, first for those already in the store.

    Options: `max_steps` (10,000) cuts games that never end, `time_limit_s` (60) is how long a policy may take for an
    action, None for any time. `record_dir` (None) keeps every game that is played, named by its index in the schedule,
    `recorder` (None) in a demonstration. `screen` (None) shows games live, one at a time, as often as it asks for
    frames.
    """
    check_keywords(tournament, options, PlayOptions)
    num_env_runners = env_runners_asked(num_env_runners, options)
    tell, max_steps = on_game or (lambda result: None), most_steps(options)
    check_counts(games=games, num_env_runners=num_env_runners, max_steps=max_steps)
    _check_policies(policies)
    add_code_of(PolicyMapping(tuple(("*", policy) for policy in policies)))
    with ExitStack() as stack:
        made = stack.enter_context(closing(make_env(env)))
        spec = made.spec
        _check_env(spec)
        reproducible = [spec.facts.reproducible, *map(is_reproducible, policies)]
        notes = [note for policy in policies for note in policy_notes(policy, spec)]
        mappings = {pair: _agent_mapping(spec, *pair) for pair in permutations(policies, 2)}
        limit_s, record_dir = options.get("time_limit_s", DEFAULT_TIME_LIMIT_S), record_folder_asked(options)
        recorder = options.get("recorder")
        sink = None if recorder is None else stack.enter_context(recorder(spec))
        plan = EvaluationPlan(spec.facts.config, tuple(mappings.values()), seed, max_steps, limit_s, record_dir, sink)
        environment = plan.environment.model_dump(mode="json", exclude={"num_envs"})
        conditions: JsonObject = {
            "environment": environment,
            "policies": sorted(policies),
            "games": games,
            "seed": seed,
            "max_steps": max_steps,
        }
        seeds = schedule(policies, games, seed)
        results: dict[ScheduledMatch, MatchResult] = {}
        with nullcontext() if store is None else opened(store, conditions, seeds) as kept:
            for result in kept.finished.values() if kept else ():
                results[result.match] = result
                tell(result)
            matches = list(seeds)
            places = {pair: place for place, pair in enumerate(mappings)}
            left = [
                GameTask(index, seeds[match], places[match[:2]])
                for index, match in enumerate(matches)
                if match not in results
            ]
            with closing(play_games(plan, left, num_env_runners, made, screen=options.get("screen"))) as arriving:
                for episode in arriving:
                    result = _match_result(matches[episode.index], episode, spec)
                    results[result.match] = result
                    if kept:
                        kept.add(result)
                    tell(result)
    return Tournament(
        env=spec.env_id,
        options=environment["options"],
        seed=seed,
        games=games,
        policies=tuple(policies),
        reproducible=all(reproducible),
        notes=tuple(dict.fromkeys(notes)),
        results=tuple(results[match] for match in seeds),
    )


def _agent_mapping(spec: EnvSpec, first: PolicyID, second: PolicyID) -> PolicyMapping:
    return PolicyMapping(tuple(zip(spec.possible_agents, (first, second), strict=True)))


def _match_result(match: ScheduledMatch, episode: EpisodeResult, spec: EnvSpec) -> MatchResult:
    assert episode.outcomes is not None  # the env is competitive
    score = SCORES[episode.outcomes[spec.possible_agents[0]]]
    reports = {policy: episode.reports[agent] for agent, policy in episode.policies.items() if agent in episode.reports}
    return MatchResult(match, episode.seed, score, episode.length, episode.cut, episode.game, reports)


def _check_policies(policies: Sequence[PolicyID]) -> None:
    if isinstance(policies, str) or len(policies) < 2:
        raise InputError("A tournament needs at least two policies, for example: random minimax.")
    twice = [policy for policy in dict.fromkeys(policies) if list(policies).count(policy) > 1]
    if twice:
        raise InputError(f"'{twice[0]}' is duplicated in the tournament. Name every policy once.")


def _check_env(spec: EnvSpec) -> None:
    agents = spec.possible_agents
    if len(agents) == 2 and spec.facts.competitive:
        return
    if len(agents) != 2:
        reason = (
            f"it has {len(agents) or 'no fixed number of'} agent{'s' * (len(agents) != 1)}, but a tournament pairs two"
        )
    else:
        reason = "it has no winner: its agents have returns, but no outcome"
    raise InputError(
        f"{spec.env_id} cannot hold a tournament: {reason}. "
        "Games that can: classic/tictactoe_v3, classic/connect_four_v3, classic/chess_v6 and others of `mosaic envs "
        f"classic`. To compare returns, type: mosaic evaluate {spec.env_id} --agent '*=POLICY'"
    )
