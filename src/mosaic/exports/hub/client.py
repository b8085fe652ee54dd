"""Client of the hub: where it is, which token is used, and its failures in words.

The token comes from HF_TOKEN or from the hub's own login, and is read by huggingface_hub alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import InputError, MissingExtraError, MosaicError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

INSTALL = "pip install 'mosaic-rl[hub]'"
LOGIN = "set HF_TOKEN, or type: hf auth login"
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


class HubError(MosaicError):
    """Failure of the hub or of the way to it."""


def connect() -> HfApi:
    """Return the client of the hub that HF_ENDPOINT names, by default https://huggingface.co."""
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise MissingExtraError(f"The hub needs huggingface_hub, which is not installed. Type: {INSTALL}") from error
    hub_tools().disable_progress_bars()  # Mosaic shows its own
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="mosaic-rl")


def hub_tools() -> Any:
    """Return huggingface_hub's module of tools, which does not declare what it exports."""
    return import_module("huggingface_hub.utils")


def check_repo(repo: str) -> str:
    """Return the name of a repository; raise InputError for any other text."""
    name = repo.removeprefix("hf:").removeprefix("https://huggingface.co/").strip("/")
    if not _REPO.fullmatch(name) or ".." in name or "--" in name:
        raise InputError(f"'{repo}' is not a repository of the Hub. Type OWNER/NAME, for example me/tictactoe.")
    return name


@contextmanager
def explained(repo: str, endpoint: str) -> Iterator[None]:
    """Turn failures of huggingface_hub and of the network into messages that say what to do."""
    import httpx2
    from huggingface_hub import errors

    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise InputError("HF_HUB_OFFLINE is set, so the hub is not reached. Type: unset HF_HUB_OFFLINE") from error
    except errors.GatedRepoError as error:
        raise InputError(f"'{repo}' is gated: ask for access at {endpoint}/{repo}, then {LOGIN}") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"There is no repository '{repo}' at {endpoint}, or it is private and your token may not read it. "
            f"Check the name, or {LOGIN}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"'{repo}' has no such revision. Leave --revision out for the newest.") from error
    except errors.EntryNotFoundError as error:
        raise InputError(f"A file of '{repo}' is not there any more: {_first_line(error)}") from error
    except errors.HfHubHTTPError as error:
        raise _refusal(repo, endpoint, error) from error
    except errors.HFValidationError as error:
        raise InputError(f"'{repo}': {_first_line(error)}") from error
    except httpx2.TimeoutException as error:
        raise HubError(f"{endpoint} does not answer in time. Try again later.") from error
    except httpx2.TransportError as error:
        raise HubError(f"The connection to {endpoint} failed: {_first_line(error)}. Try again.") from error
    except ValueError as error:  # an answer that huggingface_hub refuses
        raise HubError(f"{endpoint} does not answer like a hub: {_first_line(error)}") from error
    except RuntimeError as error:  # an upload that failed in one of huggingface_hub's threads
        raise HubError(f"Files could not be sent to '{repo}': {_first_line(error.__cause__ or error)}") from error


def _refusal(repo: str, endpoint: str, error: Exception) -> MosaicError:
    code = getattr(getattr(error, "response", None), "status_code", None)
    match code:
        case 401:
            return InputError(f"{endpoint} does not accept your token, or there is none: {LOGIN}")
        case 403:
            return InputError(f"Your token may not do this with '{repo}'. Use one with write access: {LOGIN}")
        case 413:
            return InputError(f"{endpoint} refuses files of this size.")
        case 429:
            return HubError(f"{endpoint} asks to wait: too many requests. Try again in some minutes.")
        case int() if code >= 500:
            return HubError(f"{endpoint} failed with status {code}. Try again later.")
    return HubError(f"{endpoint} refused the request for '{repo}': {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
