"""``nlswork``: wages of young women in the USA, by year."""

from pathlib import Path

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Recipe, Tabular, dataset, read

HIGH = 1.63  # about the median logarithm of the hourly wage

RECIPE = Recipe(
    name="nlswork",
    file="nlswork/nlswork.csv.gz",
    sha256="93fc1f73f6a92ae262abc4f6fd8119692c22f34e1252618f7a1e3e51738cadcd",
    task="woman",
    numbers=(
        *("year", "birth_yr", "age", "grade", "weeks_unemployed", "total_experience", "tenure"),
        *("hours", "weeks_worked"),
    ),
    words=(
        *("race", "married_spouse_present", "never_married", "college", "not_smsa"),
        *("central_city", "south", "industry", "occupation", "union"),
    ),
    origin="the National Longitudinal Survey, from a public R package",
    terms="GPL as far as known",
)


def events(data_dir: Path | None = None, scaled: bool = True) -> Tabular:
    """13,954 interviews of 2,319 women in order of the year; ``ln_wage`` is a number.

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
    """Whether the logarithm of the wage is above 1.63 (+1).

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
    return events(data_dir, scaled).ask_whether_above("ln_wage", HIGH, "median")


DATASET = dataset(RECIPE, "wages of 2,319 women, by year", load, number="ln_wage")
