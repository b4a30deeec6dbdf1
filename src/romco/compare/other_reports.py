"""What a comparison on many classes or numbers found: tables, a picture, a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.compare import settings_table
from romco.compare.others import PLACING, OtherComparison
from romco.compare.results import Outcome, outcomes
from romco.compare.sharing import MISTAKES, NUMBERS, sentence
from romco.presentation import page
from romco.presentation.figures import band, canvas, line_styles, save
from romco.presentation.tables import Table, as_html, mark_best, markdown, mean_and_spread

LEGIBLE = 12  # classes of a confusion table
HOW_TO_READ = {
    True: "Every learner is given the same events one by one: it answers with one of {n} classes, "
    "and is then told what was right. Error is the share of wrong answers; log loss and Brier "
    "score say how good its probabilities are, less is better; ECE, of calibration, is how far on "
    "average, its stated chance of being right is from being right; macro F1 counts every class "
    "alike, 100 at best.",
    False: "Every learner is given the same events one by one: it answers with a number, and is "
    "then told the right one. RMSE and MAE are how far it is off, in the unit of the answers, "
    "less is better; R2 is the share of their variance that is explained; of the answers 90 % "
    "should lie in an interval of 90 %, and the column says how many did, in %.",
}


def other_report(
    comparison: OtherComparison, results: Path, out: Path, command: str
) -> tuple[list[Table], str | None, Path]:
    """Read the runs' files; write figure, tables and page. Gives tables, a sentence, the page."""
    found = outcomes(comparison.runs(), results)
    whole = [outcome for outcome in found if not outcome.failed]
    stream = found[0].runs[0].stream
    tables = [scores(comparison, found), *_confusion(whole)]
    told = sentence(found, MISTAKES if stream["answers"] else NUMBERS)
    pictures = [page.picture(*draw(comparison, whole, out / "figures"))] if whole else []
    (out / "table.md").parent.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text("\n".join(map(markdown, tables)), encoding="utf-8")
    path = page.write_page(
        out / "index.html",
        f"Learners side by side on {comparison.dataset}",
        " ".join(filter(None, (told, _lead(comparison, stream)))),
        [
            page.paragraph(HOW_TO_READ[bool(stream["answers"])].format(n=stream["answers"])),
            *map(as_html, tables),
            *pictures,
            page.heading("Settings"),
            as_html(settings_table(found)),
        ],
        page.origin(command, found[0].runs[0].versions),
    )
    return tables, told, path


def scores(comparison: OtherComparison, found: Sequence[Outcome]) -> Table:
    """The right measures, mean ± standard deviation over shuffles, best marked; baselines last."""
    classes = bool(found[0].runs[0].stream["answers"])
    rows = [_row(outcome, classes) for outcome in found] + _usual(found[0], classes)
    notes = [
        f"mean (± standard deviation) over {comparison.shuffles} shuffles, "
        f"{comparison.order} order; everything is of what was predicted before it was learned",
        "romco-auto tells classes apart by pairs, the others each from the rest"
        if classes
        else f"the first {PLACING} events are not counted: nobody knows the place of answers yet",
        *found[0].runs[0].stream["notes"],
        *(f"{outcome.title} broke down: {outcome.failed}" for outcome in found if outcome.failed),
    ]
    head, best = _head(classes)
    return Table(
        f"Errors on {comparison.dataset}, each event answered before it was learned",
        head,
        mark_best(rows, best),
        notes,
    )


def _head(classes: bool) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """Columns, and of each whether low or high is best."""
    if classes:
        shown = ("error %", "macro F1 %", "log loss", "Brier", "ECE %", "seconds")
        return ("learner", *shown), (None, -1, 1, -1, -1, -1, -1)
    return ("learner", "RMSE", "MAE", "R2", "in 90 %", "seconds"), (
        *(None, -1, -1, 1),
        *(None, -1),
    )


def _row(outcome: Outcome, classes: bool) -> list[Any]:
    head, _ = _head(classes)
    if outcome.failed:
        return [outcome.title, "failed", *[""] * (len(head) - 2)]
    last = [run.last for run in outcome.runs]
    seconds = _mean([one["seconds"] for one in last], digits=3)
    if classes:
        return [
            outcome.title,
            _cell([one["scores"]["error"] for one in last], 100),
            _mean([one["scores"]["f1_macro"] for one in last], 100),
            _mean([one["scores"]["log_loss"] for one in last], digits=3),
            _mean([one["brier"] for one in last], digits=3),
            _mean([one["scores"]["calibration"] for one in last], 100),
            seconds,
        ]
    measured = [_plain([one["scores"][name] for one in last]) for name in ("rmse", "mae", "r2")]
    held = [run.end["coverage"] for run in outcome.runs if "coverage" in run.end]
    return [outcome.title, *measured, _mean(held, 100) if held else "", seconds]


def _usual(outcome: Outcome, classes: bool) -> list[list[Any]]:
    """What anyone could predict."""
    width, found = len(_head(classes)[0]), [run.stream["baselines"] for run in outcome.runs]
    return [
        [
            name,
            _cell([one[name] for one in found], 100)
            if classes
            else _plain([one[name] for one in found]),
            *[""] * (width - 2),
        ]
        for name in found[0]
    ]


def _cell(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> tuple[str, float]:
    return mean_and_spread(values, scale, digits), float(np.mean(values))


def _mean(values: Sequence[float], scale: float = 1.0, digits: int = 1) -> tuple[str, float]:
    """Without its spread: rows are to fit a terminal."""
    return mean_and_spread([np.mean(values)], scale, digits), float(np.mean(values))


def _plain(values: Sequence[float]) -> tuple[str, float]:
    """A number of any size, to four digits."""
    mean = float(np.mean(values))
    spread = f" ± {np.std(values, ddof=1):.1g}" if len(values) > 1 else ""
    return f"{mean:.4g}{spread}", mean


def _confusion(found: Sequence[Outcome]) -> list[Table]:
    """Which class was answered for which, by the learner of the lowest error, first shuffle."""
    if not found or "table" not in found[0].runs[0].end:
        return []
    best = min(found, key=lambda one: float(one.macro("error_rate").mean()))
    counts, labels = np.array(best.runs[0].end["table"]), best.runs[0].stream["labels"]
    shown = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:LEGIBLE])
    rows = [[labels[k], *(f"{counts[k, j]:,}" for j in shown)] for k in shown]
    left_out = [f"the {LEGIBLE} most frequent of {len(labels)}"] if len(shown) < len(labels) else []
    return [
        Table(
            f"What came (rows), and what {best.title} answered (columns), first shuffle",
            ("", *(labels[k] for k in shown)),
            mark_best(rows, (None,) * (len(shown) + 1)),
            left_out,
        )
    ]


def draw(
    comparison: OtherComparison, found: Sequence[Outcome], directory: Path
) -> tuple[Path, str]:
    """Error along the stream."""
    classes = bool(found[0].runs[0].stream["answers"])
    scale, unit = (100.0, "cumulative error, %") if classes else (1.0, "cumulative RMSE")
    styles = line_styles([outcome.learner for outcome in found])
    curves = {one.learner: scale * one.curve("error_rate") for one in found}
    with canvas(1, 1, 7.0, 3.8) as (figure, ((axes,),)):
        for one in found:
            band(axes, one.rounds(), curves[one.learner], one.title, styles[one.learner])
        late = [curve.mean(axis=0)[-(-curve.shape[1] // 15) :] for curve in curves.values()]
        late = [curve for curve in late if len(curve)]
        if late:  # how it begins would dwarf the rest
            least, most = min(map(np.min, late)), max(map(np.max, late))
            axes.set_ylim(0.9 * least, 1.02 * most + 1e-12)
        axes.set(xlabel="round", ylabel=unit, xlim=(0, None))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        path = save(figure, directory, "error")
    what = "Cumulative error" if classes else "Root mean squared error so far"
    text = f"{what} along the stream; bands: one standard deviation"
    return path, f"{text} over {comparison.shuffles} shuffles."


def _lead(comparison: OtherComparison, stream: dict[str, Any]) -> str:
    kind = f"{stream['answers']:,} classes" if stream["answers"] else "a number to predict"
    return (
        f"{len(stream['tasks']):,} tasks, {sum(stream['events']):,} events, {kind}, "
        f"{stream['features']:,} features; {comparison.shuffles} shuffles, the same for every "
        "learner."
    )
