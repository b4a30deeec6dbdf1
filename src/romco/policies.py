"""Value of a policy from the log of another one: what it would have earned.

A log has, for each choice, the action, its reward, and the probability with which it was drawn.
docs/choosing.md says which estimate to trust when.
"""

import gzip
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from romco.choosing import Chooser
from romco.io.formats import BadRow, OpenFile
from romco.model.names import Id, canonical_name
from romco.typing import Floats

FOLDS = 5
MIN_SAMPLE_SIZE = 50.0  # expected effective size below which intervals mean little
UPPER_TAIL = 0.975  # end of 95 % intervals
TOTAL_TOLERANCE = 1e-4  # other programs log in single precision
MIN_EVENTS = 10
NEEDS_PROBABILITY = (
    "without it nobody can know whether an action did well, or was shown to those who like it"
)
POLICIES = 'give "greedy", "uniform", "always NAME", or a chooser (its file, on the command line)'
OPEN_BANDIT = {"action": "item_id", "reward": "click", "probability": "propensity_score"}


class LoggedChoice(NamedTuple):
    """One line of a log."""

    context: Mapping[str, Any]
    action: Id  # that was chosen
    reward: float
    probability: float  # of the action that was chosen
    probabilities: Mapping[Id, float] | None = None  # of all that were offered, if known
    task: Id | None = None
    offered: Sequence[Id] | None = None  # where probabilities are not known


Policy = Callable[[LoggedChoice, Sequence[Id]], Mapping[Id, float]]


class Estimate(NamedTuple):
    """Mean reward of a choice, with an interval that holds the truth in 95 % of logs."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PolicyValue:
    """Estimates of the mean reward of a policy, by name, and how far to trust them."""

    estimates: dict[str, Estimate]
    events: int
    logged: float  # mean reward of the log itself
    effective_size: float  # expected number of events that count
    clipped: float  # share of weights that were clipped
    warnings: tuple[str, ...]

    def table(self) -> str:
        """Return a line for each estimate."""
        lines = [f"{'the log itself':>14}  {self.logged:.4g}"]
        for name, one in self.estimates.items():
            lines.append(f"{name:>14}  {one.value:.4g}  ({one.low:.4g} to {one.high:.4g})")
        return "\n".join(lines)

    def __str__(self) -> str:
        size = f"{self.events:,} choices, of which {self.effective_size:,.0f} count"
        clipped = f"weights clipped: {self.clipped:.1%}"
        notes = [f"warning: {text}" for text in self.warnings]
        return "\n".join([self.table(), size, clipped, *notes])


def evaluate(
    log: Iterable[LoggedChoice],
    policy: "Policy | Chooser | str" = "greedy",
    *,
    max_weight: float | None = None,
) -> PolicyValue:
    """Estimate what a policy would have earned where the log was made.

    ``policy`` is a function of a logged choice and the actions offered that returns probabilities
    by action; a :class:`romco.Chooser`, as it is now, where 7 and "7" are one name; "uniform";
    "always NAME"; or "greedy", the best action by the rewards of other parts of the log. Weights
    above ``max_weight`` are clipped, which biases IPS, SNIPS and doubly robust estimates.

    Raises ValueError where the log or the policy has no valid probabilities; warns below an
    expected effective sample size of 50.

    >>> rng = np.random.default_rng(0)
    >>> log = []
    >>> for _ in range(500):
    ...     action = "ab"[int(rng.random() < 0.5)]
    ...     reward = float(rng.random() < {"a": 0.2, "b": 0.7}[action])
    ...     log.append(LoggedChoice({}, action, reward, 0.5, {"a": 0.5, "b": 0.5}))
    >>> value = evaluate(log, "always b").estimates["doubly robust"]
    >>> value.low < 0.7 < value.high
    True
    """
    if max_weight is not None and not max_weight > 0.0:
        raise ValueError(f"max_weight must be a positive number; got {max_weight!r}")
    events = list(log)
    actions = _checked_actions(events)
    expected = _expected_rewards(events, actions)
    chosen = _policy_probabilities(events, actions, policy, expected)
    table = _Table(events, chosen, expected, max_weight)
    size = table.effective_size()
    notes = tuple(table.warnings(size))
    for text in notes:
        warnings.warn(text, stacklevel=2)
    logged, clipped = float(table.reward.mean()), float(table.clipped.mean())
    return PolicyValue(table.estimates(size), len(events), logged, size, clipped, notes)


class _Table:
    """A log as arrays over events."""

    def __init__(
        self,
        events: Sequence[LoggedChoice],
        chosen: Sequence[Mapping[Id, float]],
        expected: Sequence[Mapping[Id, float]],
        max_weight: float | None,
    ) -> None:
        most = np.inf if max_weight is None else max_weight
        self.reward = np.array([event.reward for event in events], dtype=np.float64)
        logged = np.array([event.probability for event in events])
        self.of_policy, self.fitted, self.by_model = np.zeros((3, len(events)))
        for t, event in enumerate(events):
            self.of_policy[t] = chosen[t].get(event.action, 0.0)
            self.fitted[t] = expected[t][event.action]
            self.by_model[t] = sum(p * expected[t][action] for action, p in chosen[t].items())
        weight = self.of_policy / logged
        self.clipped = weight > most
        self.weight = np.minimum(weight, most)
        # Expected squared weight of each event, over what might have been drawn.
        self.squares = self.weight**2
        self.unsupported = np.zeros(len(events))
        self.whole = True
        for t, event in enumerate(events):
            if event.probabilities is None:
                self.whole = False
            else:
                law = chosen[t], event.probabilities, most
                self.squares[t], self.unsupported[t] = _expected_square(*law)

    def estimates(self, size: float) -> dict[str, Estimate]:
        """Return all estimates, the one to trust most last."""
        reward, weight, matches = self.reward, self.weight, self.of_policy
        n = len(reward)
        error = reward - self.fitted
        ips = weight * reward
        robust = self.by_model + weight * error
        snips = _ratio(ips.sum(), weight.sum())
        normalised = weight * (reward - snips) / (weight.mean() or 1.0)
        replay = _ratio((matches * reward).sum(), matches.sum())
        spread = _ratio(np.sqrt((matches**2 * (reward - replay) ** 2).sum()), matches.sum())
        deviation = self.by_model.std(ddof=1)
        return {
            "replay": _estimate(replay, spread, matches.sum()),
            "direct": _estimate(self.by_model.mean(), deviation / np.sqrt(n), n),
            "IPS": _estimate(ips.mean(), self._error(ips, reward, 0.0), size),
            "SNIPS": _estimate(snips, self._error(normalised, reward - snips, 0.0), size),
            "doubly robust": _estimate(robust.mean(), self._error(robust, error, deviation), size),
        }

    def _error(self, terms: Floats, residual: Floats, deviation: float) -> float:
        """Return the larger of two standard errors.

        That of the terms, and that of weights as they might have been drawn: rare ones, which a log
        may lack, count there.
        """
        n = len(terms)
        square = np.mean(residual**2)
        if self.weight.any():
            square = max(square, np.average(residual**2, weights=self.weight))
        drawn = self.squares.sum() * square / n**2 + deviation**2 / n
        return float(np.sqrt(max(terms.var(ddof=1) / n, drawn)))

    def effective_size(self) -> float:
        """Return n^2 over the sum of expected squared weights."""
        total = float(self.squares.sum())
        return len(self.reward) ** 2 / total if total > 0.0 else 0.0

    def warnings(self, size: float) -> Iterator[str]:
        """Yield what makes the estimates doubtful."""
        if size < MIN_SAMPLE_SIZE:
            yield (
                f"only {size:.0f} of {len(self.reward):,} choices count for this "
                "policy: log more of what it would choose, with Chooser(floor=0.05), say"
            )
        if self.unsupported.any():
            yield (
                f"{self.unsupported.mean():.1%} of the policy's choices could never be drawn in "
                "the log: nothing is known about their rewards"
            )
        if not self.whole:
            yield (
                "the log has only the probabilities of chosen actions: intervals are too narrow "
                "where weights are rare; log choice.probabilities"
            )


def _ratio(part: float, total: float) -> float:
    return part / total if total > 0.0 else np.nan


def _expected_square(
    chosen: Mapping[Id, float], logged: Mapping[Id, float], most: float
) -> tuple[float, float]:
    """Return the expected squared weight of an event, and what part could not be drawn."""
    square = 0.0
    unsupported = 0.0
    for action, probability in chosen.items():
        drawn = logged.get(action, 0.0)
        if drawn > 0.0:
            square += drawn * min(probability / drawn, most) ** 2
        else:
            unsupported += probability
    return square, unsupported


def _estimate(value: float, error: float, size: float) -> Estimate:
    """Return an interval by Student's t: the error itself is estimated from ``size`` events.

    It has no ends where no event counts: nothing is known then.
    """
    if size == 0.0:
        return Estimate(float(value), -np.inf, np.inf)
    reach = float(stdtrit(max(size - 1.0, 1.0), UPPER_TAIL)) * error
    return Estimate(float(value), float(value - reach), float(value + reach))


def _checked_actions(events: Sequence[LoggedChoice]) -> list[list[Id]]:
    """Return the actions offered in each event; all of the log's where that is not known."""
    for t, event in enumerate(events):
        _check(event, t)
    if len(events) < MIN_EVENTS:
        raise ValueError(f"a log of {len(events)} choices is too short: give at least {MIN_EVENTS}")
    everything = list(dict.fromkeys(event.action for event in events))
    return [list(event.probabilities or event.offered or everything) for event in events]


def _check(event: LoggedChoice, t: int) -> None:
    if not isinstance(event, LoggedChoice):
        raise ValueError(
            f"a log has a LoggedChoice for each choice; got {event!r:.60}: read_log reads files"
        )
    if not _is_number(event.probability):
        raise ValueError(
            f"choice {t} of the log has no probability, but {event.probability!r:.60}: "
            f"{NEEDS_PROBABILITY}; log choice.probability"
        )
    if not 0.0 < event.probability <= 1.0:
        raise ValueError(f"choice {t}: a probability is above 0, up to 1; got {event.probability}")
    if not _is_number(event.reward):
        raise ValueError(f"choice {t}: the reward is {event.reward!r:.60}: drop the line")
    if event.probabilities is not None:
        if event.action not in event.probabilities:
            raise ValueError(
                f"choice {t}: {event.action!r:.60} is not among the actions with a probability"
            )
        _check_total(event.probabilities, f"choice {t}")
        if abs(event.probabilities[event.action] - event.probability) > TOTAL_TOLERANCE:
            raise ValueError(f"choice {t}: the action has two probabilities")
    elif event.offered is not None and event.action not in event.offered:
        raise ValueError(f"choice {t}: {event.action!r:.60} is not among the actions offered")


def _check_total(probabilities: Mapping[Id, float], where: str) -> None:
    if not isinstance(probabilities, Mapping):
        raise ValueError(f"{where}: expected probabilities by action; got {probabilities!r:.60}")
    values = list(probabilities.values())
    valid = all(map(_is_number, values)) and min(values, default=0.0) >= 0.0
    if not valid or abs(sum(values) - 1.0) > TOTAL_TOLERANCE:
        raise ValueError(f"{where}: probabilities must be 0 or more and add up to 1; got {values}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number | np.bool_) and isfinite(value)


def _expected_rewards(
    events: Sequence[LoggedChoice], actions: Sequence[Sequence[Id]]
) -> list[dict[Id, float]]:
    """Return the expected reward of each action offered, learned from the other folds."""
    kind: Literal["yes/no", "number"] = "number"
    if {event.reward for event in events} <= {0.0, 1.0}:
        kind = "yes/no"
    expected: list[dict[Id, float]] = [{} for _ in events]
    for fold in range(FOLDS):
        model = Chooser(kind, pending=1)
        for t, event in enumerate(events):
            if t % FOLDS != fold:
                model.choose(event.context, task=event.task, actions=[event.action], id=t)
                model.reward(t, event.reward)
        for t in range(fold, len(events), FOLDS):
            event = events[t]
            offered = actions[t]
            expected[t] = model.expect(event.context, task=event.task, actions=offered)
    return expected


def _policy_probabilities(
    events: Sequence[LoggedChoice],
    actions: Sequence[Sequence[Id]],
    policy: "Policy | Chooser | str",
    expected: Sequence[Mapping[Id, float]],
) -> list[dict[Id, float]]:
    """Return the policy's probabilities of the actions offered in each event."""
    if policy == "greedy":
        return [{max(one, key=one.__getitem__): 1.0} for one in expected]
    decide = _as_function(policy)
    chosen: list[dict[Id, float]] = []
    for t, event in enumerate(events):
        probabilities = decide(event, actions[t])
        _check_total(probabilities, f"the policy's choice {t}")
        possible = {a: p for a, p in probabilities.items() if p > 0.0}
        for action in possible:
            if action not in actions[t]:
                raise ValueError(f"choice {t}: {action!r} is not among the actions offered")
        chosen.append(possible)
    return chosen


def _as_function(policy: "Policy | Chooser | str") -> Policy:
    if isinstance(policy, Chooser):
        return _as_it_is(policy)
    if policy == "uniform":
        return lambda event, actions: dict.fromkeys(actions, 1.0 / len(actions))
    if isinstance(policy, str):
        word, _, name = policy.partition(" ")
        if word != "always" or not name:
            raise ValueError(f"no policy {policy!r}: {POLICIES}")
        wanted = canonical_name(name)
        return lambda event, actions: {
            next((a for a in actions if canonical_name(a) == wanted), name): 1.0
        }
    if not callable(policy):
        raise ValueError(f"no policy {policy!r:.60}: {POLICIES}")
    return policy


def _as_it_is(chooser: Chooser) -> Policy:
    """Return the policy of a chooser, whose names may be numbers where those of a file are text."""
    known_actions = _by_name(chooser.actions)
    known_people = _by_name(chooser.tasks)

    def decide(event: LoggedChoice, actions: Sequence[Id]) -> Mapping[Id, float]:
        person = known_people.get(canonical_name(event.task), event.task)
        names = [known_actions.get(canonical_name(action), action) for action in actions]
        if len(set(names)) < len(names):  # the log tells 7 from "7"
            names = list(actions)
        law = chooser.probabilities(event.context, task=person, actions=names)
        return dict(zip(actions, map(law.__getitem__, names), strict=True))

    return decide


def _by_name(names: Sequence[Id]) -> dict[Id, Id]:
    return dict(zip(map(canonical_name, names), names, strict=True))


# Logs in files


def read_log(
    path: str | Path,
    *,
    action: str = "action",
    reward: str = "reward",
    probability: str = "probability",
    task: str | None = None,
    ignore: Sequence[str] = (),
    format: str | None = None,
) -> list[LoggedChoice]:
    """Read a log: CSV, JSON lines, Parquet, or one of Vowpal Wabbit's.

    Those are "vw" and "dsjson", also by the end of the name. The other arguments name columns; all
    further columns are the context, except "id". A reward may be "true" or "false". A cell of
    ``probability`` is the chosen action's, or a JSON object with those of all actions.
    ``format="open-bandit"`` reads the columns of the Open Bandit Dataset.
    """
    kind = format or Path(str(path).removesuffix(".gz")).suffix[1:]
    if kind in VOWPAL_WABBIT:
        return list(VOWPAL_WABBIT[kind](_text_of(path), str(path)))
    named = list(ignore)  # by the caller, so they must be there
    if format == "open-bandit":
        action, reward, probability = OPEN_BANDIT.values()
        ignore = [*ignore, "", "timestamp"]
        format = None
    wanted = [column for column in (action, reward, probability, task) if column is not None]
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"a column has one role; got {', '.join(map(repr, wanted))}")
    needed = [column for column in [*wanted, *named] if column != probability]
    log: list[LoggedChoice] = []
    with OpenFile(path, format) as file:
        typed = file.format.delimiter is None
        for row in file.format.read(file.stream, file.name, needed):
            if isinstance(row, BadRow):
                raise row
            if row is not None:
                line, cells = row
                where = f"{file.name}, line {line}"
                log.append(_logged(dict(cells), where, wanted, ["id", *ignore], typed))
    return log


def _text_of(path: str | Path) -> str:
    content = Path(path).read_bytes()
    try:
        if str(path).endswith(".gz"):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from None


def _logged(
    cells: dict[str, Any], where: str, roles: Sequence[str], ignore: Sequence[str], typed: bool
) -> LoggedChoice:
    action, reward, probability, *task = roles
    for column in (action, reward, probability):
        if cells.get(column) in (None, ""):
            raise ValueError(
                f"{where}: column {column!r} is empty or not there; a log needs the action, its "
                f"reward and the probability with which it was drawn: {NEEDS_PROBABILITY}"
            )
    chosen = cells.pop(action)
    earned = _number(canonical_name(cells.pop(reward)), where, reward)
    drawn = cells.pop(probability)
    person = cells.pop(task[0]) if task else None
    if isinstance(drawn, str) and drawn.lstrip().startswith("{"):
        try:
            drawn = json.loads(drawn)
        except ValueError as error:
            raise ValueError(f"{where}, column {probability!r}: {error}") from None
    probabilities = None
    if isinstance(drawn, Mapping):
        probabilities = {name: _number(p, where, probability) for name, p in drawn.items()}
        chosen = str(chosen)
        if chosen not in probabilities:
            raise ValueError(f"{where}, column {probability!r}: no probability of {chosen!r:.60}")
        drawn = probabilities[chosen]
    known = {name: cell for name, cell in cells.items() if cell not in (None, "")}
    context = {name: _cell(cell, typed) for name, cell in known.items() if name not in ignore}
    p = _number(drawn, where, probability)
    return LoggedChoice(context, chosen, earned, p, probabilities, person)


def _cell(cell: Any, typed: bool) -> Any:
    """Return a cell as a number or text; where cells have no types, text may spell a number."""
    if typed and isinstance(cell, str):
        return cell
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return str(cell)
    if isfinite(value):
        return value
    return None


def _number(cell: Any, where: str, column: str) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise ValueError(f"{where}, column {column!r}: {cell!r} is no number") from None


_LABEL = re.compile(r"^(\d+):(-?[\d.eE+-]+):([\d.eE+-]+)(?:\s|$)")


def _vowpal_text(text: str, name: str) -> Iterator[LoggedChoice]:
    """Yield the choices of lines ``action:cost:probability | features``; a reward is -cost.

    Blocks of lines, with or without a first line ``shared``, have one line for each action; the
    chosen one has the label.
    """
    line = 1
    for block in re.split(r"\n[ \t]*\n", text.strip("\n") + "\n"):
        lines = [one for one in block.splitlines() if one.strip()]
        if len(lines) > 1 and _is_multiline(lines):
            yield _vowpal_block(lines, f"{name}, line {line}")
        else:
            for k, one in enumerate(lines):
                where = f"{name}, line {line + k}"
                action, reward, probability = _vowpal_label(one, where)
                yield LoggedChoice(_vowpal_features(one, where), action, reward, probability)
        line += block.count("\n") + 2


def _is_multiline(lines: Sequence[str]) -> bool:
    return lines[0].startswith("shared") or sum(bool(_LABEL.match(one)) for one in lines) == 1


def _vowpal_block(lines: Sequence[str], where: str) -> LoggedChoice:
    context: dict[str, Any] = {}
    if lines[0].startswith("shared"):
        context = _vowpal_features(lines[0], where)
        lines = lines[1:]
    names = [one.partition("|")[2].strip() for one in lines]
    chosen = [k for k, one in enumerate(lines) if _LABEL.match(one)]
    if len(chosen) != 1:
        raise ValueError(
            f"{where}: {len(chosen)} lines have action:cost:probability, not one: drop the block"
        )
    name = names[chosen[0]]
    _, reward, probability = _vowpal_label(lines[chosen[0]], where)
    if names.count(name) > 1:
        raise ValueError(f"{where}: two actions have the same features: the chosen one is unknown")
    offered = list(dict.fromkeys(names))
    return LoggedChoice(context, name, reward, probability, offered=offered)


def _vowpal_label(line: str, where: str) -> tuple[str, float, float]:
    """Return action, reward and probability."""
    match = _LABEL.match(line)
    if match is None:
        raise ValueError(f"{where}: expected action:cost:probability | features; got {line!r:.60}")
    action, cost, probability = match.groups()
    return action, -_number(cost, where, "cost"), _number(probability, where, "probability")


def _vowpal_features(line: str, where: str) -> dict[str, float]:
    """Return values by "namespace^feature"."""
    features: dict[str, float] = {}
    for part in line.split("|")[1:]:
        space = ""
        words = part.split()
        if words and not part[:1].isspace():
            space, *words = words
        for word in words:
            name, _, value = word.partition(":")
            key = name
            if space:
                key = f"{space}^{name}"
            features[key] = _number(value or 1.0, where, key)
    return features


def _vowpal_json(text: str, name: str) -> Iterator[LoggedChoice]:
    """Yield the choices of JSON lines with the probabilities ``p`` of the actions ``a``.

    An action is named by its ``_tag``, or by its features. Lines without a context are left out.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}, line {number}"
        try:
            event = json.loads(line) if line.strip() else {}
            if "c" not in event:
                continue
            context = {key: cell for key, cell in event["c"].items() if key != "_multi"}
            offered = event["c"]["_multi"]
            names = {k: one.get("_tag") or _words(_flat(one)) for k, one in enumerate(offered, 1)}
            probabilities = dict.fromkeys(names.values(), 0.0)
            for place, probability in zip(event["a"], event["p"], strict=True):
                probabilities[names[place]] += probability
            chosen = names[event["_label_Action"]]
            reward = -float(event["_label_cost"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{where}: this is no choice of a dsjson log: {error!r}") from None
        if event.get("pdrop"):
            raise ValueError(f"{where}: choices were dropped (pdrop): the log is no fair sample")
        law = probabilities[chosen], probabilities
        yield LoggedChoice(_flat(context), chosen, reward, *law)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers and texts by "namespace^feature"."""
    features: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, list):
            value = {str(k): one for k, one in enumerate(value)}
        if isinstance(value, Mapping):
            features |= {f"{key}^{name}": cell for name, cell in _flat(value).items()}
        elif value is not None and not key.startswith("_"):
            features[key] = value
    return features


def _words(features: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in features.items())


VOWPAL_WABBIT = {"vw": _vowpal_text, "dsjson": _vowpal_json}
