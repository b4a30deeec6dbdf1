"""Frames (pandas, Polars, Arrow) and lists of mappings as rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SAMPLE_ROWS = 1000  # rows from which kinds are inferred
CATEGORY_TYPES = ("category", "categorical", "dictionary<", "enum")  # how their names begin


def rows_of(source: Any, most: int | None = None) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a frame (pandas, Polars, Arrow) or of an iterable as mappings."""
    if isinstance(source, Mapping):
        raise ValueError("expected rows, got a single mapping: put it in a list")
    column_types(source)  # raises where two columns have one name
    if hasattr(source, "to_dicts"):  # Polars
        return (source if most is None else source.head(most)).to_dicts()
    if hasattr(source, "to_dict"):  # pandas
        frame = source if most is None else source.head(most)
        names = list(frame.columns)
        if not names:
            return frame.to_dict("records")
        cells = zip(*(frame[name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in cells]
    if hasattr(source, "to_pylist"):  # Arrow
        return (source if most is None else source.slice(0, most)).to_pylist()
    rows = source if isinstance(source, list | tuple) else list(source)
    return rows if most is None else rows[:most]


def category_columns(source: Any) -> dict[str, str]:
    """Return the kind of columns whose type is one of categories.

    These are the category of pandas, the dictionary of Arrow, Categorical and Enum of Polars.
    """
    types = {name: str(kind).lower() for name, kind in column_types(source)}
    return {name: "category" for name, kind in types.items() if kind.startswith(CATEGORY_TYPES)}


def column_types(source: Any) -> list[tuple[Any, Any]]:
    """Return name and type of each column of a frame (pandas, Polars, Arrow); none of others.

    Raises ValueError where two columns have the same name.
    """
    names, types = getattr(source, "columns", None), getattr(source, "dtypes", None)
    if hasattr(source, "column_names"):  # Arrow
        names, types = source.schema.names, source.schema.types
    if names is None or types is None:
        return []
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"columns of the same name: {quoted(twice)}; rename or drop one of them")
    return list(zip(names, types, strict=True))


def quoted(names: Iterable[Any], joint: str = ", ") -> str:
    """Return at most 20 names in quotes, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return joint.join(map(repr, names[:20])) + more
