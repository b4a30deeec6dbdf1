"""``cheese``: weekly sales of sliced cheese by retailer.

3,474 weeks of 55 retailers, going round them; ``log_volume`` is a number.
"""

import numpy as np

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset

HIGH = 8.2  # about the mean logarithm of the units sold


def _log_price(columns: Columns) -> Columns:
    return {**columns, "log_price": np.log(columns["price"].astype(np.float64)).astype("U24")}


def _question(found: Tabular) -> Stream:
    """Make +1 of a logarithm of the units sold above 8.2."""
    return found.ask_whether_above("log_volume", HIGH, "mean")


RECIPE = Recipe(
    name="cheese",
    file="cheese/cheese.csv.gz",
    sha256="836717d2c947f65f6074562eb21d98e8a57bfdf812ad8d6e5c24034bfca92cc1",
    task="retailer",
    numbers=("display", "log_price"),
    words=(),
    origin="Boatwright, McCulloch and Rossi (1999), from a public R package",
    terms="GPL-2 or later",
    derive=_log_price,
    question=_question,
)

DATASET = dataset(RECIPE, "sales of 55 retailers", number="log_volume")
