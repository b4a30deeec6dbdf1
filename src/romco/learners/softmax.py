"""romco-auto for very many classes: all of them at once, O(K) per entry of an event."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.centres import Centres
from romco.kernels.auto.scales import Scales
from romco.kernels.auto.softmax import SoftmaxKernel
from romco.kernels.auto.stacking import ConditionalLogit
from romco.kernels.core.pairs import Pairs
from romco.learners.base import Arrays, CompiledLearner, copy_arrays
from romco.parameters import whole
from romco.rounds import Round

Numbers = NDArray[np.float64]

TRUST = (0.3, 1.0, 2.0, 0.3, 0.3, 0.3)  # prior weights of the inputs, in the order of the class,
DOUBT = 1.0  # and their variance,
RENEWAL = 3e-5  # to which each event adds this
NARROW = 64  # features up to which centres are known
DENSE = 2**23  # numbers up to which an array beats a table of the pairs that occurred
SCATTER_PRIOR_EVENTS = 5.0  # events whose scatter is taken for granted,
CENTRE_PRIOR_EVENTS = 0.1  # and by which a class lies in the middle, as the kernel has it
SHARED, OWN = 6, 2  # numbers of a class in each store
STORES = ("shared", "personal")


class AutoSoftmax(CompiledLearner):
    r"""Softmax over many classes from six models and a conditional logit; no parameters.

    Three inputs have a vector for each class: *softmax* on the multinomial logistic loss,
    *margin* on the squared hinge loss of a class against the rest, and *together* the same by a
    shared and a personal vector, which forgets slowly. *Centres* knows where each class lies and
    how events scatter about it, of up to 64 features: of a new class it knows most after one
    event. *Usual* and *common* are how often the task, and all tasks, had the class. Stacking is a
    conditional logit with one weight per input for all classes and tasks,

    .. math:: p_k \propto \exp \sum_j w_j z_{jk}

    Features are measured in units of their own, as by ``romco-auto``. Answers are 0, 1, ..., scores
    (n, K) log-probabilities.

    Cost: O(K nnz) per event, and O(d^2 + K d) where d is 64 or less; memory of 6 K numbers per
    feature and 2 K per pair of task and feature that occurred.

    >>> import romco
    >>> learner = AutoSoftmax(n_features=2, n_tasks=1, n_classes=40)
    >>> x, y = np.eye(2), np.array([7.0, 31.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.zeros(2, int), x, y))
    >>> learner.predict(romco.Round(np.zeros(2, int), x, np.empty(0))).argmax(axis=1)
    array([ 7, 31])
    """

    supports_sample_weight = True
    supports_offset = True
    one_pass = True
    linear: ClassVar = False
    space: ClassVar = {}
    kernel: SoftmaxKernel

    def __init__(self, n_features: int, n_tasks: int, *, n_classes: int = 2) -> None:
        super().__init__(n_features, n_tasks)
        self.answers = self._room = whole("n_classes", n_classes, least=2)
        self._arrays = self._nothing()
        self._stores = self._empty()
        self._link()

    # What every learner says

    def weights(self) -> Numbers:
        """W (d, m, K): the part of the log-probabilities that is linear, up to what all share."""
        w = self._arrays["weight"][:3]
        shared = self._dense("shared").reshape(self.n_features, SHARED, -1)[:, ::2]
        own = self._dense("personal").reshape(self.n_tasks, self.n_features, OWN, -1)[:, :, 0]
        total = np.einsum("v,fvk->fk", w, shared)[:, None] + w[2] * own.transpose(1, 0, 2)
        return np.asarray(self._units()[:, None, None] * total[..., : self.answers])

    def arrays(self) -> Arrays:
        K = self.answers
        arrays = dict(self._arrays)
        for name in ("seen", "centres", "lengths"):
            arrays[name] = arrays[name][:K]
        for name in ("level", "own_level", "counts"):
            arrays[name] = arrays[name][..., :K]
        for name, store in self._stores.items():
            parts = store.arrays()
            if self._room > K:
                lanes = SHARED if name == "shared" else OWN
                each = parts["personal"]
                each = each.reshape(*each.shape[:-1], lanes, self._room)[..., :K]
                parts = {**parts, "personal": each.reshape(*each.shape[:-2], lanes * K)}
            arrays |= {renamed(key, name): array for key, array in parts.items()}
        return arrays

    @property
    def class_events(self) -> Numbers:
        """Events of each class (K,), live."""
        return np.asarray(self._arrays["seen"][: self.answers])

    def load(self, arrays: Arrays) -> None:
        missing = [name for name in ("seen", *STORES) if name not in arrays]
        if missing:
            raise ValueError(f"state holds arrays {sorted(arrays)}, {missing[0]!r} is missing")
        classes = len(np.atleast_1d(arrays["seen"]))
        if classes > self._room:
            raise ValueError(f"state holds {classes} classes, this learner {self._room}")
        kept = {name: array for name, array in arrays.items() if not name.startswith(STORES)}
        stores = self._empty()
        for name, store in stores.items():
            store.load(self._widened(name, arrays, classes))
        copy_arrays(self._arrays, kept)
        self._stores = stores
        self._link()

    def make_classes(self, n: int) -> None:
        self.answers = max(n, self.answers)
        if n > self._room:  # doubled, so that it is rare
            old, self._room = self.arrays(), max(n, 2 * self._room)
            self._arrays = self._nothing()
            self.load(old)
        else:
            self._link()

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        self._arrays["own_level"][task] = 0.0
        self._arrays["counts"][task] = 0.0
        self._stores["personal"].clear(task)

    # What it has found

    def additions(self, round: Round) -> tuple[NDArray[np.int32], Numbers, Numbers, Numbers]:
        """Parts of one event's scores: features (k,), shared (k, K), personal (k, K), rest (K,).

        What each feature adds to sum_j w_j z_jk through what tasks share and through the task's
        own, and what comes beside; all adds up to the scores but for what classes have in common.
        """
        events = self.events_of(round)
        features, values, unit, variances = self.kernel.entries(events)
        w, inputs = self._arrays["weight"], self.kernel.inputs(events)[0]
        sure = np.ones_like(variances)
        sure[0] = 1.0 / np.sqrt(1.0 + np.pi * variances[0] / 8.0)
        rows = self._rows("shared", 0, features).reshape(len(features), SHARED, -1)
        own = self._rows("personal", int(round.task[0]), features).reshape(len(features), OWN, -1)
        rows, own = rows[..., : self.answers], own[..., : self.answers]
        x = (unit * values)[:, None]
        shared = x * np.einsum("v,vk,fvk->fk", w[:3], sure, rows[:, ::2])
        if inputs[3].any():
            shared = shared + w[3] * self._by_centre(features, values)
        personal = x * w[2] * own[:, 0]
        return features, shared, personal, w @ inputs - shared.sum(axis=0) - personal.sum(axis=0)

    # Within

    def _nothing(self) -> Arrays:
        d, m, K, n = self.n_features, self.n_tasks, self._room, min(self.n_features, NARROW)
        return {
            "level": np.zeros((SHARED, K)),  # intercepts: means and spent variances, by turns
            "own_level": np.zeros((m, OWN, K)),  # what a task adds to that of together
            "counts": np.zeros((m, K)),  # events of each task and class,
            "seen": np.zeros(K),  # and of each class
            "clock": np.zeros(2),  # sum of log |x|^2, events
            "centres": np.zeros((K, n)),
            "lengths": np.zeros(K),  # of the centres, measured by the scatter
            "scatter": np.zeros((n, n)),  # spent of its inverse
            "scattered": np.zeros(1),  # events that told of it
            "weight": np.array(TRUST),
            "covariance": DOUBT * np.eye(len(TRUST)),
            "units": np.zeros((d, 8)),
            "typical": np.zeros(5),
        }

    def _empty(self) -> dict[str, Pairs]:
        def store(tasks: int, width: int) -> Pairs:
            dense = tasks * self.n_features * width <= DENSE
            return Pairs(tasks, self.n_features, width, dense)

        widths = SHARED * self._room, OWN * self._room
        return {"shared": store(1, widths[0]), "personal": store(self.n_tasks, widths[1])}

    def _link(self) -> None:
        a = self._arrays
        K = self.answers
        self.kernel = SoftmaxKernel(
            classes=K,
            shared=self._stores["shared"],
            personal=self._stores["personal"],
            **{name: a[name] for name in ("level", "own_level", "counts", "seen", "clock")},
            scales=Scales(a["units"], a["typical"]),
            centres=Centres(a["centres"][:K], a["lengths"][:K], a["scatter"], a["scattered"]),
            stacking=ConditionalLogit(a["weight"], a["covariance"], DOUBT, RENEWAL),
        )

    def _widened(self, name: str, arrays: Arrays, classes: int) -> dict[str, NDArray[Any]]:
        """Arrays of a store, padded to the classes of this learner."""
        lanes = SHARED if name == "shared" else OWN
        values, keys = np.asarray(arrays[name]), arrays.get(f"{name}_keys")
        if values.ndim < 2 or values.shape[-1] != lanes * classes:
            raise ValueError(
                f"state array {name!r} is {list(values.shape)}, which is not of {classes} classes"
            )
        more = np.zeros((*values.shape[:-1], lanes, self._room))
        more[..., :classes] = values.reshape(*values.shape[:-1], lanes, classes)
        more = more.reshape(*values.shape[:-1], lanes * self._room)
        return {"personal": more} if keys is None else {"personal": more, "personal_keys": keys}

    def _dense(self, name: str) -> Numbers:
        """Content of a store as a dense array (tasks, d, width)."""
        store = self._stores[name]
        return np.stack([store.lane(k) for k in range(store.width)], axis=2)

    def _rows(self, name: str, task: int, features: NDArray[np.int32]) -> Numbers:
        """Content of a store for some features of a task, (k, width)."""
        arrays = self._stores[name].arrays()
        if "personal_keys" not in arrays:
            return np.asarray(arrays["personal"][task, features])
        keys = (task << 32) | features.astype(np.int64)
        _, at, places = np.intersect1d(keys, arrays["personal_keys"], return_indices=True)
        rows = np.zeros((len(features), self._stores[name].width))
        rows[at] = arrays["personal"][places]
        return rows

    def _by_centre(self, features: NDArray[np.int32], values: Numbers) -> Numbers:
        """Parts (k, K) of features in the scores of the class means, along the way from 0 to x.

        Along that way, t x, the slope by a feature is averaged.
        """
        a = self._arrays
        R = np.eye(len(a["scatter"])) / SCATTER_PRIOR_EVENTS - a["scatter"]
        x = np.zeros(len(R))
        x[features] = values
        events, width = SCATTER_PRIOR_EVENTS + a["scattered"][0], a["typical"][4]
        spread = 1.0 + 1.0 / (self.class_events + CENTRE_PRIOR_EVENTS)
        nodes, weights = np.polynomial.legendre.leggauss(32)
        total = np.zeros((len(R), self.answers))
        for t, w in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
            off = t * x - a["centres"][: self.answers]  # (K, n)
            pull = off @ R
            far = (off * pull).sum(axis=1) / spread
            total -= w * (events + width) * (pull / (spread * (1.0 + far))[:, None]).T
        return np.asarray((x[:, None] * total)[features])

    def _units(self) -> Numbers:
        """Factors (d,) by which features are multiplied."""
        total, count = self._arrays["clock"]
        return np.asarray(
            self._arrays["units"][:, 5] * (np.exp(-0.5 * total / count) if count else 1.0)
        )


def renamed(key: str, name: str) -> str:
    """The name of a store's array: "personal" there is ``name`` here."""
    return key.replace("personal", name)
