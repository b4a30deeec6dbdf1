"""Results to the report of the paper: tables, figures, summary, verdict, one page."""

import csv
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from romco.compare.controls import title_of
from romco.compare.results import read
from romco.compare.run import place
from romco.learners import LEARNERS
from romco.presentation import page
from romco.presentation.tables import Table, as_html, mark_best, markdown
from romco_lab.figures import picture
from romco_lab.learner_runs import Outcome
from romco_lab.paper import charts
from romco_lab.paper.beside import draw_overview, draw_tasks
from romco_lab.paper.experiment import Chosen, Experiment, PaperData
from romco_lab.paper.pages import LINKS, figures_page, first_page, write_pages
from romco_lab.paper.pages import page as page_of
from romco_lab.paper.readings import page_text
from romco_lab.paper.review import Review
from romco_lab.paper.tables import (
    averages_table,
    paired_table,
    statistics_table,
    summary,
    tasks_table,
    time_table,
)
from romco_lab.paper.verdict import Line, Sweep, Verdict, losses, verdicts

NUMBERS = {"spam": "Table 2", "mhc": "Table 4", "movies": "Table 5"}
KINDS = {"holds": "holds", "does not hold": "fails", "undecided": "undecided"}


@dataclass(frozen=True)
class Findings:
    """Contents of the report, before it is written anywhere."""

    experiment: Experiment
    measured: dict[PaperData, list[Outcome]]
    sweeps: list[Sweep]
    tables: list[Table]
    tuning: list[Table]
    verdicts: list[Verdict]
    losses: list[str]
    figures: list[charts.CaptionedFigure]

    @property
    def title(self) -> str:
        """Title, which mentions that some data are simulated."""
        invented = [source for source in self.measured if not source.real]
        warning = " on SIMULATED data" if invented else ""
        return f"The ROMCO paper, measured again{warning}"

    @property
    def lead(self) -> str:
        """One sentence on how."""
        plan = self.experiment
        each = (
            f"{plan.trials} trials for each parameter it has (batch methods: {plan.trials} in all)"
        )
        budget = each if plan.tuning == "equal" else "the full grid"
        share = "" if plan.tuned_on >= 1 else f" (its first {plan.tuned_on:.0%} of rounds)"
        part = "" if plan.run_on >= 1 else f"QUICK LOOK at the first {plan.run_on:.0%} of rounds: "
        fewer = plan.batch_shuffles
        few = "" if fewer is None else f" (batch methods: the first {fewer} of them)"
        return (
            f"{part}{plan.shuffles} shuffles{few}, the same for every method, {plan.order} order. "
            f"Every method was tuned by {budget} on one held-out shuffle{share} "
            "used for nothing else."
        )


def findings(experiment: Experiment, chosen: Chosen, results: Path, out: Path) -> Findings:
    """Read the results and draw the figures."""
    measured = {s: experiment.outcomes(s, chosen, results) for s in experiment.sources}
    swept = sweeps(experiment, chosen, results)
    return Findings(
        experiment,
        measured,
        swept,
        tables(measured),
        [tuning_table(experiment, chosen)],
        verdicts(measured, swept),
        losses(measured),
        figures(measured, swept, out / "figures"),
    )


def write(
    found: Findings, results: Path, out: Path, command: str, review: Review | None = None
) -> Path:
    """The page, and beside it summary.csv, tuning.csv, tables.tex and pages for GitHub."""
    versions = next(iter(found.measured.values()))[0].runs[0].versions
    summary(found.measured, out / "summary.csv")
    tuning_curve(found.experiment, results, out / "tuning.csv")
    everything = [*found.tables, *found.tuning]
    (out / "tables.tex").write_text("\n".join(map(latex, everything)), encoding="utf-8")
    footer = page.origin(command, versions)
    write_pages(pages(found, footer, review, out), out)
    parts = [verdict_html(found)]
    parts += [page.heading("Tables"), *map(as_html, found.tables)]
    parts += [page.heading("Figures"), *(picture(*drawn) for drawn in found.figures)]
    parts += [page.heading("Settings chosen by tuning"), *map(as_html, found.tuning)]
    parts += [page.heading("Figures behind the verdict"), as_html(figures_table(found))]
    return page.write_page(out / "index.html", found.title, found.lead, parts, footer)


def tables(measured: dict[PaperData, list[Outcome]]) -> list[Table]:
    """Tables 1 to 5, per-task tables, paired comparisons."""
    made = [statistics_table(measured)]
    for source, outcomes in measured.items():
        number = NUMBERS.get(source.name, "Further table")
        made.append(averages_table(number, source, outcomes))
        made.append(tasks_table(f"{number}, by task", source, outcomes, "error_rate"))
        if source.name == "spam":  # the paper's second measure: F1 of legitimate mail
            made.append(tasks_table(f"{number}, by task", source, outcomes, "f1_negative"))
    made.append(time_table(measured))
    made += [paired_table(measured, name) for name in ("romco-nucl", "romco-logd")]
    return made


def figures(
    measured: dict[PaperData, list[Outcome]], swept: Sequence[Sweep], directory: Path
) -> list[charts.CaptionedFigure]:
    """Figures 1 to 6, and averages for data sets the paper does not have."""
    drawn = []
    whole = {s: [o for o in found if not o.failed] for s, found in measured.items()}
    nuclear = [
        (s, o.runs[0]) for s, found in whole.items() for o in found if o.learner == "romco-nucl"
    ]
    if nuclear:
        drawn.append(charts.draw_decompositions(nuclear, directory))
    drawn.append(charts.draw_surrogates(directory))
    for source, outcomes in whole.items():
        shown = [o for o in outcomes if LEARNERS[o.learner].role == "paper"] or outcomes
        if source.name in ("spam", "mhc"):
            number, columns = ("Figure 3", 2) if source.name == "spam" else ("Figure 4", 4)
            drawn.append(charts.draw_tasks(number, source, shown, directory, columns))
        else:
            number = "Figure 5" if source.name == "movies" else f"Further figure, {source.name}"
            file = "figure5" if source.name == "movies" else f"figure-{source.name}"
            drawn.append(charts.draw_averages(number, source, shown, directory, file))
    if swept:
        drawn.append(charts.draw_sensitivity(swept, directory))
    beside = (draw_overview(whole, directory), draw_tasks(whole, directory))
    return [*drawn, *(one for one in beside if one is not None)]


def sweeps(experiment: Experiment, chosen: Chosen, results: Path) -> list[Sweep]:
    """The curves of Figure 6, read back."""
    found = []
    for curve in experiment.sensitivity(chosen):
        errors = [[read(place(run, results)).error() for run in runs] for _, runs in curve.points]
        values = np.array([value for value, _ in curve.points])
        parts = (curve.source, curve.learner, curve.parameter, dict(curve.fixed))
        found.append(Sweep(*parts, values, np.array(errors)))
    return found


def tuning_table(experiment: Experiment, chosen: Chosen) -> Table:
    """Return the chosen parameters; only those that tuning may move."""
    rows = []
    for source in experiment.sources:
        for learner in experiment.learners:
            moved = LEARNERS[learner].space
            setting = {k: v for k, v in chosen[source.dataset, learner] if k in moved}
            told = ", ".join(
                f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in setting.items()
            )
            rows.append([source.title, title_of(learner), told or "nothing to tune"])
    head = ("data set", "method", "setting")
    notes = ["tuning.csv holds every trial and its error"]
    return Table("Settings", head, mark_best(rows, (None,) * 3), notes)


def tuning_curve(experiment: Experiment, results: Path, path: Path) -> None:
    """Every trial and its macro error on the tuning shuffle."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("dataset", "learner", "parameters", "error_rate"))
        for run in experiment.tuning_runs():
            found = read(place(run, results))
            error = "failed" if found.failed else f"{100 * found.error():.6g}"
            setting = json.dumps(dict(run.parameters))
            writer.writerow((run.dataset, run.learner, setting, error))


def verdict_html(found: Findings) -> str:
    """The first screen: who is ahead of ROMCO, then each claim, data set by data set."""
    titles = [source.title for source in found.measured]
    head = "".join(f"<th>{html.escape(title)}</th>" for title in ("claim", "verdict", *titles))
    rows = []
    for verdict in found.verdicts:
        cells = "".join(f"<td>{_short_html(verdict.lines.get(title, ()))}</td>" for title in titles)
        rows.append(
            f'<tr><td class="text">{html.escape(verdict.claim)}</td>'
            f"<td>{_coloured(verdict.status, verdict.status)}</td>{cells}</tr>"
        )
    told = "".join(f"<li>{html.escape(text)}</li>" for text in found.losses)
    return (
        f"<h2>Verdict</h2><ul>{told}</ul>"
        f'<div class="table"><table class="verdict"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="lead">{html.escape(READING)}</p>'
    )


READING = (
    "A claim holds if it does on every data set for both variants of ROMCO, and does not if it "
    "fails on any; what is neither is undecided. Differences are points of percent of macro error, "
    "ROMCO minus the rival that decides (negative: ROMCO is better), judged by the 95 % interval "
    "over shuffles; x is the rival's time divided by ROMCO's. The full figures stand below."
)


def pages(found: Findings, footer: str, review: Review | None, out: Path) -> dict[str, str]:
    """The report for GitHub, by name of the page; pictures beside it."""
    foot = footer.replace("<code>", "`").replace("</code>", "`")
    overview = next((drawn for drawn in found.figures if drawn[0].stem == "beside"), None)
    made = {
        "tables.md": page_of("Tables", [markdown(table) for table in found.tables]),
        "figures.md": figures_page(found.figures),
        "settings.md": page_of("Settings chosen by tuning", map(markdown, found.tuning)),
        "claims.md": page_of(
            "Claim by claim",
            [
                *(f"- {text}" for text in found.losses),
                markdown(verdict_table(found)),
                markdown(figures_table(found)),
            ],
        ),
    }
    if review is not None:
        results = out / "runs"
        made["fair.md"] = review.page(found.measured, results, out)
        made["reproduction.md"] = page_text(review.study, results, foot_command(foot))
    links = [link for link in LINKS if link[0].removeprefix("../") in made]
    parts = (found.title, found.lead, found.measured, found.verdicts, overview, foot, links)
    return {"README.md": first_page(*parts), **made}


def foot_command(footer: str) -> str:
    """The command that the footer names."""
    return footer.split("`")[1]


def verdict_table(found: Findings) -> Table:
    """Claims and data sets, in short."""
    titles = [source.title for source in found.measured]
    rows = []
    for verdict in found.verdicts:
        lines = [verdict.lines.get(title, ()) for title in titles]
        cells = [", ".join(f"{line.short} ({line.status})" for line in part) for part in lines]
        rows.append([verdict.claim, verdict.status, *cells])
    head = ("claim", "verdict", *titles)
    return Table("Claims of the paper", head, mark_best(rows, (None,) * len(head)), [READING])


def figures_table(found: Findings) -> Table:
    """Claims with every figure behind them."""
    rows = [
        [verdict.claim, title, line.status, line.figures]
        for verdict in found.verdicts
        for title, lines in verdict.lines.items()
        for line in lines
    ]
    head = ("claim", "data set", "verdict", "figures")
    return Table("The verdict in full", head, mark_best(rows, (None,) * 4))


def _short_html(lines: Sequence[Line]) -> str:
    return "<br>".join(_coloured(line.short, line.status) for line in lines)


def _coloured(text: str, status: str) -> str:
    mark = {"holds": "✓", "does not hold": "✗", "undecided": "?"}[status]
    return f'<span class="{KINDS[status]}">{mark} {html.escape(text)}</span>'


def latex(table: Table) -> str:
    """Return a LaTeX tabular with booktabs rules; the best in bold."""
    rows = [[_bold(_tex(cell.text), cell.best) for cell in row] for row in table.rows]
    body = " \\\\\n".join(" & ".join(row) for row in rows)
    notes = " ".join(_tex(note) for note in table.notes)
    return (
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{_tex(table.title)}. {notes}}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}\n\\toprule\n"
        f"{' & '.join(map(_tex, table.head))} \\\\\n\\midrule\n{body} \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def _bold(text: str, best: bool) -> str:
    if best:
        return f"\\textbf{{{text}}}"
    return text


def _tex(text: str) -> str:
    signs = {"\\": r"\textbackslash{}", "±": r"$\pm$", "λ": r"$\lambda$"}
    signs |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"~": r"\textasciitilde{}"}
    signs |= {"<": "$<$", ">": "$>$", "^": r"\textasciicircum{}", "→": r"$\to$"}
    return "".join(signs.get(sign, sign) for sign in text)
