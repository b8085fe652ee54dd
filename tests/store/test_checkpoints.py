"""Checkpoints: whole or not at all, found again, cleared away."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.store import checkpoint_record
from mosaic.store.checkpoint_record import Checkpoint, CheckpointManifest, read_checkpoint
from mosaic.store.checkpoints import (
    CheckpointContents,
    PolicyEntry,
    Retention,
    best_first,
    find_checkpoint,
    list_checkpoints,
    newest_first,
    write_checkpoint,
)
from mosaic.store.errors import DamagedError, StorageError
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store
from tests.store.store_cases import config, save_weights, steps_of, write


def names(run):
    return sorted(os.listdir(run.checkpoints))


def test_a_checkpoint_says_what_it_is(run):
    path = write(run, 100, 1.5, seed=3, spaces={"a": {"low": -float("inf")}}, environment={"env_id": "x"})
    assert path == run.checkpoints / "100"
    found = find_checkpoint(run)
    manifest = found.manifest
    assert (found.path, found.env_steps, found.reward, found.verified, found.skipped) == (path, 100, 1.5, True, ())
    assert (manifest.origin, manifest.worker, manifest.seq, manifest.seed) == (run.run_id, "toy", 100, 3)
    assert manifest.policies == {"learner": PolicyEntry(files=("net/weights.bin",), agents=("*",))}
    assert set(manifest.files) == {"net/weights.bin", "facts.json"}
    assert manifest.spaces == {"a": {"low": "-inf"}}
    assert "python" in manifest.versions
    assert found.run == run
    json.loads((path / "manifest.json").read_text())


def test_the_manifest_of_a_version_that_recorded_no_code_is_read(run):
    file = write(run, 100) / "manifest.json"
    document = json.loads(file.read_text())
    for name in ("git", "digest"):
        del document[name]
    mark = document.pop("seal")
    file.write_text(json.dumps({**document, "digest": checkpoint_record._digest(document), "seal": mark}))
    assert find_checkpoint(run).manifest.git is None


def test_the_same_steps_again_replace_the_first(run):
    write(run, 100, data=b"first")
    write(run, 100, data=b"second")
    assert (find_checkpoint(run).path / "net" / "weights.bin").read_bytes() == b"second"
    assert names(run) == ["100"]


def test_a_failing_save_leaves_nothing(run):
    write(run, 100)

    def save(path):
        (path / "half").write_text("x")
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        write_checkpoint(run, CheckpointContents(200, 2, {}), save)
    assert names(run) == ["100"]


@pytest.mark.parametrize(
    ("save", "policies", "text"),
    [
        (lambda path: (path / "manifest.json").touch(), {}, r"save\(\) wrote a file called manifest\.json"),
        (lambda path: (path / "a").symlink_to("/etc/passwd"), {}, "'a' is not a plain file"),
        (lambda path: None, {"red": PolicyEntry(files=("w",))}, "policy 'red' names the file 'w', which save"),
    ],
)
def test_a_wrong_save_is_refused(run, save, policies, text):
    with pytest.raises(StorageError, match=f"The checkpoint at 5 env steps could not be written: {text}.*none before"):
        write_checkpoint(run, CheckpointContents(5, 1, policies), save)
    assert names(run) == []


def test_retention_keeps_the_last_and_the_best(run):
    for step, reward in [(10, 1.0), (20, 9.0), (30, 2.0), (40, float("nan")), (50, 3.0)]:
        write(run, step, reward, keep_last=2, keep_best=1)
    assert steps_of(list_checkpoints(run)) == [20, 40, 50]
    assert find_checkpoint(run, "best").env_steps == 20
    assert find_checkpoint(run, "latest").env_steps == 50
    assert find_checkpoint(run, 40).reward is None
    write(run, 60, 1.0, keep_last=1, keep_best=0)
    assert names(run) == ["60"]


def test_after_a_resume_from_further_back_fewer_steps_may_be_newer(run):
    write(run, 100, seq=10, keep_last=1, keep_best=0)
    write(run, 60, seq=20, keep_last=1, keep_best=0)
    assert find_checkpoint(run).env_steps == 60
    assert names(run) == ["60"]


def test_what_does_not_exist_is_said(run):
    with pytest.raises(InputError, match=f"^Run '{run.run_id}' has no checkpoint yet.$"):
        find_checkpoint(run)
    assert find_checkpoint(run, missing_ok=True) is None
    write(run, 100)
    write(run, 200)
    with pytest.raises(
        InputError, match=r"no checkpoint at 190 env steps\. Did you mean @200\? There are: 100, 200\.$"
    ):
        find_checkpoint(run, 190)
    with pytest.raises(InputError, match=r"has a reward, so none is the best\. Use @latest\.$"):
        find_checkpoint(run, "best")


DAMAGES = {
    "a flipped bit": (lambda path: flip(path / "net" / "weights.bin", 3), "'net/weights.bin' has changed since"),
    "a missing file": (lambda path: (path / "facts.json").unlink(), "its file 'facts.json' is missing"),
    "an extra file": (lambda path: (path / "extra").touch(), "'extra' does not belong to it"),
    "a longer file": (lambda path: (path / "facts.json").write_text("{} "), "'facts.json' has changed since"),
    "a link": (lambda path: (path / "link").symlink_to("facts.json"), "'link' is not a plain file"),
    "a truncated manifest": (lambda path: os.truncate(path / "manifest.json", 200), r"its manifest\.json is damaged"),
    "an empty manifest": (lambda path: os.truncate(path / "manifest.json", 0), r"its manifest\.json is damaged"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), r"it has no manifest\.json"),
    "no JSON object": (lambda path: (path / "manifest.json").write_text("[1]"), r"its manifest\.json is damaged"),
    "deep JSON": (lambda path: (path / "manifest.json").write_text("[" * 99999), r"its manifest\.json is damaged"),
    "another's place": (
        lambda path: path.rename(path.with_name("300")),
        r"its manifest\.json belongs to the one at 200",
    ),
}


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_refused_and_the_one_before_used(run, damage):
    harm, text = DAMAGES[damage]
    write(run, 100, 1.0)
    harm(write(run, 200, 2.0))
    for which in ("latest", "best"):
        found = find_checkpoint(run, which)
        assert found.env_steps == 100
        (message,) = found.skipped
        assert message.startswith(f"The checkpoint of run '{run.run_id}' at ")
        assert message.endswith(" The one at 100 is used instead.")
        assert re.search(text, message)
    asked = 300 if damage == "another's place" else 200
    with pytest.raises(DamagedError, match=rf"at {asked} env steps is damaged: .*{text}.*The one before it: @100\.$"):
        find_checkpoint(run, asked)


def test_older_damaged_ones_are_not_mentioned(run):
    os.truncate(write(run, 100) / "manifest.json", 5)
    write(run, 200)
    assert find_checkpoint(run).skipped == ()


def test_when_all_are_damaged_that_is_said_also_to_those_who_may_begin_anew(run):
    flip(write(run, 100) / "facts.json", 0)
    (write(run, 200) / "manifest.json").unlink()
    text = (
        r"^Every checkpoint of run .* is damaged \(at 200: it has no manifest.json; at 100: its file 'facts.json' has"
    )
    with pytest.raises(DamagedError, match=text):
        find_checkpoint(run, missing_ok=True)


def test_retention_does_not_count_or_remove_unreadable_ones(run):
    (write(run, 100) / "manifest.json").unlink()
    for step in (200, 300, 400):
        write(run, step, keep_last=2, keep_best=0)
    assert names(run) == ["100", "300", "400"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with one checkpoint, which every example leaves as it was."""
    run = Store(tmp_path_factory.mktemp("saved")).create(config())
    write(run, 100, 1.0)
    return run


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["manifest.json", "facts.json", "net/weights.bin"]), st.data())
def test_no_changed_bit_goes_unnoticed(saved, name, data):
    """Also in the manifest itself: what is not refused means the same as before."""
    before = read_checkpoint(saved.checkpoints / "100")
    path = before.path / name
    content = path.read_bytes()
    flip(path, data.draw(st.integers(0, 8 * len(content) - 1)))
    try:
        found = find_checkpoint(saved)
    except DamagedError:
        return
    finally:
        path.write_bytes(content)
    assert name == "manifest.json"
    assert found.manifest == before.manifest


# Disk full.

FULL = (
    "import resource, sys; from pathlib import Path\n"
    "sys.path.insert(0, sys.argv[2]); from tests.store.store_cases import write\n"
    "from mosaic.store.run_folder import RunFolder\n"
    "limit = int(sys.argv[3])\n"
    "if limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
    "write(RunFolder(Path(sys.argv[1])), 200, data=b'x' * 3_000_000)"
)


def write_too_much(run, limit):
    command = [sys.executable, "-c", FULL, str(run.path), str(Path(__file__).parents[2]), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_file_size_limit_fails_clearly_and_keeps_the_earlier_one(run):
    write(run, 100)
    error = write_too_much(run, 1_000_000)
    assert "StorageError: The checkpoint at 200 env steps could not be written: File too large. The one at 100" in error
    assert names(run) == ["100"]
    assert find_checkpoint(run).env_steps == 100


def test_a_full_disk_fails_clearly_and_keeps_the_earlier_one(tmp_path):
    """On a small disk of its own where mounting is allowed, else under a file-size limit."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        run = Store(disk).create(config())
        write(run, 100)
        error = write_too_much(run, 0 if mounted else 1_000_000)
        problem = "No space left on device" if mounted else "File too large"
        assert f"The checkpoint at 200 env steps could not be written: {problem}. The one at 100 is intact." in error
        assert names(run) == ["100"]
        assert find_checkpoint(run).env_steps == 100
        write(run, 300)
        assert names(run) == ["100", "300"]
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


# Retention, as mathematics.


def described(env_steps, reward, seq, **more):
    manifest = CheckpointManifest(
        origin="r", worker="toy", env_steps=env_steps, seq=seq, seed=None, reward=reward, policies={},
        environment={}, spaces={}, versions={}, pickles=False, files={}, **more,
    )  # fmt: skip
    return Checkpoint(Path(f"/r/checkpoints/{env_steps}"), env_steps, manifest, "", "")


@given(
    st.lists(st.tuples(st.none() | st.floats(-9, 9), st.integers(0, 5)), min_size=1, max_size=12),
    st.integers(0, 4),
    st.integers(0, 3),
    st.data(),
)
def test_retention_keeps_what_it_promises(facts, keep_last, keep_best, data):
    every = [described(env_steps, reward, seq) for env_steps, (reward, seq) in enumerate(facts)]
    written = data.draw(st.sampled_from(every))
    gone = Retention(keep_last, keep_best).dispensable(every, written)
    kept = [c for c in every if c not in gone]
    assert written in kept
    assert all(c in kept for c in newest_first(every)[:keep_last])
    assert all(c in kept for c in best_first(every)[:keep_best])
    assert len(kept) <= max(keep_last, 1) + keep_best + 1


def test_the_best_checkpoint_of_self_play_has_the_highest_rating_and_not_the_highest_return(tmp_path):
    """Both sides learn: the return against an equal says nothing."""
    run = Store(tmp_path).create(config())
    for steps, reward, rating in ((100, 0.9, 1500.0), (200, -0.1, 1650.0), (300, 0.5, 1600.0)):
        write(run, steps, reward, rating=rating, best_by="rating", keep_last=1)
    assert find_checkpoint(run, "best").env_steps == 200
    assert names(run) == ["200", "300"]  # the best one is kept
    assert find_checkpoint(run, "best").manifest.rating == 1650.0


def test_without_a_rating_the_newest_checkpoint_of_self_play_is_the_best():
    every = [described(steps, reward, steps, best_by="env_steps") for steps, reward in ((1, 1.0), (2, -1.0))]
    assert [c.env_steps for c in best_first(every)] == [2, 1]


def test_checkpoints_are_ranked_by_what_the_newest_is_ranked_by():
    """A run that was resumed by a version with another measure."""
    old, new = described(1, 500.0, 1), described(2, 0.0, 2, rating=1510.0, best_by="rating")
    assert best_first([old, new]) == [new]


def test_a_run_outside_any_store_can_save_too(tmp_path):
    run = RunFolder(tmp_path / "loose")
    run.path.mkdir()
    write_checkpoint(run, CheckpointContents(1, 1, {}), save_weights())
    assert find_checkpoint(run).mark == ""
