"""``cheese``: weekly sales of sliced cheese by retailer."""

from pathlib import Path

import numpy as np

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset, read

HIGH = 8.2  # about the mean logarithm of the units sold


def _log_price(columns: Columns) -> Columns:
    return {**columns, "log_price": np.log(columns["price"].astype(np.float64)).astype("U24")}


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
)


def events(data_dir: Path | None = None, scaled: bool = True) -> Tabular:
    """3,474 weeks of 55 retailers, going round them; ``log_volume`` is a number.

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.
    scaled:
        Whether columns of numbers are standardised over the whole set.

    Returns
    -------
    :
        The columns and features, for a question of one's own.

    Raises
    ------
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    """
    return read(RECIPE, data_dir, scaled)


def load(data_dir: Path | None = None, scaled: bool = True) -> Stream:
    """Whether the logarithm of the units sold is above 8.2 (+1).

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.
    scaled:
        Whether columns of numbers are standardised over the whole set.

    Returns
    -------
    :
        The stream.

    Raises
    ------
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    """
    return events(data_dir, scaled).ask_whether_above("log_volume", HIGH, "mean")


DATASET = dataset(RECIPE, "sales of 55 retailers", load, number="log_volume")
