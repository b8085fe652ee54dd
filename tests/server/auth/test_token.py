"""The token's file: only its owner can read it, and nobody is let in by a file that others could read."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.server.auth.token import ensure_token, read_token, same_secret, token_file
from mosaic.server.client.address import check_url, find_reference_token, find_token
from mosaic.server.client.client import Client


def test_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: ensure_token(tmp_path), range(16)))
    assert len(tokens) == 1
    assert len(tokens.pop()) >= 40
    assert stat.S_IMODE(token_file(tmp_path).stat().st_mode) == 0o600


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ensure_token(tmp_path)
    token_file(tmp_path).chmod(0o640)
    with pytest.raises(MosaicError, match="so it is not secret"):
        ensure_token(tmp_path)


def test_a_link_to_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 43)
    token_file(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MosaicError, match="cannot be read"):
        read_token(tmp_path)


def test_an_empty_file_opens_nothing(tmp_path: Path) -> None:
    token_file(tmp_path).touch(0o600)
    with pytest.raises(MosaicError, match="contains no token"):
        ensure_token(tmp_path)


def test_without_a_server_there_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no server has used this store yet"):
        read_token(tmp_path)


def test_secrets_are_compared_whole() -> None:
    assert same_secret("abc", "abc")
    assert not same_secret("abc", "abd")
    assert not same_secret("", "abc")
    assert not same_secret("\udcff", "abc")


def test_a_wrong_address_is_named_before_a_token_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'foo' is not the address of a server\. Type http://HOST:PORT"):
        Client("foo", home=tmp_path)


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TOKEN", raising=False)
    mine = ensure_token(tmp_path)
    assert find_token("http://127.0.0.1:1", home=tmp_path) == mine
    assert find_token("http://127.0.0.1:1", "given", home=tmp_path) == "given"
    with pytest.raises(InputError, match="requires a token: set MOSAIC_TOKEN"):
        find_token("http://box.example:1", home=tmp_path)  # this store's secret is not for strangers
    with pytest.raises(InputError, match="requires a token"):
        find_token("ssh://box", home=tmp_path)
    monkeypatch.setenv("MOSAIC_TOKEN", "from-there")
    assert find_token("ssh://box", home=tmp_path) == "from-there"
    monkeypatch.setenv("MOSAIC_TOKEN_BOX", "of-box")
    assert find_token("ssh://me@box", home=tmp_path) == "of-box"
    with pytest.raises(InputError, match="was it copied completely"):
        find_token("http://127.0.0.1:1", "a\nb")


def test_servers_that_references_name_get_their_own_token_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    monkeypatch.setenv("MOSAIC_TOKEN", "of-another-server")
    mine = ensure_token(tmp_path)
    assert find_reference_token("http://127.0.0.1:1") == mine
    for url in ("http://gpu-box.example:9000", "https://gpu-box.example"):
        with pytest.raises(InputError, match="requires a token: set MOSAIC_TOKEN_GPU_BOX_EXAMPLE to what"):
            find_reference_token(url)
    with pytest.raises(InputError, match="requires a token: set MOSAIC_TOKEN_127_0_0_1"):
        find_reference_token("https://127.0.0.1:1")  # not the server of this store
    monkeypatch.setenv("MOSAIC_TOKEN_GPU_BOX_EXAMPLE", "of-the-box")
    assert find_reference_token("http://gpu-box.example:9000") == "of-the-box"
    monkeypatch.setenv("MOSAIC_TOKEN_127_0_0_1", "of-a-tunnel")
    assert find_reference_token("http://127.0.0.1:1") == "of-a-tunnel"


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "x:80", "http://user@x", "http://x?y", "http://x:999999", "http://[x"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InputError, match="is not the address of a server"):
        check_url(url)
