"""Bodies that mean harm: what compiled code answers, and what the long way answers or refuses."""

from __future__ import annotations

import json
from random import Random

import pytest

from romco.model import Hashed, Model, Names
from romco.server.applications import Application
from romco.server.heads import Head
from romco.server.requests import BadRequest, Reader
from romco.server.settings import Limits
from romco.server.stores import Store
from tests.server.streams import lessons

GOOD = (
    b"0 1 -1 7 0.5 -0.25 1e3 1E3 1e+3 1e-3 3.14159 0.1 4.35 2.5e-5 12345.678 1e15 -1e15 0e0 0.0 "
    b"1e-400 5e-324 2.2250738585072011e-308 0.30000000000000004 -0 -0.0 -0e5 1e0000000003 "
    b"999999999999999 0.1e0000001 1e-0 true false null"
).split()
ODD = (
    b"1e400 -1e400 1. .5 01 00 -01 +1 - . e5 1e 1e+ 0x10 1_0 1000000000000001 1e16 1e22 1e23 "
    b"1.0000000000000001e15 123456789012345678901234 9007199254740993 1e250 1e251 NaN nan Infinity "
    b"-Infinity inf tru nul True None 1a --1 1-1 18446744073709551616 18446744073709551617.5"
).split()
LONG = [b"9" * 19, b"9" * 20, b"1" * 300, b"0." + b"0" * 300 + b"1", b"0." + b"3" * 300]
NAMES = [b'"f1"', b'"f2"', b'"a"', b'"a b"', b'"a=b"', b'"="', b'""', b'"user1"', b'"null"']
TEXTS = [
    *NAMES,
    *(b'"caf\xc3\xa9"', b'"\\u0061"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\udc00\\ud800"'),
    *(b'"\\"', b'"\\x"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"a\tb"', b'"a\nb"', b'"\x7f"'),
    *(b'"a', b"'a'", b'"\\u00', b'"\\/"', b'"\\\\"', b'"a\\"b"', b'"\xe2\x80\xa8"', b'"f1\\u0000"'),
    *(b'"%b"' % (b"k" * n) for n in (256, 257, 100_000)),
]
TASKS = [*TEXTS, *b"0 7 -7 00 1.0 1e3 true null [] {} 999999999999999 9999999999999999999".split()]
SPACES = [b" ", b"\n", b"\r\n\t", b"  ", b"\x0b", b"\xa0", b"\xef\xbb\xbf", b"/**/", b"\x00"]
OTHER = [b"[]", b"{}", b"[1]", b'{"a":1}', b"[" * 2000, b'{"a":' * 500, b"", b",", b":"]
FIELDS = [b'"y":1', b'"task":"a"', b'"x":{}', b'"X":1', b'"id":null', b""]
MARKS = [b"", b"}", b"]", b",", b'"', b"\xff", b"\x80", b"\\", b"1"]


def rarely(random: Random, share: float = 0.05) -> bool:
    return random.random() < share


def spaced(random: Random, *parts: bytes) -> bytes:
    """Parts, with spaces here and there, some of which JSON does not have."""
    kinds = SPACES if rarely(random) else SPACES[:4]
    return b"".join(part + (random.choice(kinds) if rarely(random) else b"") for part in parts)


def value(random: Random) -> bytes:
    if not rarely(random):
        return random.choice(GOOD if random.random() < 0.8 else NAMES)
    return random.choice(random.choice([ODD, ODD, LONG, TEXTS, OTHER]))


def row(random: Random) -> bytes:
    n = random.choice([0, 1, 1, 2, 3, 8])
    keys = [random.choice(TEXTS if rarely(random) else NAMES) for _ in range(n)]
    fields = [spaced(random, key, b":", value(random)) for key in keys]
    return value(random) if rarely(random) else spaced(random, b"{", b",".join(fields), b"}")


def event(random: Random) -> bytes:
    task = random.choice(TASKS) if rarely(random, 0.2) else b'"user%d"' % random.randrange(4)
    fields = [spaced(random, b'"task"', b":", task), spaced(random, b'"x"', b":", row(random))]
    if rarely(random, 0.3):
        identity = random.choice(TEXTS) if rarely(random, 0.2) else b'"w"'
        fields.append(spaced(random, b'"id"', b":", identity))
    if rarely(random):
        fields.append(random.choice(FIELDS))
    random.shuffle(fields)
    if rarely(random):
        fields.pop()
    return spaced(random, b"{", b",".join(fields), b"}")


def body(random: Random) -> bytes:
    made = event(random)
    if rarely(random, 0.3):
        made = b"[" + b",".join([made, *(event(random) for _ in range(random.randrange(4)))]) + b"]"
    if rarely(random):
        at = random.randrange(len(made) + 1)
        made = made[:at] + random.choice(MARKS) + made[at + random.randrange(2) :]
    return spaced(random, b"", made)


@pytest.fixture(params=["names", "hashed"])
def pair(request, tmp_path):
    """Two applications of the same store: one as it is, one without any short way."""
    features = {"names": Names, "hashed": lambda: Hashed(4096)}[request.param]
    with Store(tmp_path, lambda: Model(features=features(), classes=("no", "yes"))) as store:
        store.writer.learn(lessons(60)).result()
        long = Application(store)
        long._shortcut.questions = None
        long._lane = long._open_lane()
        yield Application(store), long


def answered(app, text):
    """Status and body of the answer, and what waits then."""
    told = app._predict_at_once(Head(len(text), None), text)
    return told, repr(taken(app))  # as text: 1 and 1.0 and True are not the same


def taken(app):
    """What waits, and no longer does."""
    pending, found = app._store.live.pending, {}
    for key in list(pending._kept):
        one = pending.get(key, 0.0)
        found[key] = one.task, one.x, one.prediction
        pending.remove(key)
    return found


def agree(pair, seed):
    text = body(Random(seed))
    short, long = (answered(app, text) for app in pair)
    assert short == long, text[:2000]
    assert short[0][0] in (200, 400, 422), text[:2000]
    plain = pair[0]._lane.answer_body(text) is not None
    taken(pair[0])
    return short[0][0], plain


def test_answers_and_refusals_are_the_same_whatever_is_sent(pair):
    found = [agree(pair, seed) for seed in range(3000)]
    statuses = [status for status, _ in found]
    assert min(statuses.count(200), statuses.count(400), statuses.count(422)) > 200
    assert sum(plain for _, plain in found) > 300


@pytest.mark.parametrize("name", [" - at `$" * 12_500 + "\n", "k" * 100_000, "`$[3]` - at `$[x y]"])
def test_names_that_a_client_makes_up_are_looked_at_once_and_cut(name):
    """Names that look like places took a quarter of a minute, and all of them was told."""
    reader, event = Reader(Limits()), {"task": "a", "x": {}}
    for index, body in ((None, event | {name: 1}), (1, [event, event | {name: 1}])):
        with pytest.raises(BadRequest) as told:
            reader.questions(json.dumps(body).encode())
        assert told.value.reason.startswith("Object contains unknown field")
        assert len(told.value.reason) <= 300
        assert told.value.index == index


@pytest.mark.slow
def test_answers_and_refusals_are_the_same_many_times(pair):
    for seed in range(3000, 100_000):
        agree(pair, seed)
