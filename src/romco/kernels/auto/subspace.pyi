PROGRESS: int

class Subspace:
    slice: int
    def lose_track(self) -> None: ...
