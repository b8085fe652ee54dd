"""Text beside a game: its state in a line, players, choices, moves, and advice."""

from __future__ import annotations

from rich.markup import escape
from rich.text import Text

from mosaic.ui.tui.play.view import AdviceView, MatchView, ReadyView

_MOST_AGENTS = 8
_FAINT, _TITLE, _ACTING = "#7d8794", "bold #2dbfab", "bold #ffffff"


def head_line(view: MatchView) -> str:
    """Return env, episode, seed, step, pace and result."""
    waits = not view.real_time and view.plays
    pace = ["paused"] if view.paused else [] if waits else [f"{view.rate_hz:g} Hz"]
    facts = [f"[b]{escape(view.env)}[/b]", f"game {view.episode + 1}"]
    facts += [f"seed {view.seed}" if view.seed is not None else "seed hidden until the end", f"step {view.step:,}"]
    if view.phase == "playing":
        facts += pace
        turn = _turn(view)
        facts += [f"[#f0a35e]{escape(turn)}[/]"] if turn else []
    if view.recording:
        facts.append("recorded")
    if view.demo is not None:
        facts.append(f"demonstration {escape(view.demo)}: {view.demo_episodes}")
    if view.result:
        facts.append(f"[b #2dbfab]{escape(view.result)}[/]")
    if view.error:
        facts.append(f"[#ef6f6c]{escape(view.error)}[/]")
    return " · ".join(facts)


def _turn(view: MatchView) -> str:
    if view.ready is not None:
        return _ready(view.ready, view.plays)
    if view.real_time or not view.plays:
        return ""
    if view.chooser is not None:
        return f"your turn: {view.chooser}"
    acting = [agent.agent for agent in view.agents if agent.acting]
    return f"{acting[0]} thinks …" if acting else ""


def _ready(ready: ReadyView, plays: bool) -> str:
    """Return what a game in real time waits for before it starts."""
    if ready.starts_in_s is not None:
        return f"starts in {ready.starts_in_s:.0f} s"
    if plays and not ready.mine:
        return "press a key of the game to start"
    return f"waits for {ready.people - ready.ready} more"


def side_text(view: MatchView, chosen: int, height: int) -> Text:
    """Return players, then what may be chosen, advice, and the newest moves, in at most `height` lines."""
    lines = _players(view)
    if view.phase != "playing":
        lines += [Text(), Text("n new game   esc back", _FAINT)]
    if view.thinking and view.advice is not None:
        lines += [Text(), *_advice(view.advice)]
    listed = [] if view.real_time else _choices(view, chosen, max(3, height - len(lines) - 2))
    if listed:
        lines += [Text(), Text("Choose", _TITLE), *listed]
    room = height - len(lines) - 2
    if view.moves and room > 0:
        moves = [
            Text(f"{move.step:>3} {move.agent} {move.san or move.text}", no_wrap=True) for move in view.moves[-room:]
        ]
        lines += [Text(), Text("Moves", _TITLE), *moves]
    return Text("\n").join(lines)


def _players(view: MatchView) -> list[Text]:
    lines = []
    for agent in view.agents[:_MOST_AGENTS]:
        sign = "▶" if agent.acting and view.phase == "playing" else " "
        who = "you" if agent.mine else "a person" if agent.human else agent.policy
        lines.append(Text(f"{sign} {agent.agent}  {agent.ret:g}", _ACTING if agent.acting else "", no_wrap=True))
        lines.append(Text(f"  {who}", _FAINT, no_wrap=True, overflow="ellipsis"))
    if len(view.agents) > _MOST_AGENTS:
        lines.append(Text(f"  and {len(view.agents) - _MOST_AGENTS} more", _FAINT))
    return lines


def _choices(view: MatchView, chosen: int, most: int) -> list[Text]:
    """Return a part of the list around the chosen one."""
    start = max(0, min(chosen - most // 2, len(view.listed) - most))
    lines = []
    for place, spot in enumerate(view.listed[start : start + most], start):
        here = place == chosen and not view.board
        key = f"{spot.key} " if spot.key else ""
        lines.append(Text(f"{'>' if here else ' '} {key}{spot.label}", "reverse" if here else "", no_wrap=True))
    return lines


def _advice(advice: AdviceView) -> list[Text]:
    lines = [Text(f"Advice of {advice.policy}", _TITLE, no_wrap=True, overflow="ellipsis")]
    lines += [Text(f"{thought.probability:>4.0%} {thought.san or thought.label}") for thought in advice.thoughts[:5]]
    if advice.value is not None:
        lines.append(Text(f"value {advice.value:.3g}"))
    if advice.note:
        lines.append(Text(advice.note, _FAINT))
    return lines
