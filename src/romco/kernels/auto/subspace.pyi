PROGRESS: int

class Subspace:
    slice: int
