"""Ray Data: a column of texts, redacted by actors with one process and one model each."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .pipe import Pipe

SPANS = "spans"
ERROR = "error"


class Redactor:
    """For Dataset.map_batches(Redactor, batch_format="pyarrow", …): one per actor.

    Adds the columns `spans` (JSON, as anemone writes it) and `error` (null where all went well). A text that is null
    stays null.
    """

    def __init__(self, column: str = "text", flags: Sequence[str] = (), program: str = "anemone"):
        self._column = column
        self._pipe = Pipe(flags, program)

    @classmethod
    def over(cls, pipe: Pipe, column: str) -> "Redactor":
        """One that uses a process which is there already."""
        redactor = cls.__new__(cls)
        redactor._column, redactor._pipe = column, pipe
        return redactor

    def __call__(self, batch: pa.Table) -> pa.Table:
        texts = batch.column(self._column).to_pylist()
        answers = iter(self._pipe.redact({self._pipe.field: t} for t in texts if t is not None))
        redacted: list[str | None] = []
        spans: list[str | None] = []
        errors: list[str | None] = []
        for text in texts:
            answer: dict[str, Any] = next(answers) if text is not None else {self._pipe.field: None, SPANS: []}
            failed = answer.get(ERROR)
            redacted.append(None if failed else answer[self._pipe.field])
            spans.append(None if failed else json.dumps(answer[SPANS]))
            errors.append(failed)
        place = batch.column_names.index(self._column)
        table = batch.set_column(place, self._column, pa.array(redacted, pa.string()))
        for name, values in ((SPANS, spans), (ERROR, errors)):
            if name in table.column_names:
                table = table.drop_columns([name])
            table = table.append_column(name, pa.array(values, pa.string()))
        return table


def redact_dataset(dataset, column: str = "text", *, actors: int = 1, cpus: float = 1, batch_size: int = 256,
                   flags: Sequence[str] = (), program: str = "anemone"):
    """The dataset with its texts redacted. Each actor uses `cpus` cores: `--threads` of its process."""
    import ray

    threads = ["--threads", str(max(1, round(cpus)))]
    return dataset.map_batches(
        Redactor,
        fn_constructor_kwargs={"column": column, "flags": [*flags, *threads], "program": program},
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=cpus,
    )
