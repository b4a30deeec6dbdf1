"""``nlswork``: wages of young women in the USA, by year.

13,954 interviews of 2,319 women in order of the year; ``ln_wage`` is a number.
"""

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Recipe, Tabular, dataset

HIGH = 1.63  # about the median logarithm of the hourly wage


def _question(found: Tabular) -> Stream:
    """Make +1 of a logarithm of the wage above 1.63."""
    return found.ask_whether_above("ln_wage", HIGH, "median")


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
    question=_question,
)

DATASET = dataset(RECIPE, "wages of 2,319 women, by year", number="ln_wage")
