from romco.kernels.io.mappings import Mappings

class Questions:
    many: bool
    reader: Mappings
    waiting: list[tuple[int, str, bytes]]
    def __init__(
        self, reader: Mappings, events: int, features: int, name: int, value: float
    ) -> None: ...
    def read(self, body: bytes) -> list[str | int] | None: ...
