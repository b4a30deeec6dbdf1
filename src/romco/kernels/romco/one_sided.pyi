from typing import final

from romco.kernels.romco.factored import Factored
from romco.kernels.romco.rules import Rules

@final
class OneSided(Factored):
    def __init__(self, rules: Rules, n_features: int, n_tasks: int) -> None: ...
