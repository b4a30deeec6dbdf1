"""SQL views that predict: `romco.learners.frozen`'s formula, a step after the other.

Their text does not depend on weights, only on which inputs and classes there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import pi, sqrt

import numpy as np

from romco.exporting.tables import ModelTables, PartTables
from romco.learners.frozen import (
    KNOTS,
    LINE,
    MISSING_IF_ZERO,
    SCORE,
    SCORE_STEPS,
    ZERO_IF_MISSING,
    Lane,
)

VIEWS = ("romco_prediction", "romco_probability", "romco_value")  # each reads those after it
MAX_UNION = 250  # queries that SQLite surely joins
LARGEST_LOG_ODDS = 700  # of which engines can take the exponential
TINY = 1e-100  # below which a number is 0: where a product underflows, PostgreSQL gives up


class Lanes:
    """Names of the lanes that any part has, by table, such as ``weight_3``."""

    def __init__(self, parts: Sequence[PartTables]) -> None:
        predictors = [part.predictor for part in parts]
        self.features = names_of(part.lanes for part in parts)
        self.tasks = names_of(one.tasks.lanes for one in predictors)
        self.pairs = names_of(one.pairs.lanes for one in predictors)
        self.of_entries = list(dict.fromkeys((*self.features, *self.pairs)))
        self.n_inputs = max(len(one.inputs) for one in predictors)
        covariances = chain.from_iterable(part.covariances for part in parts)
        self.covariance_inputs = sorted({one.input for one in covariances})
        self.covariances = list(map("variance_{}".format, self.covariance_inputs))
        self.n_stacked = 0
        stacked_pairs = set[tuple[int, int]]()
        for one in predictors:  # that of a softmax has no covariance
            self.n_stacked = max(self.n_stacked, len(one.covariance))
            for k, j in np.argwhere(np.triu(one.covariance)).tolist():
                stacked_pairs.add((k, j))
        self.stacked_pairs = sorted(stacked_pairs)


def names_of(tables: Iterable[tuple[Lane, ...]]) -> list[str]:
    """Return the names of lanes, each once."""
    names = [f"{lane.part}_{lane.input}" for lane in chain.from_iterable(tables)]
    return list(dict.fromkeys(names))


def views_of(tables: ModelTables, lanes: Lanes) -> list[str]:
    """Return the statements that make all views of a model."""
    values = _values_view(tables)
    steps = {  # to the inputs of each part's stacking model, and to its margin
        **UNIT_STEPS,
        **FUNCTION_STEPS,
        "event": EVENT_STEP,
        "sums": _sums_step(lanes),
        "covariances": _covariances_step(lanes),
        "totals": _totals_step(lanes),
        "z": _inputs_step(lanes),
        "margins": _margins_step(lanes),
    }
    if tables.many is not None:
        steps["softmax_input"] = _softmax_inputs_step(lanes)
        steps |= COUPLING_STEPS | SOFTMAX_STEPS
        return [values, _view("romco_probability", steps, PROBABILITIES), MOST_PROBABLE]
    result = "SELECT id, margin AS prediction FROM margins"
    if tables.classes:
        result = LABELS
    return [values, _view("romco_prediction", steps, result)]


def quoted(name: str) -> str:
    """Return a name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _values_view(tables: ModelTables) -> str:
    """Return the view of the events' features and their values."""
    parts = []
    for name, kind in tables.columns.items():
        cell = f"e.{quoted(name)}"
        if kind == "number":
            value, found = f"CAST({cell} AS DOUBLE PRECISION)", _literal(name)
            there = f"abs({cell}) <= 1e60 AND CAST({cell} AS TEXT) <> ''"  # as SQLite imports gaps
        else:
            value, found = "1.0", f"{_literal(name + '=')} || {cell}"
            there = f"{cell} IS NOT NULL"
        selected = f"    SELECT e.id, {found} AS name, {value} AS x"
        parts.append(f"{selected} FROM romco_event e WHERE {there}")
    listed = []
    for begin in range(0, len(parts), MAX_UNION):
        some = _union(parts[begin : begin + MAX_UNION])
        listed.append(f"    SELECT * FROM (\n{some}) v{begin}")
    return f"CREATE VIEW romco_value AS\n{_union(listed)};\n"


def _union(queries: Iterable[str]) -> str:
    return "\n    UNION ALL\n".join(queries)


def _view(name: str, steps: Mapping[str, str], result: str) -> str:
    """Return a view of steps.

    All are materialized: engines that inline them repeat each step wherever it is used. SQLite
    keeps the order of tables where they are crossed. PostgreSQL takes steps for short ones, and may
    compare all rows of two that are joined: where it can be, they are united and added up instead.
    DuckDB gives the columns of a step that unites two queries the types of the first.
    """
    defined = []
    for step, query in steps.items():
        kept = "" if step == RECURSIVE_STEP else " MATERIALIZED"
        defined.append(f"{step} AS{kept} ({query})")
    return f"CREATE VIEW {name} AS\nWITH RECURSIVE " + ",\n".join(defined) + f"\n{result};\n"


def _clipped(value: str, limit: str) -> str:
    above, below = f"WHEN {value} > {limit} THEN {limit}", f"WHEN {value} < -{limit} THEN -{limit}"
    return f"CASE {above} {below} ELSE {value} END"


def _exponential(value: str) -> str:
    """Return an exponential that does not underflow, which is an error in PostgreSQL."""
    return f"CASE WHEN {value} > -{LARGEST_LOG_ODDS}.0 THEN exp({value}) ELSE 0.0 END"


UNIT_STEPS = {
    "scaled": """
    SELECT v.id, f.part, f.feature, v.x, CASE
        WHEN abs(v.x) < 1e-150 THEN f.zero
        WHEN v.x - f.centre > f.reach THEN f.factor * f.reach
        WHEN v.x - f.centre < -f.reach THEN -f.factor * f.reach
        ELSE f.factor * (v.x - f.centre) END AS u
    FROM romco_value v JOIN romco_feature f ON f.name = v.name
""",
    "unit": f"""
    SELECT id, part, feature, x, CASE WHEN abs(u) < {TINY} THEN 0.0 ELSE u END AS u FROM scaled
""",
}
EVENT_STEP = """
    SELECT e.id, coalesce(t.task, n.new_task) AS task
    FROM romco_event e CROSS JOIN romco_number n
    LEFT JOIN romco_task_name t
    ON t.name = CASE lower(e.task) WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE e.task END
"""
LABELS = f"""SELECT x.id, x.margin,
       1.0 / (1.0 + exp(-({_clipped("x.z", f"{LARGEST_LOG_ODDS}.0")}))) AS probability, c.label
FROM (
    SELECT m.id, m.margin, m.margin * p.calibration AS z
    FROM margins m JOIN romco_part p ON p.part = m.part
) x JOIN romco_class c ON c.class = CASE WHEN x.margin >= 0.0 THEN 1 ELSE 0 END"""


def _wave(table: str, order: str) -> str:
    """Return the wave of a rank, or the line or score that takes its place."""
    wave = f"{sqrt(2.0)!r} * cos({pi!r} * {order} * {table}.r)"
    return f"""CASE {order} WHEN {LINE} THEN {table}.line
        WHEN {SCORE} THEN {table}.score ELSE {wave} END"""


FUNCTION_STEPS = {
    "waved": f"""
    SELECT e.id, w.part, w.place, {_clipped("coalesce(u.u, 0.0)", "8.0")} AS line,
           CASE WHEN u.x IS NULL AND w.kind = {ZERO_IF_MISSING} THEN 0.0
                WHEN u.x <> 0.0 OR w.kind <> {MISSING_IF_ZERO} THEN u.x END AS x
    FROM romco_event e CROSS JOIN romco_wave w
    LEFT JOIN unit u ON u.id = e.id AND u.part = w.part AND u.feature = w.feature
""",
    "ranked": """
    SELECT v.id, v.part, v.place, v.x, v.line,
           sum(CASE WHEN k.knot < v.x THEN 1.0 ELSE 0.0 END) AS below,
           sum(CASE WHEN k.knot <= v.x THEN 1.0 ELSE 0.0 END) AS upto,
           max(CASE WHEN k.knot < v.x THEN k.knot END) AS lower_knot,
           min(CASE WHEN k.knot > v.x THEN k.knot END) AS upper_knot
    FROM waved v JOIN romco_knot k ON k.part = v.part AND k.place = v.place
    WHERE v.x IS NOT NULL
    GROUP BY v.id, v.part, v.place, v.x, v.line
""",
    "ranks": f"""
    SELECT id, part, place, line, CASE
        WHEN upto > below OR lower_knot IS NULL OR upper_knot IS NULL THEN 0.5 * (below + upto)
        ELSE below - 0.5 + (x - lower_knot) / (upper_knot - lower_knot) END / {KNOTS}.0 AS r
    FROM ranked
""",
    "waves": f"""
    SELECT id, part, place, line, r,
           q.score + ({SCORE_STEPS}.0 * r - q.step) * (q.next_score - q.score) AS score
    FROM ranks JOIN romco_quantile q
    ON q.step = CASE WHEN r < 1.0 THEN floor({SCORE_STEPS}.0 * r) ELSE {SCORE_STEPS - 1} END
""",
    "factor": f"""
    SELECT w.id, f.part, f.feature, {_wave("w", "f.first_order")} AS first_wave,
           CASE WHEN f.second < 0 THEN CAST(1.0 AS DOUBLE PRECISION) END AS second_wave
    FROM waves w JOIN romco_function f ON f.part = w.part AND f.first = w.place
    UNION ALL
    SELECT w.id, f.part, f.feature, NULL, {_wave("w", "f.second_order")}
    FROM waves w JOIN romco_function f ON f.part = w.part AND f.second = w.place
""",
    "product": """
    SELECT w.id, w.part, w.feature, f.scale * w.first_wave * w.second_wave AS u
    FROM (
        SELECT id, part, feature, max(first_wave) AS first_wave, max(second_wave) AS second_wave
        FROM factor GROUP BY id, part, feature
    ) w JOIN romco_function f ON f.part = w.part AND f.feature = w.feature
    WHERE w.first_wave IS NOT NULL AND w.second_wave IS NOT NULL
""",
    "entry": """
    SELECT id, part, feature, u FROM unit
    UNION ALL
    SELECT e.id, p.part, n.constant, 1.0
    FROM romco_event e CROSS JOIN romco_number n CROSS JOIN romco_part p
    UNION ALL
    SELECT id, part, feature, sum(u) FROM (
        SELECT p.id, p.part, r.feature, r.value * p.u AS u
        FROM product p JOIN romco_rotation r ON r.part = p.part AND r.source = p.feature
        UNION ALL
        SELECT e.id, f.part, f.feature, f.shift FROM romco_event e CROSS JOIN romco_function f
    ) x GROUP BY id, part, feature
""",
}


def _sums_step(lanes: Lanes) -> str:
    """Return the step that adds up weights and variances of features and pairs, by lane."""
    columns = ["u.id", "u.part", "e.task"]
    for lane in lanes.of_entries:
        terms = [f"f.{lane}"] * (lane in lanes.features)
        terms += [f"coalesce(p.{lane}, 0.0)"] * (lane in lanes.pairs)
        power = "u.u" if lane.startswith("weight") else "u.u * u.u"
        columns.append(f"sum(({' + '.join(terms)}) * {power}) AS {lane}")
    return f"""
    SELECT {_listed(columns)}
    FROM entry u JOIN event e ON e.id = u.id
    JOIN romco_feature f ON f.part = u.part AND f.feature = u.feature
    LEFT JOIN romco_pair p ON p.task = e.task AND p.part = u.part AND p.feature = u.feature
    GROUP BY u.id, u.part, e.task
"""


def _covariances_step(lanes: Lanes) -> str:
    """Return the step that adds up what covariances of features add to variances."""
    columns = ["a.id", "a.part"]
    for lane in lanes.covariances:
        columns.append(f"sum(v.{lane} * a.u * b.u) AS {lane}")
    return f"""
    SELECT {_listed(columns)}
    FROM entry a CROSS JOIN romco_covariance v CROSS JOIN entry b
    WHERE v.part = a.part AND v.first = a.feature
    AND b.id = a.id AND b.part = a.part AND b.feature = v.second
    GROUP BY a.id, a.part
"""


def _totals_step(lanes: Lanes) -> str:
    """Return the step that adds up sums and covariances."""
    own, others, totals = [], [], ["id", "part", "max(task) AS task"]
    for lane in dict.fromkeys((*lanes.of_entries, *lanes.covariances)):
        own.append(lane if lane in lanes.of_entries else "0.0")
        others.append(lane if lane in lanes.covariances else "0.0")
        totals.append(f"sum({lane}) AS {lane}")
    return f"""
    SELECT {_listed(totals)} FROM (
        SELECT {_listed(["id", "part", "task", *own])} FROM sums
        UNION ALL SELECT {_listed(["id", "part", "-1", *others])} FROM covariances
    ) x GROUP BY id, part
"""


def _inputs_step(lanes: Lanes) -> str:
    """Return the step that computes the inputs of the stacking models, a column each."""
    summed = {*lanes.of_entries, *lanes.covariances}
    columns = ["s.id", "s.part"]
    for k in range(lanes.n_inputs):
        terms = {}
        for lane in (f"weight_{k}", f"variance_{k}"):
            found = [f"t.{lane}"] * (lane in lanes.tasks) + [f"s.{lane}"] * (lane in summed)
            terms[lane] = " + ".join(found or ["0.0"])
        factor = f"t.factor_{k} * " if f"factor_{k}" in lanes.tasks else ""
        moderated = _moderated(f"({terms[f'weight_{k}']})", terms[f"variance_{k}"])
        columns.append(f"{factor}{moderated} AS z_{k}")
    return f"""
    SELECT {_listed(columns)}
    FROM totals s CROSS JOIN romco_task t WHERE t.task = s.task AND t.part = s.part
"""


def _margins_step(lanes: Lanes) -> str:
    """Return the step that computes the margins of stacking models with covariances."""
    mean, variance = ["0.0"], ["0.0"]
    for k in range(lanes.n_stacked):
        mean.append(f"s.weight_{k} * z.z_{k}")
    for k, j in lanes.stacked_pairs:
        variance.append(f"s.covariance_{k}_{j} * z.z_{k} * z.z_{j}")
    margin = _moderated(f"({' + '.join(mean)})", " + ".join(variance))
    return f"""
    SELECT z.id, z.part, {margin} AS margin FROM z JOIN romco_stacking s ON s.part = z.part
"""


def _moderated(mean: str, variance: str) -> str:
    """Return log-odds shrunk by their variance."""
    shrunk = f"1.0 + {pi / 8.0!r} * ({variance})"
    return f"{mean} / sqrt(CASE WHEN {shrunk} > 1.0 THEN {shrunk} ELSE 1.0 END)"


def _listed(columns: list[str]) -> str:
    return ",\n           ".join(columns)


# More than two classes


def _softmax_inputs_step(lanes: Lanes) -> str:
    """Return the step with a row for each input of the softmax."""
    cases = map("WHEN {0} THEN z.z_{0}".format, range(lanes.n_inputs))
    return f"""
    SELECT z.id, i.class, i.weight, CASE i.input {" ".join(cases)} END AS z
    FROM z CROSS JOIN romco_input i WHERE i.part = z.part
"""


def _normalised(table: str, name: str) -> dict[str, str]:
    """Return the steps that make scores log-probabilities: less their log-sum."""
    total = f"sum({_exponential('behind')}) OVER (PARTITION BY id)"
    return {
        f"{name}_behind": f"""
    SELECT id, class, score - max(score) OVER (PARTITION BY id) AS behind FROM {table}
""",
        name: f"SELECT id, class, behind - ln({total}) AS log_probability FROM {name}_behind",
    }


RECURSIVE_STEP = "contest"  # the best class so far, and the class it was compared with last
COUPLING_STEPS = {
    "log_odds": f"""
    SELECT m.id, m.part, {_clipped("(p.calibration * m.margin)", "500.0")} AS z
    FROM margins m JOIN romco_part p ON p.part = m.part
""",
    "odds": """
    SELECT o.id, c.class, c.other, c.sign * o.z AS z
    FROM log_odds o JOIN romco_class_pair c ON c.part = o.part
""",
    RECURSIVE_STEP: """
    SELECT e.id, c.class, c.class AS best
    FROM romco_event e CROSS JOIN romco_class c WHERE c.class = 0
    UNION ALL
    SELECT b.id, o.class, CASE WHEN o.z > 0.0 THEN o.class ELSE b.best END
    FROM contest b JOIN odds o ON o.id = b.id AND o.class = b.class + 1 AND o.other = b.best
""",
    "leader": """
    SELECT id, best FROM contest WHERE class = (SELECT max(class) FROM romco_class)
""",
    "compared": """
    SELECT o.id, o.class, o.other, o.z, l.best,
           max(CASE WHEN o.other = l.best AND o.z > -4.0 THEN 1 ELSE 0 END)
               OVER (PARTITION BY o.id, o.class) AS is_close,
           max(CASE WHEN o.class = l.best AND o.z < 4.0 THEN 1 ELSE 0 END)
               OVER (PARTITION BY o.id, o.other) AS other_is_close
    FROM odds o JOIN leader l ON l.id = o.id
""",
    "votes": """
    SELECT c.id, c.class, -ln(1.0 + sum(exp(-c.z))) AS score
    FROM compared c
    WHERE c.class = c.best OR c.other = c.best OR (c.is_close = 1 AND c.other_is_close = 1)
    GROUP BY c.id, c.class
""",
}
SOFTMAX_STEPS = {
    "own_group": """
    SELECT e.id, c.class, CASE WHEN g.task IS NULL THEN n.new_task ELSE g.task END AS task
    FROM event e CROSS JOIN romco_class c CROSS JOIN romco_number n
    LEFT JOIN romco_group g ON g.task = e.task AND g.class = c.class
""",
    "distance": """
    SELECT h.id, h.class, h.task, m.line, coalesce(p.u, 0.0) - m.mean AS off
    FROM own_group h JOIN romco_mean m ON m.task = h.task AND m.class = h.class
    JOIN romco_line l ON l.line = m.line
    LEFT JOIN product p ON p.id = h.id AND p.part = l.part AND p.feature = l.feature
""",
    "turned": """
    SELECT a.id, a.class, a.task, d.discriminant, d.dimension, sum(d.value * a.off) AS off
    FROM distance a JOIN romco_matrix d ON d.class = a.class AND d.line = a.line
    GROUP BY a.id, a.class, a.task, d.discriminant, d.dimension
""",
    "squared": """
    SELECT id, class, task, discriminant, sum(square) AS far FROM (
        SELECT id, class, task, discriminant, off * off AS square FROM turned
        UNION ALL
        SELECT h.id, h.class, h.task, d.discriminant, 0.0
        FROM own_group h JOIN romco_discriminant d ON d.class = h.class
    ) x GROUP BY id, class, task, discriminant
""",
    "tails": """
    SELECT s.id, s.class, d.discriminant, d.weight, d.events, d.size, d.constant_term, g.spread,
           s.far / g.spread / d.events AS x
    FROM squared s JOIN romco_group g ON g.task = s.task AND g.class = s.class
    JOIN romco_discriminant d ON d.class = s.class AND d.discriminant = s.discriminant
""",
    "densities": """
    SELECT id, class, discriminant, weight, -0.5 * size * ln(spread) - constant_term
           - 0.5 * (events + size) * CASE WHEN 1.0 + x = 1.0 THEN x
             ELSE ln(1.0 + x) * x / ((1.0 + x) - 1.0) END AS log_density
    FROM tails
""",
    "densities_behind": """
    SELECT id, class, weight,
           log_density - max(log_density) OVER (PARTITION BY id, discriminant) AS behind
    FROM densities
""",
    "terms": f"""
    SELECT id, class, weight * ({_clipped("z", "50.0")}) AS term FROM softmax_input
    UNION ALL
    SELECT h.id, h.class, g.level
    FROM own_group h JOIN romco_group g ON g.task = h.task AND g.class = h.class
    UNION ALL
    SELECT id, class, weight * CASE WHEN behind > -30.0 THEN behind ELSE -30.0 END
    FROM densities_behind
""",
    "scores": "SELECT id, class, sum(term) AS score FROM terms GROUP BY id, class",
    "weighted": """
    SELECT id, class, weight_of_pairs * score AS score
    FROM votes CROSS JOIN romco_coupling
    UNION ALL
    SELECT id, class, weight_of_softmax * score
    FROM scores CROSS JOIN romco_coupling
""",
    "stacked": "SELECT id, class, sum(score) AS score FROM weighted GROUP BY id, class",
    **_normalised("stacked", "classes"),
}


PROBABILITIES = f"""SELECT p.id, c.class, c.label,
       {_exponential("p.log_probability")} AS probability
FROM classes p JOIN romco_class c ON c.class = p.class"""
MOST_PROBABLE = """CREATE VIEW romco_prediction AS
SELECT id, probability, label FROM (
    SELECT id, probability, label,
           row_number() OVER (PARTITION BY id ORDER BY probability DESC, class DESC) AS place
    FROM romco_probability
) x WHERE place = 1;
"""
