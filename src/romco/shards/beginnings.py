"""The first rows of a stream are learned by one worker, for all shards.

At first shards meet every few events, and a message to a worker costs more than these. So where
shards are elsewhere, one of the workers leads shards of its own through the first rows, in its
process, and what they became is what all begin with. It is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

from romco.model import Model
from romco.model.features import features_from_json
from romco.shards import states
from romco.shards.coordinators import Coordinator
from romco.shards.packing import pack, unpack
from romco.shards.partitions import Files
from romco.shards.periods import Tally, periods
from romco.shards.schedules import Schedule
from romco.shards.shard import Recipe

EARLY = 1000  # rows of each shard: later ones cost more than a message
MOST = 10_000  # of all: one worker holds the tasks of so many


def begin_early(leader: Coordinator, files: Files) -> Tally | None:
    """Let one worker learn the first rows, where that is the better way; gives what it counted."""
    rows = min(EARLY * leader.n, MOST)
    if leader.engine.here is not None or leader.n == 1 or not leader.new or not rows:
        return None
    given = files, leader.schedule, leader.recipe, rows
    (front, at, news, tally), starts = leader.engine.elsewhere(lead, given, leader.n)
    leader.take_up(states.Begun(Model.from_state(unpack(front)), starts, at, news))
    found: Tally = tally
    return found


def lead(files: Files, schedule: Schedule, recipe: Recipe, rows: int) -> list[Any]:
    """Lead shards through the first rows, up to a barrier; gives what they share, then each."""
    leader = Coordinator(schedule, _new(files, schedule, recipe), "serial")
    tally, steps = Tally(), periods(leader, files, Tally())
    while leader.place < rows and not tally.ended:
        tally = next(steps)
    leader.engine.close()
    again = states.begun(leader.state(), schedule)
    told = pack(again.front.state()), again.at, again.news, tally
    return [told, *(pack(start) for start in again.starts if isinstance(start, dict))]


def _new(files: Files, schedule: Schedule, recipe: Recipe) -> states.Begun:
    """Where shards of a recipe begin."""
    front = Model(
        recipe.learner,
        features_from_json(files.features),
        classes=files.classes,
        new_task=recipe.new_task,
        **recipe.parameters,
    )
    return states.Begun(front, [None] * schedule.n, states.At(0, 0, schedule.after(0)))
