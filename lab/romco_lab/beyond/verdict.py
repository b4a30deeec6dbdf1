"""Goals of romco-auto, line by line, and what was measured."""

from collections.abc import Iterator

import numpy as np

from romco.compare.controls import title_of
from romco.compare.results import Finished
from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best
from romco_lab.beyond.ablations import SINGLE
from romco_lab.beyond.contest import AUTO, PEERS, Contest
from romco_lab.beyond.scenes import CROWDS, INTERCEPT, RARE
from romco_lab.beyond.tables import errors, per_event, ratio, score
from romco_lab.learner_runs import paired

STEADY = 1.3  # growth of the time per event that caches and page faults may cause
Line = tuple[str, str, str]  # what was asked, what was measured, whether it is reached


def verdict_table(contest: Contest) -> Table:
    """All requirements."""
    lines: list[Line] = []
    for dataset in contest.datasets:
        lines += _accuracy(contest, dataset)
    for what, found in (
        ("simulated streams", _simulated(contest)),
        ("outlier tasks", _outliers(contest)),
        ("changing tasks", _changing(contest)),
        ("ranking with 3 % positives", _ranking(contest)),
        ("cost", _cost(contest)),
    ):
        lines += _measured(what, found)
    head = ("asked", "measured", "reached")
    return Table("Asked and measured", head, mark_best(lines, (None,) * 3))


def _measured(what: str, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines whose runs are finished."""
    try:
        yield from lines
    except FileNotFoundError:
        yield what, "not all measured yet", "open"


def best_of(contest: Contest, dataset: str, names: list[str]) -> tuple[str, list[Finished]]:
    """The learner with the lowest error in hindsight of those that were run, and its files."""
    found = [(name, files) for name in names if (files := contest.stored(dataset, name))]
    return min(found, key=lambda pair: errors(pair[1]).mean(), default=("", []))


def _accuracy(contest: Contest, dataset: str) -> Iterator[Line]:
    auto = errors(contest.best(dataset, AUTO))
    paper = [name for name, method in LEARNERS.items() if method.role == "paper"]
    asked = f"{dataset}: below each of the paper's {len(paper)} methods, tuned in hindsight"
    yield _below(contest, dataset, asked, auto, paper)
    others = [name for name in LEARNERS if name != AUTO]
    asked = f"{dataset}: within 1 % of the best learner of any kind"
    yield _near(contest, dataset, asked, auto, others)
    asked = f"{dataset}: the same, peers given an intercept (not asked)"
    yield _near(contest, dataset + INTERCEPT, asked, auto, list(PEERS))


def _below(contest: Contest, dataset: str, asked: str, auto: np.ndarray, names: list[str]) -> Line:
    """Against the best of some learners, shuffle by shuffle if it was run along."""
    name, files = best_of(contest, dataset, names)
    if not files:
        return asked, "not all measured yet", "open"
    difference = paired(auto[: len(files)], errors(files))
    peer = f"{100 * errors(files).mean():.2f} % of {title_of(name)}"
    text = f"{100 * auto.mean():.2f} % against {peer}; {difference}"
    return asked, text, _yes(difference.mean < 0, difference.high < 0)


def _near(contest: Contest, dataset: str, asked: str, auto: np.ndarray, names: list[str]) -> Line:
    """Within 1 % of the best of some learners."""
    name, files = best_of(contest, dataset, names)
    if files:
        return _within(asked, auto, name, files)
    return (asked, "not all measured yet", "open")


def _within(
    asked: str, auto: np.ndarray, name: str, files: list[Finished], limit: float = 0.01
) -> Line:
    excess = auto[: len(files)].mean() / errors(files).mean() - 1
    text = f"{excess:+.1%} against {title_of(name)} ({100 * errors(files).mean():.2f} %)"
    return asked, text, _yes(excess <= limit)


def _simulated(contest: Contest) -> Iterator[Line]:
    for claim, name, limit in (
        ("unrelated", "arow-unique", 0.01),
        ("unrelated, noisy", "arow-unique", 0.01),
        ("identical", "arow-global", 0.02),
        ("identical, noisy", "arow-global", 0.02),
    ):
        auto = errors(contest.best(claim, AUTO))
        for files, how in (
            (contest.default(claim, name), "default"),
            (contest.best(claim, name), "tuned"),
        ):
            asked = f"tasks {claim}: within {limit:.0%} of {title_of(name)}, {how}"
            yield _within(asked, auto, name, files, limit)


def _outliers(contest: Contest) -> Iterator[Line]:
    auto = contest.best("outliers", AUTO)
    alone = contest.best("outliers", "arow-unique")
    planted = [set(file.stream["outliers"]) for file in auto]
    named = [set(file.end["personal"]) for file in auto]
    hits = sum(len(p & n) for p, n in zip(planted, named, strict=True))
    false = sum(len(n - p) for p, n in zip(planted, named, strict=True))
    total = sum(map(len, planted))
    found = f"{hits} of {total} found, {false} others named"
    yield "outlier tasks are found", found, _yes(hits >= 0.9 * total and false <= 0.1 * total)
    means = [
        np.mean([np.array(f.last["scores"]["error_per_task"])[f.stream["outliers"]] for f in files])
        for files in (auto, alone)
    ]
    text = f"{100 * means[0]:.2f} % against {100 * means[1]:.2f} % of AROW-Unique, tuned"
    yield (
        "and not harmed",
        f"{text}; {means[0] / means[1] - 1:+.1%}",
        _yes(means[0] <= 1.01 * means[1]),
    )


def _changing(contest: Contest) -> Iterator[Line]:
    auto = errors(contest.best("changing", AUTO))
    names = ["arow-unique", "arow-global", "arow-shared", "pa-shared"]
    name, files = best_of(contest, "changing", names)
    if not files:
        raise FileNotFoundError("no runs of peers")
    asked = "tasks whose weights turn by a right angle: within 1 % of the best of four peers, tuned"
    yield _within(f"{asked} (not asked)", auto, name, files)


def _ranking(contest: Contest) -> Iterator[Line]:
    for claim in RARE:
        parts = []
        reached = []
        for key, what in (("auc", "all events"), ("auc_late", "without the first 10 rounds")):
            auto = 100 * score(contest.best(claim, AUTO), key)
            best, name = max((100 * score(contest.default(claim, n), key), n) for n in SINGLE)
            parts.append(f"{what} {auto:.2f} against {best:.2f} ({name.removeprefix('only ')})")
            reached.append(auto >= best)
        yield (
            f"3 % positives, {claim[6:]}: AUC of the best single copy",
            "; ".join(parts),
            _yes(reached[0]),
        )


def _cost(contest: Contest) -> Iterator[Line]:
    for dataset in (d for d in contest.datasets if d in ("spam", "emails")):
        times = ratio(contest.best(dataset, AUTO), contest.default(dataset, "arow-shared"))
        yield (
            f"{dataset}: at most 5 times the time of AROW-Shared",
            f"{times:.1f} times",
            _yes(times <= 5),
        )
    few, some, many = (per_event(contest.crowd(crowd, AUTO)) for crowd in CROWDS)
    text = f"{few:.0f}, {some:.0f}, {many:.0f} us with {', '.join(CROWDS)}"
    yield (
        f"time independent of the number of tasks beyond a few hundred: at most {STEADY} times",
        f"{text}: {many / few:.2f} times",
        _yes(many <= STEADY * few),
    )


def _yes(reached: bool, surely: bool = True) -> str:
    return "yes" if reached and surely else "yes, but not beyond chance" if reached else "**no**"
