"""The report as pages for GitHub: a first screen for people, wide tables on pages of their own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best, markdown
from romco_lab.learner_runs import Outcome
from romco_lab.paper.beside import shown
from romco_lab.paper.charts import CaptionedFigure, as_markdown
from romco_lab.paper.experiment import ROMCO, PaperData
from romco_lab.paper.printed import printed
from romco_lab.paper.verdict import FAILS, HOLDS, OPEN, Line, Verdict, strongest

LINKS = (
    ("fair.md", "Was it fair?", "each rival's best reading, ROMCO in hindsight, four preparations "
     "of spam, and simulated worlds in which the claims do hold"),
    ("claims.md", "Claim by claim", "every figure behind the verdict"),
    ("tables.md", "Tables", "all tables of the paper, measured, beside the printed numbers"),
    ("figures.md", "Figures", "all figures of the paper, measured"),
    ("settings.md", "Settings", "what tuning chose; every trial is in tuning.csv"),
    ("../reproduction.md", "Where the paper leaves a choice", "what each other reading changes"),
)  # fmt: skip


def first_page(
    title: str,
    lead: str,
    measured: dict[PaperData, list[Outcome]],
    verdicts: Sequence[Verdict],
    drawn: CaptionedFigure | None,
    footer: str,
    links: Sequence[tuple[str, str, str]] = LINKS,
) -> str:
    """Verdict, one table, one figure, and where the rest is."""
    judged = [verdict for verdict in verdicts if any(verdict.lines.values())]
    parts = [f"# {title}", "## Verdict", tally(judged)]
    parts += ["\n".join(f"- {text}" for text in in_short(measured))]
    parts += ["\n".join(_claim(verdict) for verdict in judged), READING]
    parts.append(markdown(errors_table(measured)))
    if drawn is not None:
        parts.append(as_markdown(drawn))
    parts += ["## How", lead, "## More"]
    parts.append("\n".join(f"- [{name}]({at}): {what}." for at, name, what in links))
    return "\n\n".join([*parts, "---", footer]) + "\n"


READING = (
    "A claim holds if it does on every data set for both variants of ROMCO, and does not if it "
    "fails on any. Numbers are points of percent of error averaged over tasks, ROMCO minus the "
    "rival that decides (negative: ROMCO is better), or the rival's time divided by ROMCO's (x)."
)


def tally(verdicts: Sequence[Verdict]) -> str:
    """Count the claims that hold, in a sentence."""
    counts = [sum(v.status == status for v in verdicts) for status in (HOLDS, FAILS, OPEN)]
    return (
        f"Claims: {len(verdicts)}. Borne out on every data set: {counts[0]}; not: {counts[1]}; "
        f"undecided: {counts[2]}. Every method had its best reading and a comparable search "
        "([how](#how)); in which worlds the claims do hold is mapped on the page about fairness."
    )


def in_short(measured: dict[PaperData, list[Outcome]]) -> list[str]:
    """For each data set ROMCO, the fairest online rival of the paper, and the best of all."""
    told = []
    for source, found in measured.items():
        whole = [outcome for outcome in found if not outcome.failed]
        ours = [outcome for outcome in whole if outcome.learner in ROMCO]
        rival = strongest(whole)
        if not ours or rival is None:
            continue
        mine = min(ours, key=_error)
        best = min(whole, key=_error)
        told.append(
            f"{source.title}: {mine.title} {_error(mine):.2f} %; the best online rival of the "
            f"paper, {rival.title}, {_error(rival):.2f} %; the best of all, {best.title}, "
            f"{_error(best):.2f} %."
        )
    return told


def errors_table(measured: dict[PaperData, list[Outcome]]) -> Table:
    """The methods of the paper on every data set, printed numbers in brackets."""
    names = list(dict.fromkeys(o.learner for found in measured.values() for o in shown(found)))
    rows = []
    for name in names:
        cells = []
        for source, found in measured.items():
            ran = [o for o in found if o.learner == name and not o.failed]
            was = printed(source.name, name, "macro", "error_rate") if source.real else None
            text = f"{_error(ran[0]):.2f}" + (f" ({was:.2f})" if was is not None else "")
            cells.append((text, _error(ran[0])) if ran else "failed")
        rows.append([LEARNERS[name].title, *cells])
    head = ("method", *(source.title for source in measured))
    keys = (None, *(-1 for _ in measured))
    notes = ["lowest error here in bold; ROMCO-Auto is not in the paper"]
    title = "Error, %, averaged over tasks (printed number)"
    return Table(title, head, mark_best(rows, keys), notes)


def page(title: str, parts: Iterable[str]) -> str:
    """A page of its own, with the way back."""
    back = "[Back to the report](README.md)"
    return "\n\n".join([f"# {title}", back, *parts]) + "\n"


def figures_page(drawn: Sequence[CaptionedFigure]) -> str:
    """All figures and their captions."""
    return page("Figures", [as_markdown(one) for one in drawn])


def write_pages(pages: dict[str, str], out: Path) -> None:
    """Each under its name."""
    for name, text in pages.items():
        (out / name).write_text(text, encoding="utf-8")


def _claim(verdict: Verdict) -> str:
    return f"- **{verdict.status}**: {verdict.claim}. {_where(verdict)}"


def _where(verdict: Verdict) -> str:
    """Data sets by how the claim fares there, each with the figure that decides."""
    by_status: dict[str, list[str]] = {}
    for title, lines in verdict.lines.items():
        if lines:
            worst = _deciding(lines)
            by_status.setdefault(worst.status, []).append(f"{title} ({worst.short})")
    order = (FAILS, OPEN, HOLDS)
    told = [f"{_WORDS[s]} on {', '.join(by_status[s])}" for s in order if s in by_status]
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}."


_WORDS = {HOLDS: "holds", FAILS: "fails", OPEN: "undecided"}


def _deciding(lines: Sequence[Line]) -> Line:
    for status in (FAILS, OPEN):
        for line in lines:
            if line.status == status:
                return line
    return lines[0]


def _error(outcome: Outcome) -> float:
    return 100 * float(outcome.macro("error_rate").mean())
