"""``fars``: who died in fatal road accidents of one year, by state.

45,208 people in 26 states; ``injury_severity`` has eight classes, ``fatal`` two.
"""

import numpy as np

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset

_TESTED = (
    "alcohol and drugs are tested more often on the dead, so a result compares learners and is "
    "no forecast"
)


def _codes(columns: Columns) -> Columns:
    """Age 99 and alcohol results from 95 up are codes for unknown, not quantities."""
    age = columns["age"]
    result = columns["alcohol_test_result"]
    high = np.char.str_len(result) > 1
    coded = high & (result >= "95")
    return {
        **columns,
        "age": np.where(age == "99", "", age),
        "alcohol": np.where(coded, "", result),
    }


def _question(found: Tabular) -> Stream:
    """Make +1 of a person who died."""
    return found.choose(found.columns["fatal"] == "1", ("alive", "dead"), _TESTED)


RECIPE = Recipe(
    name="fars",
    file="fars/fars.csv.gz",
    sha256="68d2568d5158d9103c048fe76764043a4455f217d2fa06428b307f52c15f540d",
    task="state",
    numbers=("age", "alcohol"),
    words=(
        *("sex", "person_type", "seating_position", "restraint_system_use"),
        *("air_bag_availability_deployment", "ejection", "ejection_path", "extrication"),
        *("non_motorist_location", "police_reported_alcohol_involvement"),
        *("method_alcohol_determination", "alcohol_test_type", "police_reported_drug_involvement"),
        *("method_of_drug_determination", "drug_test_type_1", "drug_test_type_2"),
        *("drug_test_type_3", "related_factor_1", "related_factor_2", "related_factor_3"),
    ),
    origin="the Fatality Analysis Reporting System of the USA, edition of the KEEL collection",
    terms="a public government source",
    derive=_codes,
    question=_question,
)

DATASET = dataset(RECIPE, "people in fatal accidents, 26 states", classes="injury_severity")
