"""Agreement: compiled reading of plain questions equals that of a reader who knows all of JSON."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from romco.kernels.io.mappings import HashedMappings, NamedMappings
from romco.kernels.io.questions import Questions
from romco.server.requests import Reader
from romco.server.settings import Limits

LIMITS = Limits(events=5, tasks=5, features=8, name=12, value=1e6)
KNOWN = {name: column for column, name in enumerate(["d", "a", "b", "c=x", "", "b=", "true"])}


def mappings(hashed=False):
    return HashedMappings(64) if hashed else NamedMappings(KNOWN)


def plainly(body, hashed=False):
    """Tasks, whether they are many, and rows as bytes; None where the body is not plain."""
    rows = mappings(hashed)
    questions = Questions(rows, LIMITS.events, LIMITS.features, LIMITS.name, LIMITS.value)
    tasks = questions.read(body)
    if tasks is None:
        return None
    waiting = [(k, identity, json.loads(row)) for k, identity, row in questions.waiting]
    return tasks, questions.many, [part.tobytes() for part in rows.arrays()], waiting


def wholly(body, hashed=False):
    """The same by the reader of the long way."""
    asked, many = Reader(LIMITS).questions(body)
    rows = mappings(hashed).read([question.x for question in asked])
    waiting = [(k, q.id, q.x) for k, q in enumerate(asked) if q.id is not None]
    return [question.task for question in asked], many, [part.tobytes() for part in rows], waiting


def agree(body):
    """Whether a body is plain; if so it must be right, and read alike."""
    found = plainly(body)
    if found is not None:
        assert found == wholly(body)
    hashed = plainly(body, hashed=True)
    if hashed is not None:
        assert hashed == wholly(body, hashed=True)
    return found is not None


NUMBER = st.floats(-1e7, 1e7) | st.integers(-(10**7), 10**7) | st.floats(-1e-9, 1e-9)
NAME = st.sampled_from(["a", "b", "c", "d", "", "zz", "true"]) | st.text(max_size=13)
VALUE = NUMBER | st.sampled_from(["x", "", "y"]) | st.booleans() | st.none()
X = st.lists(st.tuples(NAME, VALUE), max_size=9)  # names may come twice
TASK = st.text(max_size=13) | st.integers(-5, 10**16) | st.sampled_from(["ann", "bob"])


def text(event, spaces):
    task, x, turned, identity = event
    inner = ",".join(f"{json.dumps(name)}:{spaces}{json.dumps(value)}" for name, value in x)
    parts = [f'"task":{json.dumps(task)}', f'"x"{spaces}:{{{spaces}{inner}}}']
    if identity is not None:
        parts.insert(1, f'"id":{spaces}{json.dumps(identity)}')
    return "{" + f",{spaces}".join(parts[::-1] if turned else parts) + "}"


@given(
    st.lists(st.tuples(TASK, X, st.booleans(), st.none() | st.text(max_size=13)), max_size=6),
    st.sampled_from(["", " ", "\n\t\r "]),
    st.booleans(),
)
@example([("ann", [("a", None), ("a", 1.0)], False, None)], "", False)
@example([("ann", [("a", 1.0), ("a", None)], False, None)], "", False)
@example([("ann", [("c", "y"), ("c", "x")], False, None)], "", False)
@example([("ann", [("c", "x"), ("c", "y")], False, None)], "", False)
@example([("ann", [("c=x", 2.0), ("c", "x")], False, None)], "", False)
@example([("ann", [("a", 0.1), ("a", 0.2)], False, None)], "", False)
@settings(max_examples=400, deadline=None)
def test_what_is_plain_is_read_as_the_long_way_reads_it(events, spaces, alone):
    body = ",".join(text(event, spaces) for event in events)
    if alone and len(events) == 1:
        agree(body.encode())
    agree(f"{spaces}[{body}{spaces}]{spaces}".encode())


@given(st.data())
@settings(max_examples=600, deadline=None)
def test_no_damage_is_taken_for_something_plain(data):
    body = bytearray(
        b'[{"task": "ann", "x": {"a": 1.5, "b": true, "c": "x"}}, {"x": {}, "task": 7}]'
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        how = data.draw(st.integers(0, 3))
        some = data.draw(st.sampled_from(b'{}[]",:-+.eE0 19\\\x00\xffntx'))
        if how == 0:
            body[at] = some
        elif how == 1:
            del body[at]
        elif how == 2:
            body.insert(at, some)
        else:
            del body[at:]
            break
    agree(bytes(body))


@given(st.from_regex(r"\A-?[0-9]{1,22}(\.[0-9]{0,22})?([eE][+-]?[0-9]{0,3})?\Z"))
@example("-0")
@example("-0.0")
@example("0e5")
@example("01")
@example("1.")
@example("1e")
@example("1e400")
@example("9007199254740993")
@example("0.30000000000000004")
@example("123456789012345678e-12")
@example("2.2250738585072011e-308")
@settings(max_examples=1000, deadline=None)
def test_numbers_have_the_same_bits(number):
    agree(b'{"task": "ann", "x": {"a": %b}}' % number.encode())


def test_ordinary_bodies_are_plain():
    events = [
        {"task": "ann", "x": {"a": 0.5, "b": 17.123456789012345, "c": "x"}},
        {"x": {}, "task": 7},
        {"id": "e1", "task": "bob", "x": {"a": 1, "new": 2, "b": None}},
    ]
    for body in (*events, events):
        assert agree(json.dumps(body).encode())
        assert agree(msgspec.json.encode(body))
        assert agree(json.dumps(body, indent=2).encode())


NOT_PLAIN = [
    b"",
    b"[]",
    b"null",
    b'{"task": "ann"}',
    b'{"x": {}}',
    b'{"task": "ann", "x": {}, "id": ""}',
    b'{"task": "ann", "x": {}, "id": null}',
    b'{"task": "ann", "x": {}, "id": 1}',
    b'{"task": "ann", "x": {}, "id": "a", "id": "a"}',
    b'{"task": "ann", "x": {}, "id": "abcdefghijklm"}',
    b'{"task": "ann", "x": {}, "x": {}}',
    b'{"task": "ann", "x": {}, "task": "bob"}',
    b'{"task": "", "x": {}}',
    b'{"task": "abcdefghijklm", "x": {}}',
    b'{"task": 1.0, "x": {}}',
    b'{"task": -1, "x": {}}',
    b'{"task": "ann", "x": [1]}',
    b'{"task": "ann", "x": {"a": 1e7}}',
    b'{"task": "ann", "x": {"a": NaN}}',
    b'{"task": "ann", "x": {"a": nul}}',
    b'{"task": "ann", "x": {"a": "\\u0041"}}',
    '{"task": "ann", "x": {"ä": 1}}'.encode(),
    b'{"task": "ann", "x": {}} x',
    b'{"task": "ann", "x": {}}\x00',
    b'{"task": "ann", "x": {"a": 1,}}',
    b'[{"task": "ann", "x": {}},]',
    b'[{"task": "ann", "x": {}}',
    json.dumps([{"task": "ann", "x": {}}] * 6).encode(),
    json.dumps({"task": "ann", "x": {f"f{k}": 1 for k in range(9)}}).encode(),
]


@pytest.mark.parametrize("body", NOT_PLAIN)
def test_of_all_else_nothing_is_said(body):
    assert plainly(body) is None


def test_a_long_row_is_sorted_too():
    names = {f"f{k}": (k * 37) % 200 for k in range(200)}
    rows = NamedMappings(names)
    body = json.dumps({"task": "ann", "x": {name: k / 7 for name, k in names.items()}})
    assert Questions(rows, 1, 1000, 100, 1e15).read(body.encode()) == ["ann"]
    values, columns, _ = rows.arrays()
    assert columns.tolist() == list(range(200))
    np.testing.assert_array_equal(values, np.arange(200) / 7)


def test_names_that_share_a_place_in_memory_are_told_apart():
    """More names than are remembered, known and unknown, each in several rounds."""
    known = {f"n{k}": k for k in range(0, 9000, 2)}
    rows, again = NamedMappings(known), NamedMappings(known)
    questions = Questions(rows, 10, 10_000, 20, 1e6)
    for _ in range(2):
        for first in range(0, 9000, 1500):
            x = {f"n{k}": float(k + 1) for k in range(first, first + 1500)}
            questions.read(json.dumps({"task": "ann", "x": x}).encode())
            for found, expected in zip(rows.arrays(), again.read([x]), strict=True):
                np.testing.assert_array_equal(found, expected)


def test_names_may_become_known_meanwhile():
    known = {"a": 0}
    rows = NamedMappings(known)
    questions = Questions(rows, 10, 10, 20, 1e6)
    body = b'{"task": "ann", "x": {"a": 1, "b": 2}}'
    questions.read(body)
    assert rows.arrays()[1].tolist() == [0]
    known["b"] = 1
    questions.read(body)
    assert rows.arrays()[1].tolist() == [0, 1]
