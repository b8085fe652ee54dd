"""Filter of a tab's lists: an input that is hidden until it is wanted, and the words that were typed into it."""

from __future__ import annotations

from textual.widgets import Input


class FilterBar(Input):
    """Input above the lists that it narrows; empty, it lets everything through."""

    def __init__(self, what: str) -> None:
        super().__init__(placeholder=f"filter by {what}", compact=True, classes="filter")

    def on_mount(self) -> None:
        self.display = False

    def open(self) -> None:
        self.display = True
        self.focus()

    def close(self) -> None:
        """Let everything through again."""
        self.value = ""
        self.display = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.value.lower().split())

    def passes(self, *texts: str | None) -> bool:
        """Return whether every word is in one of the texts."""
        return has_words(self.words, *texts)


def has_words(words: tuple[str, ...], *texts: str | None) -> bool:
    text = "\n".join(filter(None, texts)).lower()
    return all(word in text for word in words)
