"""Builds labelled.json.gz: real English texts in which people marked the persons.

    python -m privacy_small.inputs.build_labelled SOURCES INPUTS

train: WNUT-17 train and the Broad Twitter Corpus without section F and without the second half of H. held (to compare
models while developing): WNUT-17 dev and the second half of H. test (scores only): WNUT-17 test, section F, and
EWT. Only persons are marked there, so training texts with links, addresses, long numbers or dates are left out.
"""

import re
import sys
from pathlib import Path

from ..generator.material import LABELLED_FILE
from ..rules import DATE_PATTERN
from .files import write_json_gz

Text = tuple[str, list[tuple[int, int]]]

LINK = re.compile(r"https?:|www\.")
OTHER_KINDS = re.compile(r"https?:|www\.|\S@\S|\d{5,}|\d{3}[-. ]\d{4}")
NO_SPACE_BEFORE = re.compile(r"[.,!?;:)\]'’%…]|n't$")
NO_SPACE_AFTER = ("(", "[", "@", "#", "$", "£")


def join_tokens(tokens: list[tuple[str, str]]) -> Text:
    """The text of tokens with their tags, and the places of persons."""
    text, persons, open_span = "", [], False
    previous = ""
    for token, tag in tokens:
        if text and not NO_SPACE_BEFORE.match(token) and not previous.endswith(NO_SPACE_AFTER):
            text += " "
        start = len(text)
        text += token
        if tag in ("B-person", "B-PER"):
            persons.append((start, len(text)))
            open_span = True
        elif tag in ("I-person", "I-PER") and open_span:
            persons[-1] = (persons[-1][0], len(text))
        else:
            open_span = False
        previous = token
    return text, persons


def without_handles(tokens: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The tokens, with no label on @handles: the tweets label them, the other texts and our policy do not."""
    previous = ["", *(token for token, _ in tokens)]
    is_handle = [token.startswith("@") or before == "@" for (token, _), before in zip(tokens, previous)]
    return [(token, "O" if handle else tag) for (token, tag), handle in zip(tokens, is_handle)]


def read_conll(path: Path, without_links: bool = False) -> list[Text]:
    """Blocks of lines `token TAB tag`, with an empty line between texts."""
    texts = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        rows = [line.split("\t") for line in block.strip().split("\n")]
        tokens = [(row[0], row[1].strip()) for row in rows if len(row) > 1]
        if without_links:  # tweets end in links; the rest of the tweet is good text
            tokens = [token for token in tokens if not LINK.match(token[0])]
        tokens = without_handles(tokens)
        text, persons = join_tokens(tokens)
        if text:
            texts.append((text, persons))
    return texts


def read_ewt(path: Path) -> list[Text]:
    """Universal NER: sentences with their text; the sentences of a document are joined by new lines."""
    documents: list[Text] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = block.strip().split("\n")
        text = next((row[9:] for row in rows if row.startswith("# text = ")), None)
        if text is None:
            continue
        if not documents or any(row.startswith("# newdoc id") for row in rows):
            documents.append(("", []))
        before, persons = documents[-1]
        tagged = [row.split("\t")[1:3] for row in rows if not row.startswith("#")]
        persons += [(len(before) + start, len(before) + end) for start, end in find_persons(text, tagged)]
        documents[-1] = (before + text + "\n", persons)
    return documents


def find_persons(text: str, tagged: list[list[str]]) -> list[tuple[int, int]]:
    """The places of persons in a text, whose words stand there in this order."""
    persons: list[tuple[int, int]] = []
    at, open_span = 0, False
    for word, tag in tagged:
        start = text.find(word, at)
        if start < 0:
            continue
        at = start + len(word)
        if tag == "B-PER":
            persons.append((start, at))
            open_span = True
        elif tag == "I-PER" and open_span:
            persons[-1] = (persons[-1][0], at)
        else:
            open_span = False
    return persons


def only_persons(texts: list[Text]) -> list[Text]:
    """Texts that hold no other kind of personal data."""
    without_links = [(text, persons) for text, persons in texts if not OTHER_KINDS.search(text)]
    return [(text, persons) for text, persons in without_links if not DATE_PATTERN.search(text)]


def main(sources: str, inputs: str) -> None:
    wnut, tweets = Path(sources) / "emerging_entities_17", Path(sources) / "broad_twitter_corpus"
    half = read_conll(tweets / "h.conll", without_links=True)
    middle = len(half) // 2
    train = read_conll(wnut / "wnut17train.conll") + half[:middle]
    for section in "abeg":
        train += read_conll(tweets / f"{section}.conll", without_links=True)
    parts = {
        "train": only_persons(train),
        "held": only_persons(read_conll(wnut / "emerging.dev.conll") + half[middle:]),
        "test_wnut": read_conll(wnut / "emerging.test.annotated"),
        "test_tweets": read_conll(tweets / "f.conll"),
        "test_ewt": read_ewt(Path(sources) / "UNER_English-EWT/en_ewt-ud-test.iob2"),
    }
    write_json_gz(Path(inputs) / LABELLED_FILE, parts)
    for name, texts in parts.items():
        print(f"{name}: {len(texts)} texts, {sum(len(persons) for _, persons in texts)} persons")


if __name__ == "__main__":
    main(*sys.argv[1:])
