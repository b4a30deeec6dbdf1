from typing import Any, final

# The layer above says what these are; here they are objects with the methods that are called.
_Loss = Any
_SpectralPenalty = Any
_Step = Any

@final
class Rules:
    def __init__(
        self,
        *,
        loss: _Loss,
        penalty: _SpectralPenalty,
        step: _Step,
        eta1: float,
        eta2: float,
        lambda1: float,
        lambda2: float,
        C: float,
        on_mistake: bool,
        always_prox: bool,
        rho_power: float,
        max_rank: int,
        by_share: bool,
    ) -> None: ...
