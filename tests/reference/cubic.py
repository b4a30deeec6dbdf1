"""Cardano's formula as the paper prints it, for the shrinkage of ROMCO-LogD."""

import numpy as np


def cubic_roots(s: float, rho: float) -> tuple[complex, complex, complex]:
    r"""The three roots of the paper's cubic (its appendix), by Cardano's formula as printed.

    .. math:: \tfrac1\rho \sigma^3 - \tfrac1\rho s\,\sigma^2
              + (\tfrac1\rho + 2)\,\sigma - \tfrac1\rho s = 0

    With :math:`\Delta = \alpha^2 + \beta^3`: one real and two complex roots if
    :math:`\Delta > 0`, three real roots of which two or all are equal if
    :math:`\Delta = 0`, three different real roots if :math:`\Delta < 0`.
    The formula is right but loses accuracy for small s; the learners use
    :func:`romco.penalties.shrink_logdet`.

    >>> one, *pair = cubic_roots(2.0, 0.5)
    >>> print(f"{one:.4f}, {pair[0]:.4f}, {pair[1]:.4f}")
    1.5437+0.0000j, 0.2282+1.1151j, 0.2282-1.1151j
    """
    if rho <= 0.0:
        raise ValueError(f"rho must be a positive number; got {rho!r}")
    a, b, c, d = 1.0 / rho, -s / rho, 1.0 / rho + 2.0, -s / rho
    alpha = b * c / (6.0 * a * a) - b**3 / (27.0 * a**3) - d / (2.0 * a)
    beta = c / (3.0 * a) - b * b / (9.0 * a * a)
    delta = alpha * alpha + beta**3
    if delta >= 0.0:  # real cube roots
        plus = complex(np.cbrt(alpha + np.sqrt(delta)))
        minus = complex(np.cbrt(alpha - np.sqrt(delta)))
    else:  # conjugate cube roots, so that every root is real
        plus = complex(alpha, np.sqrt(-delta)) ** (1.0 / 3.0)
        minus = plus.conjugate()
    turn = complex(-0.5, np.sqrt(0.75))  # (sqrt(3) i - 1) / 2
    shift = -b / (3.0 * a)
    return (
        shift + plus + minus,
        shift + turn * plus + turn.conjugate() * minus,
        shift + turn.conjugate() * plus + turn * minus,
    )
