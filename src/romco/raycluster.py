"""Ray, where it is wanted: joined at an address, or started on this machine."""

from __future__ import annotations

import os
import warnings
from typing import Any


def joined(address: str | None = None) -> tuple[Any, bool]:
    """The module ``ray`` with a cluster behind it, and whether that was started or joined here.

    ``ray.init`` is not called again where somebody has called it before. Raises ImportError that
    says what to install.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'romco[ray]'") from error
    if ray.is_initialized():
        return ray, False
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    where = {"include_dashboard": False} if address is None else {"address": address}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(log_to_driver=False, configure_logging=False, **where)
    return ray, True
