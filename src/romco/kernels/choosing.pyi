from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
Row = tuple[bytes, bytes]
_Moments = tuple[_Numbers, _Numbers]

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

class FeatureTable:
    number: dict[str, int]
    max_names: int
    max_columns: int
    width: int
    rows: float
    mean: _Numbers
    deviations: _Numbers
    nonzero: _Numbers
    origin: _Numbers
    unit: _Numbers
    def __init__(self, max_names: int, max_columns: int) -> None: ...
    def read(self, row: Any, new: dict[str, int], skip: str | None = None) -> Row: ...
    def adopt(self, new: dict[str, int]) -> None: ...
    def set_units(self, origin: _Numbers, unit: _Numbers) -> None: ...

class Posterior:
    width: int
    pairs: int
    @property
    def mean(self) -> _Numbers: ...
    @property
    def covariance(self) -> _Numbers: ...
    @property
    def slopes(self) -> _Numbers: ...
    def replace(
        self, mean: _Numbers, covariance: _Numbers, slopes: _Numbers | None = None
    ) -> None: ...

class Offer:
    context: Row
    actions: list[tuple[int, Row | None]]
    names: list[Any]
    numbers: list[int]
    new_actions: dict[Any, int]
    new_context: dict[str, int]
    new_features: dict[str, int]

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
    noise: float
    own_level: float
    own_weights: float
    shared_weights: float
    levels: float
    trust: float
    pairs: list[tuple[int, int]]
    free: list[int]
    slots: int
    def __init__(self, numeric: bool, identity: Callable[[str, Any], Any]) -> None: ...
    @property
    def deviation(self) -> float: ...
    @property
    def level_means(self) -> _Numbers: ...
    @property
    def level_variances(self) -> _Numbers: ...
    def set_levels(self, means: _Numbers, variances: _Numbers, free: list[int]) -> None: ...
    def free_levels(self, levels: dict[int, int]) -> None: ...
    def adopt(
        self, actions: Mapping[Any, int], context: dict[str, int], features: dict[str, int]
    ) -> None: ...
    def restore_pairs(self, pairs: Iterable[Sequence[int]]) -> None: ...
    def standardise(self, row: Row) -> _Numbers: ...
    def replace(
        self,
        own: Sequence[tuple[_Numbers, _Numbers, _Numbers] | None],
        shared: _Moments,
        levels: _Moments,
        context: _Moments,
        features: _Moments,
        priors: tuple[float, float, float, float],
        centre: float,
    ) -> None: ...
    def read(self, x: Any, actions: Iterable[Any], max_actions: int) -> Offer: ...
    def moments(
        self,
        row: Row,
        actions: list[tuple[int, Row | None]],
        levels: dict[int, int] | None,
    ) -> _Moments: ...
    def draw(
        self,
        row: Row,
        actions: list[tuple[int, Row | None]],
        levels: dict[int, int] | None,
        floor: float,
        uniform: float,
        observe: bool,
    ) -> tuple[int, list[float]]: ...
    def learn(
        self,
        row: Row,
        number: int,
        action: Row | None,
        levels: dict[int, int] | None,
        reward: float,
        evidence: float,
        choices: Any,
        id: Any,
        stored: Any,
    ) -> float: ...
