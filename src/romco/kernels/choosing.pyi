from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]

OPTIMISM: float
LEVEL_CURIOSITY: float
GREED: float
LARGEST_UNITS: float
FIRST_TRUST: float
MAX_EVIDENCE: float
MAX_NAMES: int
MAX_COLUMNS: int
MAX_ACTION_NAMES: int
MAX_ACTION_COLUMNS: int
MAX_CROSSES: int
MAX_ACTIONS: int
COLUMN_FIELDS: tuple[str, ...]

class FeatureTable:
    number: dict[str, int]
    max_names: int
    max_columns: int
    width: int
    rows: float
    columns: _Numbers
    def __init__(self, max_names: int, max_columns: int) -> None: ...
    def read(self, row: Any, new: dict[str, int], skip: str | None = None) -> bytes: ...
    def adopt(self, new: dict[str, int]) -> None: ...

class Posterior:
    mean: _Numbers
    covariance: _Numbers
    slopes: _Numbers
    width: int
    pairs: int
    def __init__(self, mean: _Numbers, covariance: _Numbers, slopes: _Numbers) -> None: ...

class Offer:
    context: bytes
    names: list[Any]
    numbers: list[int]
    rows: list[bytes | None]
    new_actions: dict[Any, int]
    new_context: dict[str, int]
    new_features: dict[str, int]

class Person:
    levels: dict[int, tuple[float, float]]
    evidence: float
    def __init__(self, levels: dict[int, tuple[float, float]], evidence: float) -> None: ...

class ChooserKernel:
    numeric: bool
    context: FeatureTable
    features: FeatureTable
    actions: dict[Any, int]
    names: list[Any]
    own: list[Posterior | None]
    shared: Posterior
    rewards: int
    centre: float
    reward_mean: float
    reward_squares: float
    noise: float
    own_level: float
    own_weights: float
    shared_weights: float
    levels: float
    trust: float
    def __init__(self, numeric: bool, identity: Callable[[str, Any], Any]) -> None: ...
    @property
    def signal(self) -> float: ...
    @property
    def deviation(self) -> float: ...
    @property
    def pairs(self) -> list[tuple[int, int]]: ...
    def restore_pairs(self, pairs: Iterable[Sequence[int]]) -> None: ...
    def adopt(
        self, actions: dict[Any, int], context: dict[str, int], features: dict[str, int]
    ) -> None: ...
    def standardise(self, row: bytes) -> _Numbers: ...
    def replace(
        self,
        own: Iterable[Posterior | None],
        shared: Posterior,
        context: tuple[_Numbers, _Numbers],
        features: tuple[_Numbers, _Numbers],
        priors: tuple[float, float, float, float],
        centre: float,
    ) -> None: ...
    def read(self, x: Any, actions: Iterable[Any]) -> Offer: ...
    def observe(self, offer: Offer) -> None: ...
    def moments(self, offer: Offer, person: Person | None) -> tuple[_Numbers, _Numbers]: ...
    def draw(
        self, offer: Offer, person: Person | None, floor: float, uniform: float
    ) -> tuple[int, list[float]]: ...
    def learn(
        self,
        row: bytes,
        number: int,
        action: bytes | None,
        person: Person | None,
        reward: float,
        choices: Any,
        id: Any,
        stored: Any,
    ) -> None: ...
