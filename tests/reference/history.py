"""History features, recomputed for each event from all earlier events."""

from math import exp, log1p

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
    levels = _levels(columns, past, task, names) if columns and not numeric else {}
    features |= levels
    for category in () if numeric else names:
        column = category.partition("=")[0]
        if column == columns[-1]:
            coarser = ("task", *columns)[len(columns) - 1]
            features[f"history.{category}.recent[{tails[coarser][-1:]}]"] = 0.5
            own_level = sum(v for name, v in levels.items() if name.endswith(".level"))
            features[f"history.{category}.own"] = 0.5 * own_level
        else:
            features[f"history.{category}.recent[{tails[column][-2:]}]"] = 0.5
        before = _categories(own[-1][0], columns[:1]) if own and len(columns) > 1 else []
        if before and column == columns[0] and before[0] != category:
            name = f"history.{category} following {before[0]}.recent[{tails['task'][-1]}]"
            features[name] = 0.5
    return {name: value for name, value in features.items() if value != 0.0}


def _categories(row, columns):
    return [name for name in row if any(name.startswith(f"{column}=") for column in columns)]


def _levels(columns, past, task, names):
    """Levels of all tasks and of the event's own slots; a logistic step with each past label."""
    mean, variance = {}, {}

    def slots(who, categories):
        return [(None, c) for c in categories], [(who, c) for c in (*categories, None)]

    for who, event, y in past:
        if y is not None:
            shared, own = slots(who, _categories(event, columns))
            p = 1.0 / (1.0 + exp(-sum(mean.get(slot, 0.0) for slot in shared + own)))
            h, total = p * (1.0 - p), sum(variance.get(slot, 1.0) for slot in shared + own)
            for slot in shared + own:
                v = variance.get(slot, 1.0)
                mean[slot] = mean.get(slot, 0.0) + v * ((y == 1) - p) / (1.0 + h * total)
                v -= v * v * h / (1.0 + h * total)
                variance[slot] = v if slot in shared else min(v + 0.003, 1.0)
    shared, own = slots(task, names)
    common, level = (sum(mean.get(slot, 0.0) for slot in some) for some in (shared, own))
    found = {
        "history.task.all": common,
        "history.task.all.all": common * common,
        "history.task.all.own": common * level,
        "history.task.own.own": level * level,
    }
    for slot in own:
        column = slot[1].partition("=")[0] if slot[1] else "task"
        found[f"history.{column}.level"] = mean.get(slot, 0.0)
    return found


def _slot(seen, classes, events, now, numeric, timed):
    if not seen:
        return {"new": 1.0} if numeric else {}
    last_place, last, last_time = seen[-1]
    slot = {"gap": log1p(events - last_place)}
    if timed:
        slot["time"] = log1p(max(now - last_time, 0.0))

    lives = HALF_LIVES if numeric else HALF_LIVES[1:]

    def mean(life, signal):
        weights = [0.5 ** (age / life) for age in range(len(seen) - 1, -1, -1)]
        total = sum(w * signal(y) for w, (_, y, _) in zip(weights, seen, strict=True))
        return total / (1.0 + sum(weights))

    def add(mark, signal):
        slot.update({f"mean{life:g}{mark}": mean(life, signal) for life in lives})
        if mark or numeric:
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
