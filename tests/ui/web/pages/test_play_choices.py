"""Who sits where when a person opens a match against a run."""

from __future__ import annotations

from pathlib import Path

from mosaic.config.loading import parse_run_config
from mosaic.store.checkpoints import CheckpointContents, PolicyEntry, Provenance, write_checkpoint
from mosaic.store.index.index import Index
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store
from mosaic.ui.web.pages.play_choices import initial_policies, labels_of, trained_agents

PLAYERS = ("player_1", "player_2")
OFFERS = ["human", "minimax", "run:mine", "random"]


def saved(home: Path, *agents: str) -> RunFolder:
    config = {"environment": {"env_id": "classic/tictactoe_v3"}, "training": {"worker": "toy", "algorithm": "walk"}}
    folder = Store(home).create(parse_run_config(config))
    entry = PolicyEntry(files=("net.bin",), agents=agents)

    def save(path: Path) -> None:
        (path / "net.bin").write_bytes(b"weights")

    contents = CheckpointContents(10, 1, {"learner": entry}, provenance=Provenance("toy"), pickles=False)
    write_checkpoint(folder, contents, save)
    return folder


def test_a_run_is_trained_for_the_agents_that_its_newest_checkpoint_names(tmp_path: Path) -> None:
    assert trained_agents(saved(tmp_path, "*"), PLAYERS) == {"player_1", "player_2"}
    assert trained_agents(saved(tmp_path, "player_1"), PLAYERS) == {"player_1"}


def test_a_run_that_has_saved_nothing_is_trained_for_nobody(tmp_path: Path) -> None:
    config = {"environment": {"env_id": "classic/tictactoe_v3"}, "training": {"worker": "toy", "algorithm": "walk"}}
    assert trained_agents(Store(tmp_path).create(parse_run_config(config)), PLAYERS) == frozenset()


def test_the_person_begins_where_the_opponent_can_sit_anywhere() -> None:
    seats = {"player_1": "human", "player_2": "run:mine"}
    assert initial_policies(PLAYERS, "run:mine", OFFERS, frozenset(PLAYERS)) == seats
    assert initial_policies(PLAYERS, "run:mine", OFFERS) == seats
    assert initial_policies(PLAYERS, "", OFFERS) == {"player_1": "human", "player_2": "minimax"}


def test_the_person_takes_the_place_that_the_run_was_not_trained_for() -> None:
    assert initial_policies(PLAYERS, "run:mine", OFFERS, {"player_1"}) == {"player_1": "run:mine", "player_2": "human"}
    assert initial_policies(PLAYERS, "run:mine", OFFERS, {"player_2"}) == {"player_1": "human", "player_2": "run:mine"}


def test_nobody_else_gets_a_run_that_was_not_trained_for_them() -> None:
    agents = ("a", "b", "c")
    assert initial_policies(agents, "run:mine", OFFERS, {"b"}) == {"a": "human", "b": "run:mine", "c": "minimax"}


def test_alone_the_run_is_watched() -> None:
    assert initial_policies(("agent_0",), "run:mine", OFFERS, {"agent_0"}) == {"agent_0": "run:mine"}
    assert initial_policies(("agent_0",), "", OFFERS) == {"agent_0": "human"}


def test_a_run_is_shown_with_its_name(tmp_path: Path) -> None:
    config = {"environment": {"env_id": "classic/tictactoe_v3"}, "training": {"worker": "toy", "algorithm": "walk"}}
    folders = [Store(tmp_path).create(parse_run_config({**config, "name": name})) for name in ("mine", "")]
    named, unnamed = (f"run:{folder.run_id}" for folder in folders)
    rows = [Index(tmp_path).refresh(folder) for folder in folders]
    search = f"search:{named}@best,simulations=200"
    shown = labels_of(["random", named, f"{named}@best", unnamed, search], rows)
    assert shown == {
        named: "run:mine",
        f"{named}@best": "run:mine@best",
        search: "search:run:mine@best,simulations=200",
    }
