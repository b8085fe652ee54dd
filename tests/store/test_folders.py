"""Folders for a file browser: what fits a purpose, and nothing outside of the allowed folders."""

import pytest

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.store.folders import MOST_CONFIG_BYTES, Folders


@pytest.fixture
def tree(tmp_path):
    """Return an allowed folder beside a secret one, with links from the first to the second."""
    allowed, secret = tmp_path / "maze", tmp_path / "secret"
    for folder in (allowed / "configs", allowed / ".git", secret):
        folder.mkdir(parents=True)
    (allowed / "configs" / "b.yaml").write_text("seed: 3")
    (allowed / "configs" / "A.toml").write_text("seed = 3")
    (allowed / "env.py").write_text("raise SystemExit")
    (allowed / "best.zip").write_bytes(b"1234")
    (allowed / ".hidden.yaml").write_text("seed: 1")
    (allowed / ".git" / "config.json").write_text("{}")
    (secret / "key.yaml").write_text("token: 1")
    (allowed / "out").symlink_to(secret)
    (allowed / "key.yaml").symlink_to(secret / "key.yaml")
    (allowed / "loop").symlink_to(allowed / "loop")
    return allowed


def test_a_folder_lists_folders_first_and_files_that_fit(tree):
    shown = Folders([tree]).show(str(tree), "game")
    assert [(entry.name, entry.folder) for entry in shown.entries] == [("configs", True), ("env.py", False)]
    assert (shown.path, shown.parent) == (str(tree), "")
    inside = Folders([tree]).show(str(tree / "configs"), "config")
    assert [entry.name for entry in inside.entries] == ["A.toml", "b.yaml"]
    assert inside.parent == str(tree)
    assert [entry.bytes for entry in Folders([tree]).show(str(tree), "checkpoint").entries] == [0, 4]


def test_the_allowed_folders_are_where_it_begins(tree, tmp_path):
    shown = Folders([tree, tmp_path / "gone"]).show("", "config")
    assert [entry.path for entry in shown.entries] == [str(tree)]
    assert shown.parent is None


@pytest.mark.parametrize(
    "name", ["..", "../secret", "out", "key.yaml", "configs/../../secret/key.yaml", "loop", "missing", "\0", ".git"]
)
def test_nothing_outside_is_listed_or_read(tree, name):
    for ask in (lambda path: Folders([tree]).show(path, "config"), Folders([tree]).read_config):
        with pytest.raises(InputError, match=r"is not in a folder that this server shows\. Those are: "):
            ask(f"{tree}/{name}")


def test_links_that_lead_outside_are_not_listed(tree):
    names = {entry.name for entry in Folders([tree]).show(str(tree), "config").entries}
    assert names == {"configs"}
    everywhere = {entry.name for entry in Folders(None).show(str(tree), "config").entries}
    assert everywhere == {"configs", "out", "key.yaml"}


def test_only_configurations_are_read(tree):
    folders = Folders([tree])
    assert folders.read_config(str(tree / "configs" / "b.yaml")) == "seed: 3"
    with pytest.raises(InputError, match="is not a configuration file"):
        folders.read_config(str(tree / "env.py"))
    with pytest.raises(InputError, match="is not a folder"):
        folders.show(str(tree / "env.py"), "game")
    (tree / "large.yaml").write_bytes(b"#" * (MOST_CONFIG_BYTES + 1))
    with pytest.raises(InputError, match="more than 256 KiB"):
        folders.read_config(str(tree / "large.yaml"))
    (tree / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        folders.read_config(str(tree / "binary.yaml"))


def test_this_machine_has_no_limits_but_says_what_is_missing(tree):
    with pytest.raises(UnknownNameError, match="There is no file or folder"):
        Folders(None).show(str(tree / "missing"), "config")
