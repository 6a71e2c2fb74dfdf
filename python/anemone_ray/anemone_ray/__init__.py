"""Redact corpora with anemone on a Ray cluster.

    from anemone_ray import redact_corpus
    redact_corpus(["letters/*.jsonl"], "clean", actors=8)

Pipe is one `anemone redact --jsonl` process; Redactor is a Pipe as an actor of Ray Data; redact_corpus() reads and writes
the files of a corpus, and goes on where an earlier run stopped.
"""

from .pipe import Pipe, PipeError
from .redactor import Redactor, redact_dataset

__all__ = ["Pipe", "PipeError", "Redactor", "redact_corpus", "redact_dataset"]


def redact_corpus(*arguments, **options):
    """See anemone_ray.corpus.redact_corpus()."""
    from .corpus import redact_corpus as run

    return run(*arguments, **options)
