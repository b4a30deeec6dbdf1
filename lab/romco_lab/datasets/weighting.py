"""From term counts to the rows a linear learner likes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array


def tf_idf(counts: csr_array, damped: bool = True, normalise: bool = True) -> csr_array:
    """(1 + log count) * log(n / number of rows with the term), rows of unit length.

    ``counts`` is (n, d) with positive entries only; ``damped=False`` takes the count
    itself in place of 1 + its logarithm, ``normalise=False`` leaves rows as long as they
    are. The document frequencies are those
    of all n rows, so the weights of the first row know how common words will be; they
    know nothing of labels.

    >>> counts = csr_array(np.array([[1.0, 3.0, 0.0], [2.0, 0.0, 0.0]]))
    >>> tf_idf(counts).toarray()
    array([[0., 1., 0.],
           [0., 0., 0.]])
    """
    rows_with_term = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(counts.shape[0] / np.maximum(rows_with_term, 1))
    tf = 1.0 + np.log(counts.data) if damped else counts.data
    data = tf * idf[counts.indices]
    weighted = csr_array((data, counts.indices, counts.indptr), shape=counts.shape)
    if not normalise:
        weighted.eliminate_zeros()
        return weighted
    norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    scaled = csr_array(diags_array(_inverse(norms)) @ weighted)
    scaled.eliminate_zeros()
    return scaled


def unit_rows(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dense rows scaled to length 1; rows of zeros stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    return x * _inverse(np.linalg.norm(x, axis=1))[:, None]


def most_frequent(counts: csr_array, n: int) -> NDArray[np.int64]:
    """The ``n`` columns with the most non-zero rows, ascending; ties go to the lower column.

    >>> most_frequent(csr_array(np.array([[1, 0, 2], [0, 0, 1], [4, 0, 0]])), 2)
    array([0, 2])
    """
    return best(np.bincount(counts.indices, minlength=counts.shape[1]), n)


def best(value: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Places of the ``n`` largest positive values, ascending; ties go to the lower place.

    >>> best(np.array([1.0, 3.0, 0.0, 3.0]), 2)
    array([1, 3])
    """
    order = np.argsort(-value, kind="stable")[:n]
    return np.sort(order[value[order] > 0]).astype(np.int64)


def _inverse(norms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(norms > 0, 1.0 / np.where(norms > 0, norms, 1.0), 0.0)
