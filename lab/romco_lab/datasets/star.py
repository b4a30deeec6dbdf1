"""``star``: mathematics scores in the Tennessee class-size experiment, by school."""

from pathlib import Path

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Recipe, Tabular, dataset, read

HIGH = 557.0  # about the mean score

RECIPE = Recipe(
    name="star",
    file="star/star.csv.gz",
    sha256="3e407b7ea8db73779c3561bdc48d915004bfffabce641fc62e3bb3eff6031ec9",
    task="school",
    numbers=("teacher_experience", "birth_year"),
    words=(
        *("grade", "class_type", "teacher_degree", "teacher_ladder", "teacher_race"),
        *("free_lunch", "school_type", "sex", "ethnicity", "birth_quarter"),
    ),
    origin="the Tennessee class-size experiment, from a public R package",
    terms="GPL as far as known",
)


def events(data_dir: Path | None = None, scaled: bool = True) -> Tabular:
    """11,935 pupils and years of 39 schools in order of the year; ``math`` is a number.

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
    """Whether the score in mathematics is above 557 (+1).

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
    return events(data_dir, scaled).ask_whether_above("math", HIGH, "mean")


DATASET = dataset(RECIPE, "scores in 39 schools", load, number="math")
