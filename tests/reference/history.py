"""History features, recomputed for each event from all earlier events of its task."""

from math import log1p


def history_features(columns, events, half_lives, number=False, timed=False):
    """Features of the last of ``events`` (task, row, label, time); labels of the others count.

    ``labels`` are in the order in which they appeared in the whole stream.
    """
    *past, (task, row, _, now) = events
    labels = list(dict.fromkeys(label for _, _, label, _ in past if label is not None))
    own = [
        (event, label, time)
        for who, event, label, time in past
        if who == task and label is not None
    ]
    features = {}
    names = [name for name in row if any(name.startswith(f"{column}=") for column in columns)]
    for category in (None, *names):
        column = (
            "task" if category is None else next(c for c in columns if category.startswith(f"{c}="))
        )
        seen = [
            (place, label, time)
            for place, (event, label, time) in enumerate(own, 1)
            if category is None or category in event
        ]
        features |= {
            f"history.{column}.{tail}": value
            for tail, value in _slot(seen, labels, len(own), now, half_lives, number, timed).items()
            if value != 0.0
        }
    return features


def _slot(seen, labels, events, now, half_lives, number, timed):
    if not seen:
        return {"new": 1.0}
    last_place, last_label, last_time = seen[-1]
    found = {"count": log1p(len(seen))} if number else {}
    for label in [] if number else labels:
        found[f"count={label}"] = log1p(sum(one == label for _, one, _ in seen))
    signals = _signals(labels, number)
    for mark, signal in signals.items():
        for life in half_lives:
            weights = [0.5 ** (age / life) for age in range(len(seen) - 1, -1, -1)]
            total = sum(w * signal(label) for w, (_, label, _) in zip(weights, seen, strict=True))
            found[f"mean{life:g}{mark}"] = total / (1.0 + sum(weights))
        found[f"last{mark}"] = (
            2.0 * (signal(last_label) > 0) - 1.0 if _two(labels, number) else signal(last_label)
        )
    found["gap"] = log1p(events - last_place)
    if timed:
        found["time"] = log1p(max(now - last_time, 0.0))
    return found


def _two(labels, number):
    return not number and len(labels) == 2


def _signals(labels, number):
    if number:
        return {"": float}
    if len(labels) == 2:
        return {"": lambda label: 1.0 if label == labels[1] else -1.0}
    if len(labels) == 1:
        return {"": lambda label: 1.0}
    return {f"={one}": lambda label, one=one: float(label == one) for one in labels}
