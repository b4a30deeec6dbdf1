"""``star``: mathematics scores in the Tennessee class-size experiment, by school.

11,935 pupils and years of 39 schools in order of the year; ``math`` is a number.
"""

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Recipe, Tabular, dataset

HIGH = 557.0  # about the mean score


def _question(found: Tabular) -> Stream:
    """Make +1 of a score in mathematics above 557."""
    return found.ask_whether_above("math", HIGH, "mean")


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
    question=_question,
)

DATASET = dataset(RECIPE, "scores in 39 schools", number="math")
