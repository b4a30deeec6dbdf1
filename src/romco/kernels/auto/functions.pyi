BASES: int
DEFINITION_FIELDS: tuple[str, ...]
MOST_FUNCTIONS: int
SKETCH_FIELDS: tuple[str, ...]

class Functions: ...
