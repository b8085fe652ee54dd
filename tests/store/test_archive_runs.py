"""Archives: out, in again, hostile ones refused; deletion; the run's manifest."""

import gzip
import hashlib
import io
import os
import tarfile

import pytest

from mosaic.core.errors import FormatError, InputError
from mosaic.store.archives.archive import archive_run, delete_run
from mosaic.store.archives.import_run import ArchiveLimits, import_run
from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from mosaic.store.errors import StorageError
from mosaic.store.lock import RunLock
from mosaic.store.run_manifest import RunManifest, write_run_manifest
from mosaic.store.state import Attempt, ProcessRecord, State, read_state, read_written_state
from tests.store.store_cases import append_events, config, set_state, steps_of, write


@pytest.fixture
def packed(run, tmp_path):
    """The archive of a finished run with all that a run may have."""
    write(run, 100, 1.0)
    append_events(run, {"env_steps": 100, "episode_reward_mean": 1.0})
    run.episodes.mkdir()
    (run.episodes / "1.json").write_text("{}")
    run.cache.mkdir()
    (run.cache / "columns").touch()
    os.mkfifo(run.control)
    (run.checkpoints / ".tmp-dead").mkdir()
    set_state(run, State.FINISHED)
    return archive_run(run, tmp_path / "run.tar.gz")


def test_a_run_comes_back_as_it_was_but_marked(store, run, packed):
    original = store.index.list()[0]
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {"config.json", "origin.json", "state.json", "metrics.jsonl", "episodes", "episodes/1.json",
                     "checkpoints", "checkpoints/100", "checkpoints/100/manifest.json", "checkpoints/100/facts.json",
                     "checkpoints/100/net", "checkpoints/100/net/weights.bin"}  # fmt: skip
    delete_run(store, run)
    back = import_run(store, packed)
    assert back == run
    assert back.is_imported()
    assert find_checkpoint(back).env_steps == 100
    (shown,) = store.index.list()
    assert shown.imported
    assert (shown.run_id, shown.state, shown.env_steps) == (original.run_id, State.FINISHED, 100)
    assert hashlib.sha256(packed.read_bytes()).hexdigest() in back.imported.read_text()


def test_a_taken_id_gets_a_number(store, run, packed):
    names = [import_run(store, packed).run_id for _ in range(2)]
    assert names == [f"{run.run_id}-2", f"{run.run_id}-3"]
    assert read_state(store.folder(names[0])).run_id == names[0]
    assert not run.is_imported()


@pytest.mark.parametrize(("state", "becomes"), [(State.QUEUED, State.STOPPED), (State.RUNNING, State.LOST)])
def test_an_imported_run_starts_nothing_and_ends_nobody(store, run, tmp_path, state, becomes):
    me = ProcessRecord(pid=1, start_time=0.0)
    set_state(run, state, attempts=(Attempt(number=1, supervisor=me, worker=me),))
    back = import_run(store, archive_run(run, tmp_path / "a.tar.gz"))
    written = read_written_state(back)
    assert written.state is becomes
    assert (written.attempts[0].supervisor, written.attempts[0].worker) == (None, None)


def test_an_archive_is_never_overwritten_and_a_failure_leaves_none(run, packed, tmp_path):
    with pytest.raises(InputError, match=r"run\.tar\.gz' already exists\. Choose another file\.$"):
        archive_run(run, packed)
    with pytest.raises(StorageError, match="could not be written: No such file"):
        archive_run(run, tmp_path / "gone" / "a.tar.gz")


def hostile(path, *members, run_id="evil", mode="w:gz"):
    """An archive of (name, content or type, link target)."""
    with tarfile.open(path, mode) as archive:
        for name, what, *link in members:
            member = tarfile.TarInfo(name)
            if isinstance(what, bytes) and len(what) != 1:
                member.size = len(what)
                archive.addfile(member, io.BytesIO(what))
            else:
                member.type, member.linkname = what, (link or [""])[0]
                archive.addfile(member)
    return path


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (("/etc/evil", b"xx"), "the name '/etc/evil' leads out"),
        (("evil/../../x", b"xx"), "leads out of the run's folder"),
        (("../x", b"xx"), "leads out of the run's folder"),
        (("evil/a\\..\\b", b"xx"), "leads out of the run's folder"),
        (("evil/link", tarfile.SYMTYPE, "/etc/passwd"), "'evil/link' is a link, a device or another special file"),
        (("evil", tarfile.SYMTYPE, "/tmp"), "'evil' is a link"),
        (("evil/link", tarfile.LNKTYPE, "evil/config.json"), "'evil/link' is a link"),
        (("evil/null", tarfile.CHRTYPE), "'evil/null' is a link, a device"),
        (("evil/disk", tarfile.BLKTYPE), "'evil/disk' is a link, a device"),
        (("evil/pipe", tarfile.FIFOTYPE), "'evil/pipe' is a link, a device"),
        (("evil/holes", tarfile.GNUTYPE_SPARSE), "'evil/holes' is a link, a device"),
        (("evil/control", b"xx"), "'evil/control' does not belong"),
        (("evil/cache/x", b"xx"), "'evil/cache/x' does not belong"),
        (("evil/.hidden", b"xx"), "does not belong"),
        (("evil", b"xx"), "another special file"),
        (("other/config.json", b"xx"), "holds more than one run: 'evil' and 'other'"),
        (("evil/config.json", b"xx"), "'evil/config.json' is duplicated"),
    ],
)
def test_hostile_archives_are_refused_whole(store, tmp_path, member, text):
    path = hostile(tmp_path / "evil.tar.gz", ("evil/config.json", b"{}"), member)
    with pytest.raises(FormatError) as caught:
        import_run(store, path)
    assert text in str(caught.value)
    assert os.listdir(store.runs) == []
    assert set(os.listdir(tmp_path)) == {"home", "evil.tar.gz"}


def test_a_link_is_not_followed_by_a_later_member(store, tmp_path):
    path = hostile(tmp_path / "e.tar.gz", ("evil/d", tarfile.SYMTYPE, str(tmp_path)), ("evil/d/owned", b"xx"))
    with pytest.raises(FormatError, match="is a link"):
        import_run(store, path)
    assert not (tmp_path / "owned").exists()


def test_limits_hold(store, packed):
    with pytest.raises(FormatError, match=r"holds more than 3 files\.$"):
        import_run(store, packed, limits=ArchiveLimits(files=3))
    with pytest.raises(FormatError, match=r"holds more than 10 bytes\.$"):
        import_run(store, packed, limits=ArchiveLimits(total_bytes=10))


def test_a_header_that_claims_gigabytes_is_refused_before_it_is_read(store, tmp_path):
    header = tarfile.TarInfo("evil/x")
    header.type, header.size = tarfile.XHDTYPE, 2**32
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16)))
    with pytest.raises(FormatError, match="a header claims 4294967296 bytes"):
        import_run(store, path)


def test_endless_long_names_are_refused(store, tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    path = tmp_path / "chain.tar.gz"
    path.write_bytes(gzip.compress((header.tobuf(tarfile.GNU_FORMAT) + b"a" * 512) * 5000))
    with pytest.raises(FormatError, match="is damaged or not"):
        import_run(store, path)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: path.write_bytes(b"no archive"), r"is not a \.tar\.gz file: Not a gzipped file"),
        (lambda path: path.write_bytes(gzip.compress(b"no archive" * 99)), r"is damaged or not a \.tar\.gz file"),
        (lambda path: path.write_bytes(gzip.compress(bytes(10240))), "is empty"),
        (lambda path: hostile(path, ("evil/x", b"xx")), r"holds no run: There is no file 'config\.json'\."),
        (lambda path: hostile(path, ("-evil/x", b"xx")), "'-evil' is not a valid run id"),
        (lambda path: hostile(path, ("latest/x", b"xx")), "'latest' is not a valid run id"),
    ],
)
def test_what_is_no_run_is_said(store, tmp_path, make, text):
    path = tmp_path / "a.tar.gz"
    make(path)
    with pytest.raises(FormatError, match=text):
        import_run(store, path)
    assert os.listdir(store.runs) == []


def test_a_cut_archive_is_refused(store, packed):
    whole = packed.stat().st_size
    for size in (*range(0, whole, 97), whole - 8, whole - 1):  # the last bytes are the checksum
        cut = packed.with_name("cut.tar.gz")
        cut.write_bytes(packed.read_bytes()[:size])
        with pytest.raises(FormatError):
            import_run(store, cut)


def test_a_missing_archive_is_said(store, tmp_path):
    with pytest.raises(InputError, match=r"^There is no file '.*nothing\.tar\.gz'\.$"):
        import_run(store, tmp_path / "nothing.tar.gz")


def test_living_runs_are_neither_deleted_nor_archived(store, run, tmp_path):
    set_state(run, State.RUNNING)
    with RunLock(run) as lock:
        lock.try_acquire()
        text = (
            rf"^Run '{run.run_id}' is still active and cannot be deleted now\. "
            rf"Stop it first: mosaic runs stop {run.run_id}$"
        )
        with pytest.raises(InputError, match=text):
            delete_run(store, run)
        with pytest.raises(InputError, match="is still active and cannot be archived now"):
            archive_run(run, tmp_path / "a.tar.gz")
    assert run.exists()
    delete_run(store, run)  # lost: nobody has it
    assert os.listdir(store.runs) == []
    assert store.index.list() == []
    with pytest.raises(InputError, match="There is no run"):
        delete_run(store, run)


def test_a_crash_while_deleting_leaves_no_half_run(store, run, monkeypatch):
    def crash(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mosaic.store.atomic.shutil.rmtree", crash)
    with pytest.raises(KeyboardInterrupt):
        delete_run(store, run)
    monkeypatch.undo()
    assert store.index.list() == []
    monkeypatch.setenv("MOSAIC_HOME", str(store.home))
    other = store.create(config())
    delete_run(store, other)
    assert os.listdir(store.runs) == []


def test_the_manifest_names_every_artefact(run, packed):
    state = read_state(run)
    assert not run.manifest.exists()
    (run.path / "csv").mkdir()
    (run.path / "csv" / "metrics.csv").write_text("a")
    manifest = write_run_manifest(run, state, versions={"python": "3"})
    assert RunManifest.model_validate_json(run.manifest.read_bytes()) == manifest
    kinds = {artefact.path: artefact.kind for artefact in manifest.artefacts}
    assert kinds == {
        "config.json": "config",
        "origin.json": "origin",
        "metrics.jsonl": "metrics",
        "checkpoints/100/manifest.json": "checkpoint",
        "checkpoints/100/facts.json": "checkpoint",
        "checkpoints/100/net/weights.bin": "checkpoint",
        "episodes/1.json": "episode",
        "csv/metrics.csv": "csv",
    }
    for artefact in manifest.artefacts:
        data = (run.path / artefact.path).read_bytes()
        assert (artefact.size, artefact.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert manifest.final_metrics == {"env_steps": 100, "episode_reward_mean": 1.0}
    assert (manifest.state, manifest.versions, manifest.attempts) == (State.FINISHED, {"python": "3"}, state.attempts)


def test_checkpoints_of_an_archive_keep_their_order(store, run, tmp_path):
    write(run, 100, seq=9)
    write(run, 50, seq=12)
    back = import_run(store, archive_run(run, tmp_path / "a.tar.gz"))
    assert steps_of(list_checkpoints(back)) == [100, 50]
