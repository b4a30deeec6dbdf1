"""Text that is safe to print, and numbers as people write them."""

from collections.abc import Callable


def inert(text: str, spell: Callable[[str], str] = ascii) -> str:
    r"""Spell out control characters, so that a name cannot command a terminal.

    JSON keeps its meaning if it is spelled by ``json.dumps``.

    >>> inert("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else spell(c)[1:-1] for c in text)


def quantity(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> quantity(1, "task"), quantity(2000, "event"), quantity(2, "person", "people")
    ('1 task', '2,000 events', '2 people')
    """
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {plural or noun + 's'}"


def spell_number(number: float) -> str:
    """Return a number with at most four digits that matter, without an exponent if it can be.

    >>> [spell_number(number) for number in (0.0012345, 2.5, 12345.6)]
    ['0.001234', '2.5', '12,346']
    """
    if 1e4 <= abs(number) < 1e12:
        return f"{number:,.0f}"
    return f"{number:.4g}"
