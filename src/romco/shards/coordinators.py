"""Who leads the shards from barrier to barrier."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

from romco.learners.capabilities import Draws
from romco.learners.merging import Period, merge, merge_here, mergeable
from romco.model import Scale
from romco.shards import checkpoints, states
from romco.shards.claims import Claim
from romco.shards.engines import Arguments, Engine, Verb, engine_of
from romco.shards.scales import Numbers, merge_scales, numbers
from romco.shards.schedules import Schedule
from romco.shards.shard import Agreement, News, Recipe, Shard

FEW = 16  # events that are learned before another thread has woken up


@final
class Coordinator:
    """The engine that runs the shards, what they share, and where in the stream they are.

    A *place* is an event of the stream, learned or skipped: barriers are places.
    """

    def __init__(
        self,
        schedule: Schedule,
        begun: states.Begun,
        engine: str,
        address: str | None = None,
        folder: Path | None = None,
        checkpoint_every: int = 10,
    ) -> None:
        self.schedule, self.front = schedule, begun.front
        self.events, self.place, self.next = begun.at.events, begun.at.place, begun.at.next
        self.notes = begun.at.notes  # of whoever reads the stream, to go on after a loss
        self.reopen: Arguments | None = None  # how shards open what they read themselves
        self.merging = 0.0  # seconds spent at barriers
        self._told: list[Any] | None = None  # news or periods, with the answers to something else
        self._barriers, self._folder, self._checkpoint_every = 0, folder, checkpoint_every
        inner = self.front.engine.learner
        self.recipe = Recipe(
            inner.name,
            inner.n_features,
            schedule.n,
            self.front.engine.new_task,
            dict(inner.parameters),
        )
        self.new = all(start is None for start in begun.starts)  # nobody has learned anything
        self._claim = None if folder is None else Claim(folder)
        self.engine: Engine = engine_of(engine, self.recipe, begun.starts, address)
        self._resume(begun)

    @property
    def n(self) -> int:
        """How many shards."""
        return self.schedule.n

    @property
    def staleness(self) -> int:
        """Events, at most, that a shard does not know of what others learned."""
        return self.next - self.place if self.n > 1 else 0

    def ask(self, verb: Verb, arguments: Arguments, places: int) -> list[Any]:
        """The answers of the shards to what they are to do with so many places.

        Where a barrier follows, they also tell what they changed, at the same time as the others:
        shards elsewhere in the same message, those in this process where it is to be found.
        """
        self._told = None
        if self.engine.here is not None and places < FEW:
            return [
                None if given is None else self.engine.one(k, verb, *given)
                for k, given in enumerate(arguments)
            ]
        asked = [(verb, arguments)]
        if self.n > 1 and self.place + places == self.next:
            tell = Shard.news if self.engine.here is None else Shard.period
            asked.append((tell, [()] * self.n))
        answers = self.engine.series(*asked)
        self._told = [own[1] for own in answers] if len(asked) > 1 else None
        return [own[0] for own in answers]

    def passed(self, places: int, learned: int) -> None:
        """So many places were passed, all before the next barrier or up to it."""
        self.place, self.events, self.new = self.place + places, self.events + learned, False
        if self.place == self.next:
            self._meet()

    def take_up(self, begun: states.Begun) -> None:
        """Go on from where somebody else has led shards that began as these did."""
        self.front.engine.learner.load(begun.front.engine.learner.arrays())
        self.front.engine.adopt(begun.front.engine.scale, begun.front.events)
        at, self.new = begun.at, False
        self.events, self.place, self.next, self.notes = at.events, at.place, at.next, at.notes
        self.engine.begin(begun.starts)
        self._resume(begun)

    def _resume(self, begun: states.Begun) -> None:
        if begun.news is not None:
            self.engine.each(Shard.resume, [(news,) for news in begun.news])

    def state(self) -> dict[str, Any]:
        """The state of one model of all tasks, from which shards can go on, too."""
        nothing = [()] * self.n
        told = self.engine.series((Shard.state, nothing), (Shard.news, nothing))
        found, news = ([own[i] for own in told] for i in (0, 1))
        at = states.At(self.events, self.place, self.next, self.notes)
        return states.gathered(self.front, self.schedule, at, found, news)

    def checkpoint(self) -> None:
        """Save all shards to the folder of checkpoints; only at a barrier."""
        assert self._folder is not None
        assert self._claim is not None
        self._claim.check()
        at = states.At(self.events, self.place, self.next, self.notes)
        files = checkpoints.write(self._folder, self.front, self.schedule, at, self.engine)
        self.engine.saved(files, Shard.open, self.reopen)

    def close(self) -> None:
        """End the shards, and let others have the folder."""
        self.engine.close()
        if self._claim is not None:
            self._claim.close()

    def _meet(self) -> None:
        """A barrier: merge what the shards changed, and let all of them go on from there."""
        self.next = self.schedule.after(self.place)
        if self.n > 1:
            began = time.perf_counter()
            self._agree()
            self._draw()
            self.merging += time.perf_counter() - began
        self._barriers += 1
        if self._folder is not None and self._barriers % self._checkpoint_every == 0:
            self.checkpoint()

    def _agree(self) -> None:
        if self.engine.here is not None:
            self._agree_here(self.engine.here)
            return
        news: list[News] = self._told or self.engine.all(Shard.news)
        width = self._widened(one.width for one in news)
        changes, ranges = [one.change for one in news], self.engine.ranges
        merged = merge(mergeable(self.front.engine.learner), changes, ranges)
        scale = self._scaled([one.scale for one in news], [one.change.events for one in news])
        self.engine.tell(Shard.agree, Agreement(merged, scale, self.events, width))

    def _agree_here(self, shards: Sequence[Shard]) -> None:
        """In place: nothing is copied but what is small."""
        width = self._widened(shard.model.engine.learner.n_features for shard in shards)
        for shard in shards:
            shard.widen(width)
        periods: list[Period] = self._told or [shard.period() for shard in shards]
        with ExitStack() as rest:
            learners = [mergeable(rest.enter_context(one.model.engine.at_rest())) for one in shards]
            merge_here(mergeable(self.front.engine.learner), learners, periods, self.engine.ranges)
        scale = self._scaled([one.scale for one in shards], [one.events for one in periods])
        for shard in shards:
            shard.settle(scale, self.events)

    def _widened(self, widths: Iterable[int]) -> int:
        """Make room for as many features as any shard has; gives the room of all."""
        self.front.engine.make_room(max(self.front.features.width, *widths))
        return self.front.engine.learner.n_features

    def _scaled(self, parts: Sequence[Numbers], events: Sequence[int]) -> Numbers:
        scale = merge_scales(numbers(self.front.engine.scale), parts, events)
        self.front.engine.adopt(Scale(*scale), self.events)
        return scale

    def _draw(self) -> None:
        """Draw what is drawn from all tasks, if it is time."""
        common = self.front.engine.learner
        if not isinstance(common, Draws) or not common.drawing_due():
            return
        self.engine.tell(Shard.take_drawn, common.drawn(self.engine.all(Shard.gathered)))
