"""romco-auto beside mixed models: first half of each set learned, second half predicted.

    ROMCO_DATA=... python -m benchmarks.mixed_models [cheese nlswork ... rows crossed]

Peers run where they are installed: lme4 (Rscript), statsmodels, GPBoost, lambda-learner, LightGBM
as the base of a personal layer. Each has random intercepts of the task (crossed with the film in
movies) and the fixed effects that the set has; a second line has slopes of the columns named.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

import romco
from romco.streams.datasets import data_directory

Numbers = NDArray[np.float64]
TIMEOUT_SECONDS = 300
PENALTY = 1.0  # of lambda-learner's L2 norm


class Data(NamedTuple):
    """Rows in order; ``groups`` has the task and further groupings, ``slopes`` random slopes."""

    name: str
    x: Numbers  # fixed effects
    y: Numbers
    groups: list[NDArray[Any]]
    number: bool
    slopes: tuple[int, ...] = ()

    @property
    def half(self) -> int:
        return len(self.y) // 2


def sets(names: list[str]) -> Iterator[Data]:
    from importlib import import_module

    from romco_lab.datasets.tabular import read

    numbers = (("cheese", "log_volume", (0, 1)), ("nlswork", "ln_wage", ()), ("star", "math", ()))
    for name, target, slopes in numbers:
        if name in names:
            found = read(import_module(f"romco_lab.datasets.{name}").RECIPE)
            yield Data(name, _dense(found.x), found.number(target), [found.task], True, slopes)
    for name in ("fars", "swissmetro"):
        if name in names:
            s = romco.streams.datasets.load(name)
            yield Data(name, _dense(s.x), s.y, [s.task], False)
    if "movies" in names:
        u = np.loadtxt(data_directory() / "movielens100k" / "u.data", dtype=np.int64)
        u = u[np.argsort(u[:, 3], kind="stable")]
        y = np.where(u[:, 2] >= 4, 1.0, -1.0)
        yield Data("movies", np.zeros((len(y), 0)), y, [u[:, 1], u[:, 0]], False)
    if "rows" in names:
        yield _simulated("rows", 10**6, 5000, 0)
    if "crossed" in names:
        yield _simulated("crossed", 500_000, 10_000, 10_000)


def _simulated(name: str, n: int, m: int, m2: int) -> Data:
    rng = np.random.default_rng(0)
    x, first = rng.normal(size=(n, 1)), rng.integers(0, m, n)
    score = x[:, 0] + rng.normal(size=m)[first]
    if not m2:
        return Data(name, x, score + rng.normal(size=n), [first], True)
    second = rng.integers(0, m2, n)
    score += 0.5 * rng.normal(size=m2)[second] + rng.logistic(size=n)
    return Data(name, x, np.where(score > 0.0, 1.0, -1.0), [first, second], False)


def _dense(x: Any) -> Numbers:
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def loss(data: Data, found: Numbers) -> float:
    """Return RMSE of numbers, log loss of log-odds."""
    y = data.y[data.half :]
    if data.number:
        return float(np.sqrt(np.mean(np.square(y - found))))
    return float(np.mean(np.logaddexp(0.0, -y * found)))


def with_romco(data: Data) -> Numbers:
    x: Any = data.x
    for levels in data.groups[1:]:
        number = np.unique(levels, return_inverse=True)[1]
        n = len(number)
        one_hot = csr_array((np.ones(n), number, np.arange(n + 1)), shape=(n, number.max() + 1))
        x = hstack([csr_array(x), one_hot], format="csr") if x.shape[1] else one_hot
    task = data.groups[0].tolist()
    target: Any = "number" if data.number else None
    classes = None if data.number else (-1.0, 1.0)
    model = romco.Model(features=romco.Columns(x.shape[1]), target=target, classes=classes)
    model.learn(x[: data.half], data.y[: data.half], task[: data.half])
    return model.margins(x[data.half :], task[data.half :])


def with_lme4(data: Data) -> Numbers:
    """lmer; glmer with nAGQ = 0, its fast fit."""
    columns = [data.y if data.number else (data.y > 0).astype(float), *data.groups, *data.x.T]
    groups = [f"g{k}" for k in range(len(data.groups))]
    names = ["y", *groups, *(f"x{k}" for k in range(data.x.shape[1]))]
    slopes = "".join(f" + x{k}" for k in data.slopes)
    random = " + ".join(f"(1{slopes} | {group})" for group in groups)
    # a column that is constant in the first half would make the fit singular
    fixed = [f"x{k}" for k in range(data.x.shape[1]) if np.ptp(data.x[: data.half, k]) > 0.0]
    formula = f"y ~ 1 {''.join(f' + {name}' for name in fixed)} + {random}"
    fit = "lmer(f, a)" if data.number else "glmer(f, a, family = binomial, nAGQ = 0)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        header = ",".join(names)
        np.savetxt(
            path / "in.csv", np.column_stack(columns), "%.9g", ",", header=header, comments=""
        )
        factors = "\n".join(f"d${group} <- factor(d${group})" for group in groups)
        (path / "fit.R").write_text(
            f"""suppressMessages(library(lme4))
d <- read.csv("{path}/in.csv")
{factors}
a <- d[1:{data.half}, ]; b <- d[{data.half + 1}:nrow(d), ]
t <- sum(proc.time()[1:2])
f <- {formula}
m <- suppressWarnings({fit})
p <- predict(m, b, allow.new.levels = TRUE)
cat(sum(proc.time()[1:2]) - t)
write.table(p, "{path}/out.csv", row.names = FALSE, col.names = FALSE)
"""
        )
        made = subprocess.run(
            ["Rscript", str(path / "fit.R")],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
        with_lme4.seconds = float(made.stdout.split()[-1])  # type: ignore[attr-defined]
        return np.loadtxt(path / "out.csv")


def with_statsmodels(data: Data) -> Numbers:
    """MixedLM of numbers, with one grouping."""
    import statsmodels.api as sm

    if not data.number or len(data.y) > 100_000:
        raise NotImplementedError("numbers of up to 100,000 rows")
    a, b = slice(data.half), slice(data.half, None)
    keep = np.ptp(data.x[a], axis=0) > 0.0
    exog = np.column_stack([np.ones(len(data.y)), data.x[:, keep]])
    r = np.linalg.qr(exog[a], mode="r")
    exog = exog[:, np.abs(np.diag(r)) > 1e-8]
    z = np.column_stack([np.ones(len(data.y)), data.x[:, list(data.slopes)]])
    fitted = sm.MixedLM(data.y[a], exog[a], data.groups[0][a], exog_re=z[a]).fit()
    effects = {group: np.asarray(e) for group, e in fitted.random_effects.items()}
    zero = np.zeros(z.shape[1])
    own = np.array([effects.get(group, zero) for group in data.groups[0][b]])
    return np.asarray(exog[b] @ fitted.fe_params + (z[b] * own).sum(axis=1))


def with_lambda_learner(data: Data) -> Numbers:
    """A global fit of scikit-learn, then L-BFGS of each group on top of its scores."""
    from linkedin.learner.ds.indexed_dataset import IndexedDataset
    from linkedin.learner.ds.indexed_model import IndexedModel
    from linkedin.learner.prediction.trainer_logistic_loss_with_l2 import (
        TrainerLogisticLossWithL2,
    )
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    if data.number or len(data.groups) > 1:
        raise NotImplementedError("two classes and one grouping")
    half, group = data.half, data.groups[0]
    base = LogisticRegression(max_iter=1000).fit(data.x[:half], data.y[:half])
    offset = base.decision_function(data.x)
    found = offset[half:].copy()
    for one in np.unique(group[:half]):
        a, b = np.flatnonzero(group[:half] == one), np.flatnonzero(group[half:] == one)
        z = np.column_stack([np.ones(len(data.y)), data.x])
        given = IndexedDataset(csr_matrix(z[a]), data.y[a], np.ones(len(a)), offset[a])
        start = IndexedModel(theta=np.zeros(z.shape[1]))
        trainer = TrainerLogisticLossWithL2(
            training_data=given, initial_model=start, penalty=PENALTY
        )
        found[b] += z[half:][b] @ trainer.train()[0].theta
    return found


def with_gpboost(data: Data) -> Numbers:
    import gpboost as gpb

    a, b = slice(data.half), slice(data.half, None)
    groups = np.column_stack(data.groups)
    likelihood = "gaussian" if data.number else "bernoulli_logit"
    model = gpb.GPModel(group_data=groups[a], likelihood=likelihood)
    X = np.column_stack([np.ones(len(data.y)), data.x])
    y = data.y if data.number else (data.y > 0).astype(float)
    model.fit(y=y[a], X=X[a])
    found = model.predict(group_data_pred=groups[b], X_pred=X[b], predict_response=False)
    return np.asarray(found["mu"])


def layered(data: Data) -> Iterator[tuple[str, Callable[[Data], Numbers]]]:
    """Yield a LightGBM model of the first quarter, and a layer that learned the second."""
    import lightgbm

    quarter, half = data.half // 2, data.half
    if data.x.shape[1] == 0 or data.name in ("rows", "crossed"):
        return
    kind = lightgbm.LGBMRegressor if data.number else lightgbm.LGBMClassifier
    base = kind(n_estimators=100, num_leaves=15, verbose=-1, n_jobs=1)
    base.fit(data.x[:quarter], data.y[:quarter])
    task = data.groups[0].tolist()

    def alone(data: Data) -> Numbers:
        x = data.x[half:]
        return np.asarray(base.predict(x) if data.number else base.predict(x, raw_score=True))

    def on_top(data: Data) -> Numbers:
        layer = romco.PersonalLayer(base)
        layer.partial_fit(data.x[quarter:half], data.y[quarter:half], task=task[quarter:half])
        return layer.decision_function(data.x[half:], task[half:])

    yield "LightGBM (first quarter)", alone
    yield "romco.PersonalLayer on it (second quarter)", on_top


def main() -> None:
    """Print a table."""
    known = ["cheese", "nlswork", "star", "fars", "swissmetro", "movies", "rows", "crossed"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*known, []])
    chosen = parser.parse_args().sets or known
    warnings.simplefilter("ignore")
    print("| set | method | loss | CPU seconds |\n|---|---|---|---|")
    for data in sets(chosen):
        methods: list[tuple[str, Callable[[Data], Numbers]]] = [("romco-auto", with_romco)]
        if shutil.which("Rscript"):
            methods.append(("lme4", with_lme4))
        methods += [("statsmodels MixedLM", with_statsmodels), ("GPBoost", with_gpboost)]
        methods.append(("lambda-learner", with_lambda_learner))
        with suppress(ImportError):
            methods += layered(data)
        for name, method in methods:
            begin = time.process_time()
            try:
                found = loss(data, method(data))
            except (ImportError, NotImplementedError):
                continue
            except (subprocess.SubprocessError, ValueError, np.linalg.LinAlgError) as error:
                print(f"| {data.name} | {name} | {type(error).__name__} | |", flush=True)
                continue
            seconds = getattr(method, "seconds", time.process_time() - begin)
            print(f"| {data.name} | {name} | {found:.4f} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
