"""Names of strangers, as people see them."""

from __future__ import annotations


def inert(text: str) -> str:
    r"""Text whose control characters are spelled out: names must not command a terminal.

    >>> inert("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def inert_json(text: str) -> str:
    r"""The same for JSON on a terminal: it means what it meant.

    >>> inert_json('{"a": "' + chr(0x9B) + '31m"}')
    '{"a": "\\u009b31m"}'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _unit(c) for c in text)


def _unit(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{data[k : k + 4]}" for k in range(0, len(data), 4))
