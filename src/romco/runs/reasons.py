"""Why events of a file, or one told by its cells, are answered as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from romco.explanations import Reasons, reasons
from romco.model import Model
from romco.runs.source import Source, remembered


def reasons_of_cells(
    model: Model, cells: Mapping[str, Any], task: Any, label: Any = None
) -> Reasons:
    """Reasons of one event by its cells, each read as the column was when it was learned.

    A model that learned no file takes the cells as features. See :func:`romco.reasons`.

    >>> import romco
    >>> model = romco.Model()
    >>> rows, labels = [{"free": 1}, {"lunch": 1}, {"free": 1}], ["spam", "ham", "spam"]
    >>> _ = model.learn(rows, labels, ["a", "a", "b"])
    >>> reasons_of_cells(model, {"free": 1}, "a").label
    'spam'
    """
    if "columns" not in model.session:
        return reasons(model, cells, task, label)
    source = replace(remembered(model, Source("the event")), format="jsonl", label=None)
    row = {column: value for column, value in cells.items() if column != source.label}
    if source.task is not None:
        row[source.task] = task
    with source.blocks(stream=io.BytesIO(json.dumps(row).encode())) as events:
        block, trouble = events.take(1)
    if trouble is not None:
        raise trouble
    return reasons(model, block.features, task, label)
