"""Archives whose runs name code that leaves a trace when it is imported: a canary."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.config.loading import parse_run_config
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.models.architecture import Architecture
from mosaic.models.layout import tensors
from mosaic.models.weights_file import save_weights
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.checkpoints import CheckpointContents, PolicyEntry, Provenance, write_checkpoint
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State, read_written_state, write_state
from mosaic.store.store import Store

TICTACTOE = "classic/tictactoe_v3"
MODULE = "canary_code"
CANARY = """
import os
import pathlib

pathlib.Path(os.environ["CANARY"]).write_text("sang")

def make(*_args, **_options):
    raise RuntimeError("the canary sang")
"""
FORMS: dict[str, dict[str, Any]] = {
    "environment": {"environment": {"env_id": f"python:{MODULE}:make"}},
    "wrapper": {"environment": {"env_id": TICTACTOE, "wrappers": [f"python:{MODULE}:make"]}},
    "policy": {"agents": {"player_1": f"python:{MODULE}:make"}},
    "mapping": {"agents": f"python:{MODULE}:make"},
    "policies_to_train": {"policies_to_train": f"python:{MODULE}:make"},
    "opponent": {"evaluation": {"opponents": [f"python:{MODULE}:make"]}},
    "network": {"training": {"worker": "native", "params": {"network": f"python:{MODULE}:make"}}},
    "extra loss": {"training": {"worker": "native", "params": {"extra_loss": f"python:{MODULE}:make"}}},
    "script": {"training": {"worker": "script", "params": {"command": f"python -c 'import {MODULE}'"}}},
    "engine": {"agents": {"player_1": "uci:./engine.sh"}},
}


def arm(folder: Path) -> dict[str, str]:
    """Put the code where `python:` looks for modules; returns the environment variables that it needs."""
    (folder / f"{MODULE}.py").write_text(CANARY)
    return {"CANARY": str(folder / "canary.txt")}


def sang() -> bool:
    return Path(os.environ["CANARY"]).exists()


def foreign_run(
    store: Store, scratch: Path, form: str, state: State = State.STOPPED, run_id: str = "gift"
) -> RunFolder:
    """A run of another store whose configuration names the canary, imported; the code is packed into the archive."""
    document = {"environment": {"env_id": TICTACTOE}, "training": {"worker": "native"}, "run_id": run_id, **FORMS[form]}
    theirs = Store(scratch / "theirs").create(parse_run_config(document))
    (theirs.path / f"{MODULE}.py").write_text(CANARY)
    written = read_written_state(theirs)
    write_state(theirs, written.model_copy(update={"state": state, "working_folder": str(theirs.path)}))
    return import_run(store, archive_run(theirs, scratch / f"{run_id}.tar.gz"))


def foreign_network(store: Store, scratch: Path) -> RunFolder:
    """A finished run of another store whose checkpoint, not its configuration, names the canary; imported."""
    document = {"environment": {"env_id": TICTACTOE}, "training": {"worker": "native"}, "run_id": "net"}
    theirs = Store(scratch / "theirs").create(parse_run_config(document))
    write_state(theirs, read_written_state(theirs).model_copy(update={"state": State.FINISHED}))
    env = make_env(TICTACTOE)
    spec = env.spec
    env.close()
    shape = Architecture(
        row_code(spec.observation_spaces["player_1"]).width, action_code(spec.action_spaces["player_1"]).head
    )

    def save(path: Path) -> None:
        save_weights(path / "policy_0.safetensors", shape, np.zeros(tensors(shape)[-1].end, np.float32))
        (path / "facts.json").write_text(json.dumps({"engine": "torch", "network": f"python:{MODULE}:make"}))

    entry = PolicyEntry(files=("policy_0.safetensors", "facts.json"), agents=("*",))
    made = Provenance("native", {"env_id": TICTACTOE})
    write_checkpoint(theirs, CheckpointContents(100, 1, {"shared": entry}, provenance=made, pickles=False), save)
    return import_run(store, archive_run(theirs, scratch / "net.tar.gz"))
