"""Choices: which action for whom, learned from rewards that come later."""

from romco.choosing.chooser import ActionReasons, Choice, Chooser

__all__ = ["ActionReasons", "Choice", "Chooser"]
