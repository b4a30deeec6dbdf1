"""Names to numbers: tasks, features and labels of any kind, in front of a learner."""

from romco.kernels.core.counts import Scale
from romco.model.features import Columns, Features, Hashed, Names
from romco.model.model import Model

__all__ = ["Columns", "Features", "Hashed", "Model", "Names", "Scale"]
