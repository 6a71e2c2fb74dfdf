"""Templates of sentences.

    [Hi|Hello] {first}, my number is [now |]{phone}.

[a|b] is a choice; an alternative may be empty and may hold choices. {name} is a slot that slots.py fills. \\n is a new
line. A template is parsed once and expanded often.
"""

from collections.abc import Callable

from ..labels import Segment
from .draw import Draw

# A sequence of parts: text, a slot (its name in a tuple), or a choice (a list of sequences).
Part = str | tuple[str] | list
FillSlot = Callable[[str], Segment]


def parse(template: str) -> list[Part]:
    """The parts of a template. Raises ValueError with the place of a bracket that has no partner."""
    text = template.replace("\\n", "\n")
    parts, end = _parse_sequence(text, 0, nested=False)
    if end != len(text):
        raise ValueError(f"{template!r}: ']' or '|' at {end} is outside of a choice")
    return parts


def _parse_sequence(text: str, at: int, nested: bool) -> tuple[list[Part], int]:
    parts: list[Part] = []
    start = at
    while at < len(text) and not (text[at] == "]" or (nested and text[at] == "|")):
        if text[at] not in "[{":
            at += 1
            continue
        if at > start:
            parts.append(text[start:at])
        if text[at] == "{":
            close = text.index("}", at)
            parts.append((text[at + 1 : close],))
            at = close + 1
        else:
            choice, at = _parse_choice(text, at)
            parts.append(choice)
        start = at
    if at > start:
        parts.append(text[start:at])
    return parts, at


def _parse_choice(text: str, at: int) -> tuple[list[list[Part]], int]:
    alternatives = []
    opened = at
    while True:
        parts, at = _parse_sequence(text, at + 1, nested=True)
        alternatives.append(parts)
        if at >= len(text):
            raise ValueError(f"{text!r}: '[' at {opened} has no ']'")
        if text[at] == "]":
            return alternatives, at + 1


def expand(parts: list[Part], draw: Draw, fill_slot: FillSlot) -> list[Segment]:
    """The segments of one sentence; neighbouring texts without a label are joined."""
    out: list[Segment] = []
    _expand(parts, draw, fill_slot, out)
    return out


def _expand(parts: list[Part], draw: Draw, fill_slot: FillSlot, out: list[Segment]) -> None:
    for part in parts:
        if isinstance(part, list):
            _expand(draw.choice(part), draw, fill_slot, out)
            continue
        text, label = (part, None) if isinstance(part, str) else fill_slot(part[0])
        if label is None and out and out[-1][1] is None:
            out[-1] = (out[-1][0] + text, None)
        else:
            out.append((text, label))


def slots_of(parts: list[Part]) -> set[str]:
    """The names of all slots that an expansion can use."""
    names: set[str] = set()
    for part in parts:
        if isinstance(part, tuple):
            names.add(part[0])
        elif isinstance(part, list):
            names.update(*map(slots_of, part))
    return names
