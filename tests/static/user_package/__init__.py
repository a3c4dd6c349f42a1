"""A small package as a user might write it: structured weights for a model that knows nothing of them.

`python -m user_package` trains the model with them.
"""

from user_package.circulant import CIRCULANT, Circulant
from user_package.low_rank import LOW_RANK, LowRank
from user_package.tables import STRUCTURED
from user_package.train import Report, fit

__all__ = ["CIRCULANT", "LOW_RANK", "STRUCTURED", "Circulant", "LowRank", "Report", "fit"]
