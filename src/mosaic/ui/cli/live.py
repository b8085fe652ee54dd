"""How a command lets others watch what it plays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.runners.live_screen import LiveScreen


@contextmanager
def watchable(kind: str, env: str, policies: Mapping[str, str]) -> Iterator[LiveScreen | None]:
    """None, after saying why, where others cannot be let in: that is no reason not to play."""
    from mosaic.store.errors import StorageError
    from mosaic.store.live_sessions import live_screen
    from mosaic.ui.cli.output import note

    with ExitStack() as stack:
        screen: LiveScreen | None = None
        try:
            screen = stack.enter_context(live_screen(kind, env, policies))
        except StorageError as error:
            note(str(error))
        yield screen


def how_to_watch(screen: LiveScreen | None) -> str:
    return "" if screen is None else f"mosaic watch {screen.folder.name}"


def by_pattern(rules: Sequence[str]) -> dict[str, str]:
    """`--agent` as it was typed; what is wrong with it is said elsewhere."""
    return {pattern: policy for pattern, _, policy in (rule.partition("=") for rule in rules)}
