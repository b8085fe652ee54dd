"""Who may go on with a run that came from elsewhere, where going on unpickles what it brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.core.errors import TrustError
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.state import State
from mosaic.store.store import Store
from mosaic.workers.rllib.worker import RllibWorker
from mosaic.workers.toy import ToyWorker
from tests.runs.run_cases import assert_no_gap, first_event, toy


@pytest.fixture
def gift(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A stopped run of a worker that unpickles to go on, imported from another store."""
    theirs = Trainer(tmp_path / "theirs").submit(toy())
    first_event(theirs)
    theirs.stop()
    store = Store(trainer.store.home)
    folder = import_run(store, archive_run(theirs.folder, tmp_path / "gift.tar.gz"))
    monkeypatch.setattr(ToyWorker, "resumes_from_pickles", True, raising=False)
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    return Run(store, folder)


def test_without_trust_nothing_is_started_and_the_run_stays_as_it_was(gift: Run) -> None:
    before, log = gift.record(), gift.log()
    text = (
        rf"^The checkpoint of run '{gift.id}' .* it was imported\. If .*, type: mosaic runs resume {gift.id} --trust\.$"
    )
    with pytest.raises(TrustError, match=text):
        gift.resume()
    with pytest.raises(TrustError, match=text):
        gift.resume(resources={"num_env_runners": 2})
    assert (gift.record(), gift.log()) == (before, log)
    assert gift.config.resources.num_env_runners is None


def test_with_trust_it_goes_on(gift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    gift.resume()
    assert len(gift.record().attempts) == 2
    gift.stop()
    assert gift.state is State.STOPPED
    assert_no_gap(gift)


def test_who_unpickles_nothing_to_go_on_needs_no_trust(gift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ToyWorker, "resumes_from_pickles")
    gift.resume()
    gift.stop()


def test_rllib_unpickles_to_go_on() -> None:
    assert RllibWorker.resumes_from_pickles
