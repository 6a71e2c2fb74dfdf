"""From label scores of tokens to spans: Viterbi over the legal orders of tags, then characters, then whole words."""

import unicodedata

import numpy as np

from .labels import BEGIN, END, INSIDE, LABELS, SINGLE, Span, category_of, tag_of

NEVER = -np.inf


def _transitions() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of 0 (allowed) or -inf: to start with a label, to go from one to the next, to end with one."""
    count = len(LABELS)
    tags = [tag_of(label) for label in range(count)]
    start = np.array([0.0 if tag in (None, BEGIN, SINGLE) else NEVER for tag in tags])
    end = np.array([0.0 if tag in (None, END, SINGLE) else NEVER for tag in tags])
    step = np.full((count, count), NEVER)
    for a in range(count):
        for b in range(count):
            if tags[a] in (BEGIN, INSIDE):
                allowed = tags[b] in (INSIDE, END) and category_of(a) == category_of(b)
            else:
                allowed = tags[b] in (None, BEGIN, SINGLE)
            if allowed:
                step[a, b] = 0.0
    return start, step, end


START, STEP, FINISH = _transitions()


def viterbi(log_probabilities: np.ndarray) -> list[int]:
    """The legal labels with the largest sum of scores [tokens, 33]; ties: the first label."""
    scores = log_probabilities.astype(np.float64)
    best = START + scores[0]
    came_from = np.zeros(scores.shape, dtype=np.int64)
    for t in range(1, len(scores)):
        candidates = best[:, None] + STEP
        came_from[t] = candidates.argmax(0)
        best = candidates[came_from[t], np.arange(len(LABELS))] + scores[t]
    labels = [int((best + FINISH).argmax())]
    for t in range(len(scores) - 1, 0, -1):
        labels.append(int(came_from[t][labels[-1]]))
    return labels[::-1]


def spans_of_labels(text: str, offsets: list[tuple[int, int]], labels: list[int]) -> list[Span]:
    """Spans in characters, without spaces at their edges."""
    spans: list[Span] = []
    start = 0
    for (token_start, token_end), label in zip(offsets, labels):
        if tag_of(label) in (BEGIN, SINGLE):
            start = token_start
        if tag_of(label) in (END, SINGLE):
            inside = text[start:token_end]
            left, right = len(inside) - len(inside.lstrip()), len(inside.rstrip())
            if right > left:
                spans.append((start + left, start + right, category_of(label)))
    return spans


def _run_kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    cased = character.isalpha() and character.lower() != character.upper()
    return "letter" if cased or unicodedata.combining(character) else ""


def snap(text: str, spans: list[Span]) -> list[Span]:
    """No span starts or ends inside a run of cased letters or of digits; spans of a kind that then touch become one."""
    snapped: list[Span] = []
    for start, end, category in spans:
        while start > 0 and _run_kind(text[start]) and _run_kind(text[start]) == _run_kind(text[start - 1]):
            start -= 1
        while end < len(text) and _run_kind(text[end - 1]) and _run_kind(text[end - 1]) == _run_kind(text[end]):
            end += 1
        if not snapped or start >= snapped[-1][1]:
            snapped.append((start, end, category))
        elif category == snapped[-1][2]:
            snapped[-1] = (snapped[-1][0], max(end, snapped[-1][1]), category)
    return snapped
