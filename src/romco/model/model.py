"""The model: names in, labels out; one writer, any number of readers."""

import warnings
from collections.abc import Iterable, Sequence, Sized
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from romco.io.formats import Sample
from romco.io.frames import category_columns
from romco.io.groupings import names_columns, take_groupings
from romco.io.inference import Column, rare_label_warnings
from romco.io.schema import Schema
from romco.labels import Policy
from romco.labels import restore as restore_policy
from romco.model.body import next_double
from romco.model.engine import Engine, fixed_width, make_learner
from romco.model.features import Features, NamedFeatures, Names, features_from_json
from romco.model.fitting import fit
from romco.model.history import HISTORY_LIMIT, TaskHistory, history_schema
from romco.model.names import Id, TaskTable, identity
from romco.model.pending import PendingEvent, PendingLabels
from romco.model.rows import Rows, check_sequence, read_weights
from romco.model.target import TwoClasses, make_target
from romco.parameters import whole
from romco.rounds import Round
from romco.typing import Floats

LEAST_FEATURES = 64  # room for features by name before any is known
LEAST_TASKS = 8
PENDING_EVENTS = 10_000  # predicted events with an id that may wait for their label


class Model:
    """One linear classifier per task, for tasks, features and labels of any name.

    Tasks and features may appear at any time. A task not yet seen is predicted from what the
    tasks have in common, and starts there (``new_task="mean"``; docs/methods.md says what that is
    for each learner); with ``"zero"`` it starts as in the paper.

    One thread may learn while others predict: they see the model between two steps, never within
    one. ``engine`` gives access to the learner and the names behind the model.

    >>> model = Model("romco-nucl", eta1=0.5)
    >>> for _ in range(3):
    ...     _ = model.learn_one({"word:free": 1, "length": 0.2}, "spam", task="ann")
    ...     _ = model.learn_one({"word:lunch": 1, "length": 0.3}, "ham", task="bob")
    >>> model.predict_one({"word:free": 1}, task="ann")
    'spam'
    >>> model.predict_one({"word:lunch": 1}, task="somebody new")
    'ham'
    >>> model
    <romco.Model: romco-nucl for two classes ('ham', 'spam'), 3 features, 2 tasks, 6 events>

    In every method ``x`` is rows in a form that ``features`` reads: mappings, an array, a CSR
    matrix or a frame; ``task`` names the task of each row; ``offset`` is as in :meth:`learn`. Of
    mappings and frames ``task`` may list columns instead, ``["lecturer", "student"]`` or
    ``["school/class"]``: the first grouping is the task, levels of the others are features.

    Parameters
    ----------
    learner:
        A name from ``romco.LEARNERS``; its ``parameters`` follow by name.
    features:
        :class:`Names` (grow as they come), :class:`Hashed` or :class:`Columns`.
    target:
        "two classes", "classes" (any number of them, new ones at any time), or "number".
    classes, positive:
        The labels, of two the negative one first; or only the positive one. Else they are taken as
        they come, see :class:`romco.model.target.TwoClasses`.
    tasks:
        Tasks known from the beginning; they start at zero.
    labels:
        Policy that decides which labels to :meth:`ask` for, ``romco.labels.Budget(0.05)``, say.
    schema:
        How columns of mappings and frames are read; else it is inferred, see :attr:`schema`.
    pending:
        Number of events predicted with an id that may wait for their :meth:`answer`; they are
        not kept in the file.
    history:
        Categorical columns, from coarse to fine: events get features of what the task's labels were
        so far, in all and for the row's value of each column, as a student's answers to a skill. A
        label is never visible to its own prediction; one of weight 0 is not learned, but enters the
        history. With a column of kind "time" in ``schema``, how long ago labels came counts too.
    history_limit:
        Number of pairs of a task and a value that are remembered; then the one that had a label
        longest ago is forgotten first.
    """

    def __init__(
        self,
        learner: str = "romco-auto",
        features: Features | None = None,
        *,
        target: Literal["two classes", "classes", "number"] | None = None,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        tasks: Iterable[Any] = (),
        new_task: Literal["mean", "zero"] = "mean",
        labels: Policy | None = None,
        schema: Schema | None = None,
        pending: int = PENDING_EVENTS,
        history: Sequence[str] | None = None,
        history_limit: int = HISTORY_LIMIT,
        **parameters: Any,
    ) -> None:
        made = make_target(target, classes, positive)
        self.features: Features = Names() if features is None else features
        if not isinstance(self.features, Features):
            raise TypeError(f"features must be romco.Columns, Names or Hashed, not {features!r}")
        known = [*dict.fromkeys(tasks)]
        labelled = {"target": target, "classes": classes, "positive": positive}
        past_of = {"history": history, "history_limit": history_limit, "schema": schema}
        given = {"tasks": known, "new_task": new_task, "pending": pending, **parameters}
        self._settings = {"learner": learner, **labelled, **past_of, **given}  # to fit anew by
        self._new_features = self.features.to_json()
        table = TaskTable()
        for task in known:
            name = identity("task", task)
            if table.find(name) < 0:  # nor in another form
                table.add(name)
        d = fixed_width(self.features) or next_double(LEAST_FEATURES, self.features.width)
        inner = make_learner(made, learner, d, len(table) or LEAST_TASKS, parameters)
        past = None
        if history is not None:
            schema = history_schema(schema, history)
            number, time = made.kind == "number", schema.time
            past = TaskHistory(history, history_limit, numeric=number, time=time)
            if isinstance(self.features, NamedFeatures):
                self.features.cells.required = tuple(filter(None, (*history, time)))
        elif schema is not None and schema.time is not None:
            raise ValueError(f"time column {schema.time!r} is for history=: name its columns too")
        self.engine = Engine(inner, self.features, made, table, new_task, past)
        self.labels, self.pending = labels, PendingLabels(pending)
        self.notes: dict[str, Any] = {}  # yours: anything JSON can hold, kept in the file
        self.session: dict[str, Any] = {}  # the program's: what it must know to go on
        self.schema = schema

    # What is known

    @property
    def events(self) -> int:
        """Number of events learned."""
        return self.engine.events

    @property
    def tasks(self) -> list[Id]:
        """Names of the tasks, by number where none was forgotten."""
        return [task for task, _ in sorted(self.engine.tasks.items(), key=lambda item: item[1])]

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, of two the negative one first; none for numbers."""
        return self.engine.target.classes

    def __repr__(self) -> str:
        kind, classes = self.engine.target.kind, self.classes
        named = ""
        if len(classes) > 5:
            named = f", {len(classes)}"
        elif classes:
            named = f" {classes}"
        return (
            f"<romco.Model: {self.engine.learner_name} for {kind}{named}, "
            f"{self.features.width} features, {len(self.tasks)} tasks, {self.events} events>"
        )

    @property
    def schema(self) -> Schema | None:
        """Kinds of the columns; None while all rows were arrays or plain numbers.

        It is inferred from the first rows that have other values, or set before.

        >>> model = Model("pa-unique")
        >>> _ = model.learn_one({"town": "Rome", "age": 7}, "yes", task="ann")
        >>> model.schema.kinds
        {'town': 'category', 'age': 'number'}
        """
        cells = self.features.cells
        if cells is not None and (schema := cells.schema) is not None:
            return schema
        return Schema.from_session(self.session)

    @schema.setter
    def schema(self, schema: Schema | None) -> None:
        if self.features.cells is not None:
            self.features.cells.schema = schema
        elif schema is not None:
            self.session["schema"] = schema.to_json()

    # Predicting

    def predict_one(self, x: Any, task: Any, *, id: Any = None, offset: float | None = None) -> Any:
        """Return the label or number of one event; None before any label is known.

        With ``id`` the event waits until :meth:`answer` brings its label.
        """
        if type(task) is list:
            (x,), (task,), *_ = self._unlabelled([x], task)
        if id is None:
            return self.engine.predict_one(x, task, offset)
        return self.engine.target.label_of(self._predict_one_pending(x, task, id, offset))

    def predict_proba_one(
        self, x: Any, task: Any, *, id: Any = None, offset: float | None = None
    ) -> dict[Id, float]:
        """Return the probability of each label that is known; they add up to 1.

        With ``id`` the event waits until :meth:`answer` brings its label.
        """
        if type(task) is list:
            (x,), (task,), *_ = self._unlabelled([x], task)
        engine, classes = self.engine, self.classes
        if engine.target.kind == "number":
            raise ValueError("a number has no probability: use intervals")
        if id is not None:
            margin = self._predict_one_pending(x, task, id, offset)
        else:
            margin = engine.margin_one(x, task, offset)
        if not isinstance(engine.target, TwoClasses):
            probabilities = engine.probability_of(np.asarray(margin)[None])[0]
            return dict(zip(classes, probabilities.tolist(), strict=True))
        positive = engine.scale.probability_of_one(margin)
        if len(classes) < 2:
            return dict.fromkeys(classes, 1.0)
        return dict(zip(classes, (1.0 - positive, positive), strict=True))

    def predict(
        self, x: Any, task: Iterable[Any], *, id: Iterable[Any] | None = None, offset: Any = None
    ) -> NDArray[Any]:
        """Return labels, or numbers, of rows (n,).

        With ``id``, one for each row, the events wait until :meth:`answer` brings their labels.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.predict([{"a": 1}, {"b": 1}], ["ann", "bob"]).tolist()
        ['yes', 'no']
        >>> model.margins([{"a": 1}, {"b": 1}], ["ann", "ann"])
        array([ 1., -1.])
        >>> model.predict_proba([{"a": 1}], ["ann"]).round(2)
        array([[0.27, 0.73]])
        """
        rows = self._unlabelled(x, task, offset)
        if id is None:
            margins = self.engine.margins(rows)
        else:
            margins = self._predict_pending(rows._replace(id=list(id)))
        return self.engine.target.labels_of(margins)

    def _predict_one_pending(self, x: Any, task: Any, id: Any, offset: float | None) -> Any:
        """Return the margin of one event, of many classes all, which then waits for its label."""
        self.pending.check_ids([id])
        found = self.engine.margin_and_context_of_event(x, task, offset)
        if found is NotImplemented:
            return self._predict_pending(Rows.of_one(x, task, offset=offset)._replace(id=[id]))[0]
        margin, context = found
        self.pending.put(id, PendingEvent([x], task, margin, context, offset))
        return margin

    def _predict_pending(self, rows: Rows) -> Floats:
        """Return margins of rows, which then wait for their labels."""
        rows = rows._replace(task=list(check_sequence(rows.task)))
        if len(rows.id) != len(rows.task):
            raise ValueError(f"task has {len(rows.task)} entries but id has {len(rows.id)}")
        self.pending.check_ids(rows.id)
        margins, context, *_ = self.engine.margins_and_context(rows)
        self.pending.put_all(rows._replace(context=context), margins)
        return margins

    def predict_proba(self, x: Any, task: Iterable[Any], *, offset: Any = None) -> Floats:
        """Return probabilities (n, K) of :attr:`classes`; ValueError if the target is a number."""
        probabilities = self.engine.probabilities(self._unlabelled(x, task, offset))
        if probabilities.ndim == 2:
            return probabilities
        if len(self.classes) < 2:
            return np.ones((len(probabilities), len(self.classes)))
        both = np.empty((len(probabilities), 2))
        both[:, 0], both[:, 1] = 1.0 - probabilities, probabilities
        return both

    def margins(
        self, x: Any, task: Iterable[Any], *, offset: Any = None, return_std: bool = False
    ) -> Any:
        """Return the learner's scores of rows; changes nothing that was learned.

        Margins (n,) of two classes, above 0 for the positive label; log-probabilities (n, K) of
        many classes; predicted numbers (n,). With ``return_std`` means and standard deviations
        of the posterior of log-odds or numbers (n,), of many classes those of each class against
        the rest (n, K); a margin is nearer to 0 than the mean, the less is known. Raises
        ValueError where a row cannot be read, or the learner has no posterior.

        >>> model = Model()
        >>> for k in range(200):
        ...     _ = model.learn_one({"price": k % 7}, k % 7 > 3, task="ann")
        >>> mean, deviation = model.margins([{"price": 1}] * 2, ["ann", "bob"], return_std=True)
        >>> bool(mean[0] < 0.0 < deviation[0] < deviation[1])
        True
        """
        rows = self._unlabelled(x, task, offset)
        if return_std:
            return self.engine.posterior(rows)
        return self.engine.margins(rows)

    def intervals(
        self, x: Any, task: Iterable[Any], level: float = 0.9, *, offset: Any = None
    ) -> Floats:
        """Return bounds (n, 2) within which a share ``level`` of the numbers of such rows will be.

        Raises ValueError where the learner predicts no numbers.

        >>> model = Model(target="number")
        >>> for k in range(20):
        ...     _ = model.learn_one({"rooms": k % 4}, 3.0 * (k % 4), task="Rome")
        >>> low, high = model.intervals([{"rooms": 2}], ["Rome"])[0]
        >>> bool(low < 6.0 < high)
        True
        """
        return self.engine.intervals(self._unlabelled(x, task, offset), level)

    def ask(self, x: Any, task: Iterable[Any], *, offset: Any = None) -> NDArray[np.bool_]:
        """Return for which rows (n,) to ask for labels, as the policy ``labels`` decides.

        The policy sees margins, or the widths of a number's intervals. Raises ValueError where
        the model has no policy.

        >>> import romco
        >>> model = Model(labels=romco.labels.Budget(1.0, seed=0))
        >>> model.ask([{"a": 1}], ["ann"])
        array([ True])
        """
        if self.labels is None:
            raise ValueError(
                "this model has no policy that asks for labels: give it one, "
                "Model(labels=romco.labels.Budget(0.05)), or set model.labels"
            )
        rows = self._unlabelled(x, task, offset)
        numbers = self.engine.tasks.numbers(check_sequence(rows.task))
        n = len(numbers)
        round = Round(numbers, np.zeros((n, 1)), np.full(n, np.nan))
        if self.engine.target.kind == "number":
            widths = np.diff(self.engine.intervals(rows, 0.5), axis=1)[:, 0]
            return self.labels.ask_by_width(round, widths)
        return self.labels.ask(round, self.engine.margins(rows))

    # Learning

    def fit(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        weight: Any = None,
        offset: Any = None,
        random_state: int = 0,
    ) -> Self:
        """Learn rows that are all at hand, from scratch; return the model.

        This is for models that predict later without answers; to go on learning, :meth:`learn`.
        Kinds of columns are inferred from all rows. The default learner learns them in the order
        given and in three random orders at once, and becomes the mean, in which each answer counts
        once; what the order of rows tells of later ones is used. Other learners learn one random
        order. With ``history`` rows are learned in the order given.

        The same rows and the same ``random_state`` give the same model. Rows shuffled otherwise
        give nearly the same, unless their order matters: if it means nothing, shuffle them.
        ``weight`` and ``offset`` are as in :meth:`learn`. What was learned before is dropped; where
        a row is bad or this is broken off, it stays.

        >>> model = Model()
        >>> rows, labels = [{"a": 1}, {"b": 1}] * 20, ["yes", "no"] * 20
        >>> model.fit(rows, labels, ["ann", "ann", "bob", "bob"] * 10).predict_one({"a": 1}, "ann")
        'yes'
        >>> model.events
        40
        """
        made = Model(features=features_from_json(self._new_features), **self._settings)
        y = _sized(y)
        rows = Rows(x, task, y, weight, offset)
        if names_columns(x, task):
            rows, made.schema = made._take_groupings(rows)
        if weight is not None:
            rows = rows._replace(weight=read_weights(weight, made.engine.learner))
        fit(made.engine, rows, np.random.RandomState(whole("random_state", random_state, least=0)))
        self.__dict__.update(
            {name: vars(made)[name] for name in ("features", "pending", "session")}
        )
        self.engine = made.engine  # last
        self._warn_of_rare_labels(y)
        return self

    def learn_one(
        self, x: Any, y: Any, task: Any, weight: float = 1.0, *, offset: float | None = None
    ) -> Any:
        """Learn one event; return the margin (of many classes: all) predicted just before.

        Raises ValueError where the event is bad; nothing changes then.
        """
        if type(task) is list:
            rows = Rows.of_one(x, None, y, weight, offset)
            return self._learn(rows._replace(task=task), False)[0]
        return self.engine.learn_one(x, y, task, weight, offset)

    def learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        together: bool = False,
        weight: Any = None,
        offset: Any = None,
        context: Any = None,
    ) -> Floats:
        """Learn rows in turn, as ``learn_one`` does; return the margins predicted just before.

        This is for streams, and to go on learning. To predict later without answers, :meth:`fit`.

        ``together`` learns all rows in one step: all are predicted, then all are learned. A row of
        ``weight`` h counts as h events, one of weight 0 is only predicted. Where labels come late,
        ``context`` is ``engine.prediction_context`` of each row when it was predicted, or None.

        ``offset`` is a known part of each row's margin that is never learned: log-odds of the
        positive label, a number in the target's unit, or (n, K) log-probabilities of the
        ``classes``, up to a constant in each row. A model learned with offsets needs them
        for every row, in prediction too.

        Raises ValueError where any row is bad; nothing changes then. Where learning is broken
        off, by Ctrl-C or by numbers that grew too large, ``events`` counts the rows learned.

        >>> model = Model("pa-unique")
        >>> model.learn([{"a": 1}, {"a": 1}], ["yes", "yes"], ["ann", "ann"])
        array([0., 1.])
        """
        is_first = not self.events
        y = _sized(y)
        margins = self._learn(Rows(x, task, y, weight, offset, context), together)
        if is_first:
            self._warn_of_rare_labels(y)
        return margins

    def _warn_of_rare_labels(self, labels: Iterable[Any]) -> None:
        """Warn of classes that may be mistyped labels."""
        if self.engine.target.kind != "classes":
            return
        for text in rare_label_warnings(list(map(str, labels)), Sample(rows=())):
            warnings.warn(text, UserWarning, stacklevel=3)

    def _learn(self, rows: Rows, together: bool) -> Floats:
        if not names_columns(rows.x, rows.task):
            learned = self.engine.predict_and_learn(
                rows, together=together, with_probabilities=False
            )
            return learned.margins
        grouped, schema = self._take_groupings(rows)
        with self.engine.transaction():
            self.schema = schema
            return self._learn(grouped, together)

    def _take_groupings(self, rows: Rows) -> tuple[Rows, Schema]:
        """Return rows whose tasks were columns, and a schema that keeps which these were."""
        x, task, (first, groupings) = take_groupings(rows.x, rows.task)
        schema = (self.schema or Schema(complete=True)).copy()
        if self.events and (schema.task, schema.groupings) != (first, groupings):
            raise ValueError(f"the model was learned with other groupings than {list(rows.task)}")
        if not self.events:
            schema.task, schema.groupings = first, groupings
            for name in groupings:
                schema.add(name, Column("category", "grouping", "set"))
            for name, kind in category_columns(rows.x).items():
                if name not in schema.columns:
                    schema.add(name, Column(kind, kind, "by its type"))
        return rows._replace(x=x, task=task), schema

    def _unlabelled(self, x: Any, task: Any, offset: Any = None) -> Rows:
        """Return rows to be predicted, whose tasks may be columns of them."""
        if names_columns(x, task):
            x, task, _ = take_groupings(x, task)
        return Rows(x, task, offset=offset)

    def answer(self, id: Any, y: Any, weight: float = 1.0) -> Any:
        """Learn an event that was predicted with this id; return the margin predicted then.

        Raises KeyError where no such event waits, ValueError where it cannot be learned; it then
        waits on.

        >>> model = Model()
        >>> _ = model.learn([{"a": 1}, {"b": 1}] * 2, ["yes", "no"] * 2, ["ann"] * 4)
        >>> model.predict_one({"a": 1}, "ann", id="mail 7")
        'yes'
        >>> bool(model.answer("mail 7", "yes") > 0), model.events
        (True, 5)
        """
        event = self.pending.take(id)
        if event is None:
            raise KeyError(f"no event {id!r} waits: it was answered, dropped, or never predicted")
        row = event.x
        if type(row) is list:
            row = row[0]
        late = weight, event.offset, event.context
        try:
            if self.engine.learn_event(row, y, event.task, *late) is NotImplemented:
                rows = Rows.of_one(row, event.task, y, weight, event.offset)
                self._learn(rows._replace(x=event.x, context=event.context), False)
        except BaseException:
            self.pending.put(id, event)  # nothing was learned, so it still waits
            raise
        return event.margin

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history; KeyError where it is not known.

        Features and classes that only this task has had lose their names, too.
        """
        self.engine.forget(task)
        self.features = self.engine.features

    # Files and states

    def state(self, copy: bool = True) -> dict[str, Any]:
        """Return JSON-able values, and NumPy arrays ``"arrays"``: live ones if not a ``copy``."""
        session = self.session
        if self.schema is not None:
            session = {**session, "schema": self.schema.to_json()}
        own = {"notes": self.notes, "session": session}
        if self.labels is not None:
            own["asking"] = self.labels.state()
        return self.engine.state(copy) | own

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the model that gave a state, which goes on as if it had never stopped.

        Raises ValueError where the state does not hold together.
        """
        made = cls.__new__(cls)
        made.engine = Engine.from_state(state)
        made.features = made.engine.features
        made.notes = dict(state["notes"])
        made.session = dict(state["session"])
        made.schema = Schema.from_session(made.session)
        policy = state.get("asking")
        made.labels = None
        if policy is not None:
            made.labels = restore_policy(policy)
        made.pending = PendingLabels(PENDING_EVENTS)
        made._settings = _settings_of(made.engine, made.schema)
        made._new_features = made.features.to_json()
        if isinstance(made.features, Names):
            made._new_features["names"] = []
        return made

    def __reduce__(self) -> Any:
        return Model.from_state, (self.state(),)


def _settings_of(engine: Engine, schema: Schema | None) -> dict[str, Any]:
    """Return arguments by which a model that is like a loaded one can be made."""
    target, past, parameters = engine.target, engine.history, dict(engine.learner.parameters)
    if target.kind == "classes":
        parameters = {"form": parameters["form"], **parameters["parameters"]}
    classes = None
    if len(target.classes) > 1:
        classes = target.classes
    made = {"target": target.kind, "classes": classes, "new_task": engine.new_task}
    if past is not None:
        made |= {"history": past.kernel.columns, "history_limit": past.kernel.limit}
    return {"learner": engine.learner_name, "schema": schema, **made, **parameters}


def _sized(labels: Iterable[Any]) -> Any:
    """Return labels that can be read twice."""
    return labels if isinstance(labels, Sized) else list(labels)
