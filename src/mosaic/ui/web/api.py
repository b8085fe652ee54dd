"""Requests to the HTTP API, sent from the browser so that the API's rules hold for pages too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from nicegui import ui

from mosaic.ui.web.components.widgets import complain

_WITHIN_S = 60.0  # a checkpoint may wait for a long iteration
_SCRIPT = """
const response = await fetch(%s, %s);
const text = await response.text();
let document_ = null;
try { document_ = JSON.parse(text); } catch { document_ = {error: text.slice(0, 500)}; }
return {status: response.status, document: document_};
"""


class Reply(NamedTuple):
    status: int
    document: Any  # the API's response; {"error": …} where it refused

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def error(self) -> str:
        document = self.document
        return str(document.get("error", document)) if isinstance(document, Mapping) else str(document)


async def ask(
    path: str, body: object = None, *, method: str = "POST", headers: Mapping[str, str] | None = None
) -> Reply:
    sent: dict[str, Any] = {"method": method, "headers": dict(headers or {})}
    if body is not None:
        sent["headers"]["Content-Type"] = "application/json"
        sent["body"] = json.dumps(body)
    try:
        said = await ui.run_javascript(_SCRIPT % (json.dumps(path), json.dumps(sent)), timeout=_WITHIN_S)
    except TimeoutError:
        return Reply(504, {"error": f"No response came within {_WITHIN_S:g} s. The request may still be carried out."})
    return Reply(int(said["status"]), said["document"])


async def ask_or_complain(path: str, body: object = None, *, method: str = "POST") -> Reply | None:
    """Send a request; where the API refuses, show its reason and return None."""
    reply = await ask(path, body, method=method)
    if reply.ok:
        return reply
    complain(reply.error)
    return None
