"""Choices: which action for whom, learned from rewards that come later."""

from romco.choosing.chooser import ActionReasons, Choice, Chooser
from romco.choosing.explanation import ActionInsight, ChooserExplanation, PersonalLevel

__all__ = [
    "ActionInsight",
    "ActionReasons",
    "Choice",
    "Chooser",
    "ChooserExplanation",
    "PersonalLevel",
]
