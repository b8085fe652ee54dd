"""Client of an OpenAI-compatible endpoint for chat completions."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from math import isfinite
from threading import Thread
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from mosaic.core.errors import InputError, shown
from mosaic.core.ids import JsonObject
from mosaic.policies.controller import PolicyError, PolicyTimeoutError
from mosaic.policies.line_process import Deadline

USUAL_KEY = "MOSAIC_LLM_API_KEY"
_OPENAI_HOST, _OPENAI_KEY = "api.openai.com", "OPENAI_API_KEY"
_LONGEST_RESPONSE = 4 << 20
_BUSY = (429, 503)
_REFUSED = (400, 404, 415, 422, 501)
_Result = TypeVar("_Result")


class EndpointError(PolicyError):
    """Failure of an endpoint to answer."""


class RefusedRequestError(EndpointError):
    """Request that the endpoint does not accept as it is: an unknown model, or a field that it does not support."""


class BusyEndpointError(EndpointError):
    """Request that the endpoint may accept later."""

    def __init__(self, text: str, retry_after_s: float | None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class ChatAnswer(NamedTuple):
    text: str
    finish: str  # "stop", "length" …
    tokens_in: int | None  # None where the endpoint does not say
    tokens_out: int | None


class ChatEndpoint:
    """Endpoint at one address. Redirects are not followed: what was allowed is the address that was named."""

    def __init__(self, url: str, key_name: str | None) -> None:
        self._url = f"{url.rstrip('/')}/chat/completions"
        self.host = urlsplit(url).hostname or ""
        self._key = _key(url, self.host, key_name)
        proxies: dict[str, str] | None = {} if is_loopback(self.host) else None  # None: those of the environment
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirects)

    def ask(self, body: JsonObject, deadline: Deadline) -> ChatAnswer:
        """Send one request; raise an EndpointError that says what is wrong, or PolicyTimeoutError."""
        headers = {"Content-Type": "application/json", "User-Agent": "mosaic"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        return _read(within(deadline, lambda: self._send(request, deadline)), str(body["model"]))

    def _send(self, request: urllib.request.Request, deadline: Deadline) -> bytes:
        left_s = deadline.left_s()
        if left_s is not None and left_s <= 0:  # a socket without any time would not block, and fail otherwise
            raise PolicyTimeoutError(_late(deadline))
        try:
            with self._opener.open(request, timeout=left_s) as response:
                data: bytes = response.read(_LONGEST_RESPONSE + 1)
        except urllib.error.HTTPError as error:
            raise self._http_error(error) from None  # the chain would show the request's headers to debuggers
        except (TimeoutError, urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise PolicyTimeoutError(_late(deadline)) from None
            raise EndpointError(f"cannot be reached at {self._url}: {self._clean(_described(reason))}") from None
        if len(data) > _LONGEST_RESPONSE:
            raise EndpointError(f"got a response of more than {_LONGEST_RESPONSE >> 20} MB from {self._url}")
        return self._clean(data.decode("utf-8", "replace")).encode()

    def _http_error(self, error: urllib.error.HTTPError) -> EndpointError:
        with error:
            try:
                said = error.read(10_000).decode("utf-8", "replace")
            except (OSError, http.client.HTTPException) as broken:
                said = _described(broken)
        text = f"got HTTP {error.code} from {self._url}: {shown(self._clean(_message(said)))}"
        if error.code in _BUSY:
            return BusyEndpointError(text, retry_after(error.headers.get("Retry-After")))
        if error.code == 401 and not self._key:
            return EndpointError(f"{text}. Put its key into the environment: export {USUAL_KEY}=…")
        return RefusedRequestError(text) if error.code in _REFUSED else EndpointError(text)

    def _clean(self, text: str) -> str:
        """Remove the key, which some endpoints repeat in their messages."""
        return text.replace(self._key, "…") if self._key else text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _key(url: str, host: str, name: str | None) -> str:
    """Return the key from the environment; the usual one of OpenAI is sent to OpenAI alone."""
    usual = (USUAL_KEY, _OPENAI_KEY) if host == _OPENAI_HOST else (USUAL_KEY,)
    names = usual if name is None else (name,)
    found = next((key for each in names if (key := os.environ.get(each, "").strip())), "")
    if name is not None and not found:
        raise InputError(f"key_env={name}: there is no such key in the environment. Type: export {name}=…")
    if not (found.isascii() and found.isprintable()):
        raise InputError(
            f"The key in {' or '.join(names)} has characters that no key has: copy the whole key of the endpoint there."
        )
    if found and urlsplit(url).scheme == "http" and not is_loopback(host):
        raise InputError(
            f"url={url} is not encrypted, and {' or '.join(names)} is set: the key would be readable on its way. "
            "Use https://, a tunnel to this machine, or unset the key."
        )
    return found


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def within(deadline: Deadline, work: Callable[[], _Result]) -> _Result:
    """Return the result of the work; raise PolicyTimeoutError where it takes longer.

    It runs in a thread, which is left alone then: name resolution and endpoints that send a byte now and then are not
    covered by the limits of a socket.
    """
    result: Future[_Result] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            result.set_exception(error)

    Thread(target=run, name="llm-request", daemon=True).start()
    try:
        return result.result(deadline.left_s())
    except TimeoutError:
        raise PolicyTimeoutError(_late(deadline)) from None


def retry_after(text: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number or a date; None for anything else."""
    if text is None:
        return None
    try:
        seconds = float(text)
        return max(0.0, seconds) if isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(text) - now()).total_seconds())
    except (TypeError, ValueError):
        return None


def _late(deadline: Deadline) -> str:
    return f"did not answer within its time limit of {deadline.limit_s:g} s"


def _described(error: object) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)


def _message(said: str) -> str:
    """Return the message of an error document, or its text."""
    try:
        error = json.loads(said)["error"]
        return str(error["message"] if isinstance(error, Mapping) else error)
    except (ValueError, KeyError, TypeError, RecursionError):
        return said


def _read(data: bytes, asked: str) -> ChatAnswer:
    text = data.decode()
    try:
        document = json.loads(text)
        choice = document["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        content = message.get("content")
        content = message.get("refusal") if content is None else content
        usage = document.get("usage") or {}
        tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
        model = document.get("model")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise EndpointError(f"got a response that is not a chat completion: {shown(text)} ({error})") from None
    if not isinstance(content, str | None):
        raise EndpointError(f"got a response whose content is not text: {shown(content)}")
    if isinstance(model, str) and not _is_same_model(asked, model):
        raise EndpointError(f"asked for the model '{asked}', and '{model}' answered. Type llm:{model}, if it is meant")
    return ChatAnswer(content or "", str(finish), _count(tokens_in), _count(tokens_out))


def _is_same_model(asked: str, answered: str) -> bool:
    """Return whether one name contains the other: endpoints add dates, folders and providers to names."""
    one, other = asked.casefold(), answered.casefold()
    return not other or one in other or other in one


def _count(given: object) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None
