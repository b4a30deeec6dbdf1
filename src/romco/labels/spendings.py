"""What was spent on labels, and what they tell, in one line for people."""

from __future__ import annotations

from romco.labels.audits import Audit
from romco.labels.policies import Policy


def spending(policy: Policy, audit: Audit) -> str:
    """Labels spent, and the error of all predictions with its 95 % interval.

    >>> from romco.labels import Budget
    >>> spending(Budget(0.1, seed=0), Audit())
    '0 labels asked for'
    """
    share = f" ({policy.spent / policy.events:.1%} of events)" if policy.events else ""
    found = audit.error()
    error = "" if found is None else f", error of all predictions by audit {found}"
    return f"{policy.spent:,} labels asked for{share}{error}"
