"""History features, recomputed for each event from all earlier events."""

from itertools import combinations_with_replacement
from math import log, log1p

from romco.kernels.io.history import HALF_LIVES


def history_features(columns, events, numeric=False, time=None):
    """Features of the last of ``events`` (task, row, label); labels of the others count.

    Labels are classes 0, 1, ..., or numbers; None where a label is not known.
    """
    *past, (task, row, _) = events
    classes = 1 if numeric else 1 + max((y for *_, y in past if y is not None), default=1)
    own = [(event, y) for who, event, y in past if who == task and y is not None]
    now, features = row.get(time, 0.0), {}
    names = _categories(row, columns)
    tails = {}
    for category in (None, *names):
        column = "task" if category is None else category.partition("=")[0]
        seen = [
            (place, y, event.get(time, 0.0))
            for place, (event, y) in enumerate(own, 1)
            if category is None or category in event
        ]
        recent = "".join(str(min(int(y), 2)) for _, y, _ in seen)
        tails[column] = recent
        if not numeric and category is None:
            features[f"history.task.recent[{recent[-3:]}]"] = 1.0
        slot = _slot(seen, classes, len(own), now, numeric, time is not None)
        features |= {f"history.{column}.{tail}": value for tail, value in slot.items()}
    if columns and not numeric:
        features |= _beside_all(columns, past, task, names)
        level = features.get(f"history.{('task', *columns)[len(columns) - 1]}.mean8", 0.0)
        terms = {kind: features[f"history.task.{kind}"] for kind in ("all", "excess")}
        terms["level"] = level
        for one, other in combinations_with_replacement(terms, 2):
            features[f"history.task.{one}.{other}"] = terms[one] * terms[other]
    for category in () if numeric else names:
        column = category.partition("=")[0]
        if column == columns[-1]:
            coarser = ("task", *columns)[len(columns) - 1]
            features[f"history.{category}.recent[{tails[coarser][-1:]}]"] = 0.5
            for level in ("task", *columns[:-1]):
                of = "task.excess" if level == "task" else f"{level}.mean8"
                features[f"history.{category}.{level}"] = 0.5 * features.get(f"history.{of}", 0.0)
        else:
            features[f"history.{category}.recent[{tails[column][-2:]}]"] = 0.5
        before = _categories(own[-1][0], columns[:1]) if own and len(columns) > 1 else []
        if before and column == columns[0] and before[0] != category:
            name = f"history.{category} following {before[0]}.recent[{tails['task'][-1]}]"
            features[name] = 0.5
    return {name: value for name, value in features.items() if value != 0.0}


def _categories(row, columns):
    return [name for name in row if any(name.startswith(f"{column}=") for column in columns)]


def _beside_all(columns, past, task, names):
    """Log-odds in all tasks of an event's categories; how far the task's labels exceeded them."""
    counts, excess, weight = {}, 0.0, 0.0

    def mean(categories):
        found = 0.0
        for category in sorted(categories, key=lambda name: columns.index(name.partition("=")[0])):
            no, yes = counts.get(category, (0, 0))
            found = (yes - no + 4.0 * found) / (yes + no + 4.0)
        return found

    for who, event, y in past:
        if y is not None:
            categories = _categories(event, columns)
            if who == task:
                excess = 0.5**0.125 * excess + (y == 1) - (y == 0) - mean(categories)
                weight = 0.5**0.125 * weight + 1.0
            for category in categories:
                no, yes = counts.get(category, (0, 0))
                counts[category] = no + (y == 0), yes + (y == 1)
    now = mean(names)
    return {
        "history.task.all": log((1.0 + now) / (1.0 - now)),
        "history.task.excess": excess / (1.0 + weight),
    }


def _slot(seen, classes, events, now, numeric, timed):
    if not seen:
        return {"new": 1.0}
    last_place, last, last_time = seen[-1]
    slot = {"gap": log1p(events - last_place)}
    if timed:
        slot["time"] = log1p(max(now - last_time, 0.0))

    def mean(life, signal):
        weights = [0.5 ** (age / life) for age in range(len(seen) - 1, -1, -1)]
        total = sum(w * signal(y) for w, (_, y, _) in zip(weights, seen, strict=True))
        return total / (1.0 + sum(weights))

    def add(mark, signal):
        slot.update({f"mean{life:g}{mark}": mean(life, signal) for life in HALF_LIVES})
        slot[f"last{mark}"] = signal(last)

    if numeric:
        slot["count"] = log1p(len(seen))
        add("", float)
        return slot
    for k in range(classes):
        slot[f"count[{k}]"] = log1p(sum(y == k for _, y, _ in seen))
        if k > 1:
            add(f"[{k}]", lambda y, k=k: float(y == k))
    add("", lambda y: float(y == 1) - float(y == 0))
    return slot
