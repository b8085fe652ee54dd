"""Stub of the hub's HTTP API: repositories in memory, with commits, LFS uploads and downloads."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class HubState:
    """What the stub holds, and how it misbehaves."""

    token: str = "hf_secret_of_the_test"
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)  # by sha256: sent, not yet in a commit
    lfs: bool = False  # large files are sent apart from the commit
    cut: str = ""  # the download of this file ends in the middle
    status: int = 0  # answer of every request
    elsewhere: str = ""  # downloads are redirected to this address
    announced: dict[str, int] = field(default_factory=dict)  # sizes that it claims of files
    private: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)  # methods and paths
    tokens: list[str | None] = field(default_factory=list)  # of every request

    def commit(self, repo: str) -> str:
        return hashlib.sha1(repr(sorted(self.repos[repo].items())).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    state: HubState

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_GET  # noqa: N815 - names of http.server

    def _handle(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.state.seen.append(f"{self.command} {path}")
        self.state.tokens.append(self.headers.get("Authorization"))
        if self.state.status:
            self._answer({"error": "asked for"}, self.state.status)
        elif self.command == "PUT":
            self.state.objects[path.rpartition("/")[2]] = body
            self._answer({})
        elif self.command == "POST":
            self._post(path, body)
        elif path.startswith("/api/models/"):
            self._info("/".join(path.removeprefix("/api/models/").split("/")[:2]))
        elif "/resolve/" in path:
            owner, name, _, _, file = path.strip("/").split("/", 4)
            self._download(f"{owner}/{name}", file)
        else:
            self._answer({"error": path}, 404)

    def _post(self, path: str, body: bytes) -> None:
        if self.headers.get("Authorization") != f"Bearer {self.state.token}":
            self._answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked['organization']}/{asked['name']}"
            self.state.repos[repo] = {".gitattributes": b""}
            if asked.get("visibility") == "private":
                self.state.private.add(repo)
            self._answer({"url": f"http://{self.headers['Host']}/{repo}", "id": repo})
        elif path.endswith("/info/lfs/objects/batch"):
            base = f"http://{self.headers['Host']}/lfs"
            wanted = [{**each, "actions": {"upload": {"href": f"{base}/{each['oid']}"}}} for each in
                      json.loads(body)["objects"]]  # fmt: skip
            self._answer({"transfer": "basic", "objects": wanted})
        elif "/preupload/" in path:
            files = [each["path"] for each in json.loads(body)["files"]]
            modes = {each: "lfs" if self.state.lfs and each.endswith(".safetensors") else "regular" for each in files}
            self._answer({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes.items()]})
        elif "/commit/" in path:
            self._commit("/".join(path.removeprefix("/api/models/").split("/")[:2]), body)
        else:
            self._answer({"error": path}, 404)

    def _commit(self, repo: str, body: bytes) -> None:
        files = self.state.repos[repo]
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            match item["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.state.objects[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        commit = self.state.commit(repo)
        self._answer({"commitUrl": f"http://{self.headers['Host']}/{repo}/commit/{commit}", "commitOid": commit})

    def _info(self, repo: str) -> None:
        known = self.headers.get("Authorization") == f"Bearer {self.state.token}"
        if repo not in self.state.repos or (repo in self.state.private and not known):
            self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            return
        files = self.state.repos[repo]
        siblings = [
            {"rfilename": name, "size": self.state.announced.get(name, len(data))} for name, data in files.items()
        ]
        self._answer({"id": repo, "modelId": repo, "sha": self.state.commit(repo), "siblings": siblings})

    def _download(self, repo: str, file: str) -> None:
        if self.state.elsewhere:
            self._answer({}, 302, {"Location": f"{self.state.elsewhere}{self.path}"})
            return
        data = self.state.repos[repo].get(file)
        if data is None:
            self._answer({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if file == self.state.cut else data)
        if file == self.state.cut:
            self.close_connection = True

    def _answer(self, document: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class HubStub:
    """Hub on a port of its own: `with HubStub() as hub: … hub.url, hub.state`."""

    def __init__(self) -> None:
        self.state = HubState()
        handler = type("Handler", (_Handler,), {"state": self.state})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
