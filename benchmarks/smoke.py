"""Smoke benchmark: a few small rows with loose goals; `make bench-smoke` runs it in less than two minutes.

    python benchmarks/smoke.py

It fails after two minutes. It does not replace the other benchmarks: it shows that tables and networks learn, that they
are not many times slower than they should be, and that figures reach the report. The goals leave room for a busy
machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Timer, get_ident
from time import perf_counter
from types import FrameType

from figures import at_least, at_most, note_failure, note_figure, note_ratio
from ppo_rows.measure import Outcome, gate, in_turn, show_speed
from row_table import ONE_THREAD, run_row

REPEATS = 3
LIMIT_S = 120.0  # of the wall clock: it is a part of `make test`


class TimeOver(BaseException):
    """The time limit has passed; no row takes it for a failure of its own."""


def tables() -> None:
    """Self-play in tic-tac-toe until the table is proven unbeatable, beside a loop in Python."""
    from tabular_rows.games import GAME, UNBEATABLE
    from tabular_rows.peers import SelfPlayPeer
    from tabular_rows.rows import seconds

    from mosaic.learners.tabular.optimal import prove
    from mosaic.learners.tabular.training.twin import TwinTraining

    ours, peers = [], []
    for seed in range(REPEATS):
        training = TwinTraining(GAME, "q_learning", UNBEATABLE, seed)
        while not prove(GAME, training.values).unbeatable:
            training.advance(20_000)
            gate(training.env_steps < 5_000_000, f"seed {seed}: self-play becomes unbeatable")
        ours.append(1_000_000 / seconds(lambda t=training: t.advance(1_000_000)))
        peer = SelfPlayPeer(seed, UNBEATABLE.epsilon, UNBEATABLE.learning_rate, UNBEATABLE.discount_factor)
        peers.append(10_000 / seconds(lambda p=peer: p.train(10_000)))
    note_ratio("tic-tac-toe self-play with a table", "moves/s", ours, peers, "Python", at_least(50))


def ppo() -> None:
    """CartPole with rl-zoo's hyper-parameters: ours to a mean return of 300, SB3 for a few steps."""
    from ppo_peers import sb3
    from ppo_rows.ours import make_learner, train
    from ppo_rows.single import CARTPOLE, LINEAR, ZOO, ZOO_ENVS, ZOO_RATE, ZOO_TOTAL

    goal = 300.0

    def ours(seed: int, steps: int = ZOO_TOTAL) -> Outcome:
        params = {**ZOO, **LINEAR, "learning_rate": ZOO_RATE}
        learner = make_learner(CARTPOLE, ZOO_ENVS, ZOO_TOTAL, seed, params)
        outcome = train(learner, steps, goal)
        learner.close()
        gate(steps < ZOO_TOTAL or outcome.reward >= goal, f"seed {seed}: PPO reaches {outcome.reward:.0f} of {goal}")
        return outcome

    def peer(seed: int) -> Outcome:
        return sb3.train(sb3.make_model("CartPole-v1", ZOO_ENVS, seed, ZOO), 1_024)

    ours(0, 512)
    show_speed("PPO CartPole", *in_turn(REPEATS, ours, peer), "SB3", 2)


def runner() -> None:
    """Episodes of LocalEnvRunner beside a bare loop."""
    from runner import bare_gym, compare

    pairs = [compare("gym/CartPole-v1", bare_gym("CartPole-v1"), slices=3, steps=1_000) for _ in range(REPEATS)]
    plain, ours = ([1 / pair[side] for pair in pairs] for side in (0, 1))
    note_ratio("episodes of CartPole in Python", "steps/s", ours, plain, "bare loop", at_least(0.1))


def reports() -> None:
    """Cost of one report to the run's file, which is stored when the call returns."""
    from mosaic.telemetry.events.writer import EventWriter
    from runs import fields

    costs = []
    with tempfile.TemporaryDirectory() as folder, EventWriter(Path(folder, "metrics.jsonl"), attempt=1) as writer:
        for _ in range(REPEATS):
            began = perf_counter()
            for index in range(2_000):
                writer.report(**fields(index))
            costs.append((perf_counter() - began) / 2_000 * 1e6)
    note_figure("one report()", "µs", costs, at_most(400))


PARTS: tuple[Callable[[], None], ...] = (tables, ppo, runner, reports)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    warnings.simplefilter("ignore")  # from peers, about their own dependencies
    signal.signal(signal.SIGUSR1, _end)  # SIGALRM belongs to the runner
    limit = Timer(LIMIT_S, signal.pthread_kill, (get_ident(), signal.SIGUSR1))
    limit.daemon = True
    limit.start()
    failed: list[str] = []
    at = ""
    try:
        for row in PARTS:
            at = row.__name__
            failed += [] if run_row(at, row) else [at]
    except TimeOver:
        note_failure("time limit", reason := f"not done after {LIMIT_S:g} s, in the row {at}: is the machine busy?")
        sys.exit(reason)
    finally:
        limit.cancel()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _end(number: int, frame: FrameType | None) -> None:
    raise TimeOver


if __name__ == "__main__":
    main()
