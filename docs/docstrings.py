"""Docstrings for the site: examples as code blocks, references as code; used by mkdocs.yml."""

import re

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *\n).+)*", re.M)  # up to the next empty line
ROLE = re.compile(r":(?:class|func|meth|mod):`~?([^`]+)`")


class PlainDocstrings(griffe.Extension):
    """Fences examples, which Markdown would take for quotations."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring is not None:
            text = EXAMPLE.sub(r"\1```python\n\g<0>\n\1```", obj.docstring.value)
            obj.docstring.value = ROLE.sub(r"`\1`", text)
