"""Frames (pandas, Polars, Arrow) and lists of mappings as rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

SAMPLE_ROWS = 1000  # rows from which kinds are inferred
CATEGORY_TYPES = ("category", "categorical", "dictionary<", "enum")  # how their names begin


def rows_of(source: Any, most: int | None = None) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a frame (pandas, Polars, Arrow) or of an iterable as mappings."""
    if isinstance(source, Mapping):
        raise ValueError("expected rows, got a single mapping: put it in a list")
    column_types(source)  # raises where two columns have one name
    if most is not None:
        source = _first_rows(source, most)
    if hasattr(source, "to_dicts"):  # Polars
        return source.to_dicts()
    if hasattr(source, "to_pylist"):  # Arrow
        return source.to_pylist()
    if not hasattr(source, "to_dict"):
        return source if isinstance(source, list | tuple) else list(source)
    names = list(source.columns)  # of pandas
    if not names:
        return source.to_dict("records")
    cells = zip(*(source[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def _first_rows(source: Any, most: int) -> Any:
    if hasattr(source, "head"):  # pandas, Polars
        return source.head(most)
    if hasattr(source, "to_pylist"):  # Arrow
        return source.slice(0, most)
    return list(islice(source, most))


def category_columns(source: Any) -> dict[str, str]:
    """Return the kind of columns whose type is one of categories.

    These are the category of pandas, the dictionary of Arrow, Categorical and Enum of Polars.
    """
    kinds = {}
    for name, kind in column_types(source):
        if str(kind).lower().startswith(CATEGORY_TYPES):
            kinds[name] = "category"
    return kinds


def column_types(source: Any) -> list[tuple[Any, Any]]:
    """Return name and type of each column of a frame (pandas, Polars, Arrow); none of others.

    Raises ValueError where two columns have the same name.
    """
    if hasattr(source, "column_names"):  # Arrow
        names, types = source.schema.names, source.schema.types
    elif hasattr(source, "columns") and hasattr(source, "dtypes"):
        names, types = source.columns, source.dtypes
    else:
        return []
    twice = duplicates(names)
    if twice:
        raise ValueError(f"columns of the same name: {quoted(twice)}; rename or drop one of them")
    return list(zip(names, types, strict=True))


def duplicates(names: Iterable[Any]) -> list[Any]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def quoted(names: Iterable[Any], joint: str = ", ") -> str:
    """Return at most 20 names in quotes, and how many more there are."""
    names = list(names)
    text = joint.join(map(repr, names[:20]))
    if len(names) > 20:
        text += f" and {len(names) - 20:,} more"
    return text
