"""Runs and checkpoints to test with."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from mosaic.config.loading import parse_run_config
from mosaic.store.checkpoints import (
    CheckpointContents,
    CheckpointScore,
    PolicyEntry,
    Provenance,
    Retention,
    write_checkpoint,
)
from mosaic.store.state import Attempt, ProcessRecord, State, read_written_state, write_state

TICTACTOE = "classic/tictactoe_v3"


def config(env=TICTACTOE, **sections):
    training = {"worker": "toy", "algorithm": "walk"}
    return parse_run_config({"environment": {"env_id": env}, "training": training, **sections})


def set_state(folder, state, **changes):
    """As a supervisor would write it, with an attempt where one is due."""
    written = read_written_state(folder)
    if state is not State.QUEUED and not written.attempts:
        me = ProcessRecord(pid=4242, start_time=17.5)
        changes.setdefault("attempts", (Attempt(number=1, supervisor=me, worker=me, started=100.0),))
    write_state(folder, written.model_copy(update={"state": state, "updated": written.updated + 1, **changes}))


def append_events(folder, *events):
    with folder.metrics.open("a") as file:
        for event in events:
            file.write(json.dumps(event) + "\n")


def save_weights(data=b"weights"):
    def save(path: Path) -> None:
        (path / "net").mkdir()
        (path / "net" / "weights.bin").write_bytes(data)
        (path / "facts.json").write_text("{}")

    return save


def write(folder, env_steps, reward=None, data=b"weights", **options):
    """Write a checkpoint; an option is any field of its score, its provenance, its contents or the retention."""

    def part(kind, **defaults):
        names = {field.name for field in fields(kind)} & options.keys()
        return kind(**{**defaults, **{name: options.pop(name) for name in names}})

    score = part(CheckpointScore, reward=reward)
    provenance, retention = part(Provenance, worker="toy"), part(Retention)
    policies = {"learner": PolicyEntry(files=("net/weights.bin",), agents=("*",))}
    described = {"seq": env_steps, "policies": policies, "pickles": False, **options}
    contents = CheckpointContents(env_steps, score=score, provenance=provenance, **described)
    return write_checkpoint(folder, contents, save_weights(data), retention)


def steps_of(checkpoints):
    return [checkpoint.env_steps for checkpoint in checkpoints]
