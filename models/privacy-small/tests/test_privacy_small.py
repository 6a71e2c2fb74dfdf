"""pytest models/privacy-small/tests. The tiny model's folder is looked for under the roots of ANEMONE_DATA."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))

from privacy_small.checkpoint import read_checkpoint  # noqa: E402
from privacy_small.decode import snap, spans_of_labels, viterbi  # noqa: E402
from privacy_small.forward import Network  # noqa: E402
from privacy_small.generator.draw import Draw  # noqa: E402
from privacy_small.generator.material import language_files, lines  # noqa: E402
from privacy_small.generator.template import expand, parse  # noqa: E402
from privacy_small.labels import BEGIN, END, INSIDE, LABELS, PERSON, PHONE, SECRET, SINGLE, label_id  # noqa: E402
from privacy_small.rules import passes_luhn  # noqa: E402
from privacy_small.score import score, trim  # noqa: E402
from privacy_small.sets import Example  # noqa: E402


def tiny_model() -> Path:
    default = ":".join(str(HOME.parent.parent.parent / "shared" / name) for name in ("data", "data_next"))
    for root in os.environ.get("ANEMONE_DATA", default).split(":"):
        folder = Path(root) / "models/privacy-filter-tiny"
        if folder.exists():
            return folder
    pytest.skip("no models/privacy-filter-tiny under the roots of ANEMONE_DATA")


def test_forward_equals_transformers_on_the_tiny_model():
    folder = tiny_model()
    network = Network(*read_checkpoint(folder))
    logits = network.logits(np.load(folder / "golden/input_ids.npy").tolist())
    np.testing.assert_allclose(logits, np.load(folder / "golden/logits.npy"), atol=1e-4)


def test_viterbi_equals_the_fixture():
    folder = tiny_model()
    logits = np.load(folder / "golden/logits.npy").astype(np.float64)
    scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert viterbi(scores) == np.load(folder / "golden/viterbi_ids_zero_bias.npy").tolist()


def test_labels_are_those_of_the_published_model():
    config = json.loads((tiny_model() / "config.json").read_text())
    assert LABELS == [config["id2label"][str(i)] for i in range(33)]


def test_spans_of_labels_leave_out_spaces():
    text, offsets = "Hi Ann Lee!", [(0, 2), (2, 6), (6, 10), (10, 11)]
    labels = [0, label_id(PERSON, BEGIN), label_id(PERSON, END), 0]
    assert spans_of_labels(text, offsets, labels) == [(3, 10, PERSON)]


def test_snap_never_cuts_a_word_or_a_number():
    text = "Call Annabel at 5550134x"
    assert snap(text, [(5, 8, PERSON), (18, 21, PHONE)]) == [(5, 12, PERSON), (16, 23, PHONE)]
    assert snap(text, [(5, 7, PERSON), (9, 11, PERSON)]) == [(5, 12, PERSON)]


def test_template_choices_and_slots():
    parts = parse("[Hi|Hello] {first}[|, [dear|old] friend].")
    texts = {
        "".join(text for text, _ in expand(parts, Draw(seed), lambda name: (name.upper(), PERSON)))
        for seed in range(60)
    }
    greetings = ("Hi", "Hello")
    assert texts == {f"{g} FIRST{e}." for g in greetings for e in ("", ", dear friend", ", old friend")}


@pytest.mark.parametrize("text", ["[a|b", "a]", "a[b|c]]"])
def test_template_with_a_bracket_too_many(text):
    with pytest.raises(ValueError):
        parse(text)


def test_all_templates_of_all_languages_parse():
    import tomllib

    for path in language_files():
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for key in ("sentences", "negatives"):
            assert [parse(line) for line in lines(data[key])], f"{path.name} has no {key}"


def test_mend_cut_makes_legal_tags():
    from privacy_small.shards import mend_cut

    inside, end = label_id(PERSON, INSIDE), label_id(PERSON, END)
    begin, single = label_id(PERSON, BEGIN), label_id(PERSON, SINGLE)
    mended = lambda *labels: mend_cut(np.array(labels, np.uint8)).tolist()
    assert mended(inside, end, 0) == [begin, end, 0]
    assert mended(end, 0, begin) == [single, 0, single]
    assert mended(0, begin, inside) == [0, begin, end]
    assert [mended(one) for one in (inside, end, begin, 0)] == [[single], [single], [single], [0]]


def test_trim():
    text = "Dr. Ann Lee's, (555) 0134."
    assert trim(text, (0, 14, PERSON)) == (4, 11, PERSON)
    assert trim(text, (13, 26, PHONE)) == (15, 25, PHONE)
    assert trim("x!", (0, 2, SECRET)) == (0, 2, SECRET)


def test_score_by_hand():
    """Two wanted, three found: one exact, one that overlaps by 2 of 4 characters, one beside everything."""
    example = Example("abcdefghij klmn", [(0, 4, PERSON), (5, 9, PERSON)])
    result = score([example], [[(0, 4, PERSON), (5, 7, PERSON), (11, 15, PERSON)]])
    assert result["all"]["precision"] == pytest.approx(1 / 3)
    assert result["all"]["recall"] == pytest.approx(1 / 2)
    assert result["all"]["f1"] == pytest.approx(2 / 5)
    assert result["all"]["overlap_f1"] == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert result["left_in"] == pytest.approx(2 / 8)


def test_luhn():
    assert passes_luhn("4111 1111 1111 1111")  # the well-known test number
    assert not passes_luhn("4111 1111 1111 1112")
