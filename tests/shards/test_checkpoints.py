import numpy as np
import pytest

import romco
from romco.io import durable
from romco.shards import Shards
from tests.shards.streams import assert_same, events, learn, place_of

STREAM = events(400, seed=8)


def test_the_same_call_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path):
    x, y, task = STREAM
    whole = Shards(n=3, every=20)
    learn(whole, STREAM)
    first = Shards(n=3, every=20, checkpoint=tmp_path, checkpoint_every=7)
    learn(first, (x[:333], y[:333], task[:333]))
    del first  # killed here
    second = Shards(n=3, every=20, checkpoint=tmp_path, checkpoint_every=7, engine="threads")
    at = second.events
    assert 0 < at <= 333
    learn(second, (x[at:], y[at:], task[at:]))
    assert_same(second.state(), whole.state())


def test_the_number_of_shards_may_change_at_a_checkpoint(tmp_path):
    first = Shards(n=2, checkpoint=tmp_path, checkpoint_every=9)
    learn(first, STREAM)
    at = place_of(tmp_path / "shards.romco")
    second = Shards(n=5, checkpoint=tmp_path)
    assert second.events == at
    assert set(second.tasks) <= set(first.tasks)
    x, y, task = STREAM
    learn(second, (x[at:], y[at:], task[at:]))
    assert second.events == 400


def test_a_checkpoint_is_a_model_file_in_a_folder_or_by_name(tmp_path):
    with Shards(n=2, checkpoint=tmp_path, checkpoint_every=9) as first:
        learn(first, STREAM)
    file = tmp_path / "new folder" / "m.romco"
    with Shards(n=2, checkpoint=file, checkpoint_every=9) as second:
        learn(second, STREAM)
    assert file.read_bytes() == (tmp_path / "shards.romco").read_bytes()
    assert 0 < romco.load(file).events == Shards(n=2, checkpoint=file).events < 400


def test_saving_takes_a_small_part_of_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr("romco.shards.shards.SAVE_TIME_RATIO", 1e6)
    with Shards(n=2, every=20, checkpoint=tmp_path, checkpoint_every=3) as shards:
        learn(shards, STREAM)
    assert place_of(tmp_path / "shards.romco") == 6  # the first one, after which it waits


@pytest.mark.parametrize("call", range(2))
def test_a_full_disk_is_an_error_and_the_last_checkpoint_stays(tmp_path, monkeypatch, call):
    x, y, task = STREAM
    shards = Shards(n=2, every=20, checkpoint=tmp_path, checkpoint_every=2)
    shards.learn(x[:200], y[:200], task[:200])
    before = place_of(tmp_path / "shards.romco")
    calls, real = [], durable.replace

    def full(path, parts, **options):
        calls.append(path)
        if len(calls) > call:
            raise OSError(28, "No space left on device", str(path))
        return real(path, parts, **options)

    monkeypatch.setattr(durable, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        shards.learn(x[200:], y[200:], task[200:])
    monkeypatch.undo()
    assert (place_of(tmp_path / "shards.romco") > before) == (call > 0)
    again = Shards(n=2, every=20, checkpoint=tmp_path, checkpoint_every=2)
    at = again.events
    again.learn(x[at:], y[at:], task[at:])
    whole = Shards(n=2, every=20)
    whole.learn(x, y, task)
    assert_same(again.state(), whole.state())


def test_a_folder_of_another_learner_is_refused(tmp_path):
    learn(Shards(n=2, checkpoint=tmp_path, checkpoint_every=9), STREAM)
    with pytest.raises(ValueError, match="holds shards with learner 'romco-auto'"):
        Shards("pa-shared", 2, checkpoint=tmp_path)


def test_a_damaged_folder_says_so(tmp_path):
    (tmp_path / "shards.romco").write_text("{}")
    with pytest.raises(ValueError, match=r"shards\.romco cannot be used"):
        Shards(n=2, checkpoint=tmp_path)


def test_a_failed_start_releases_the_checkpoint(tmp_path):
    model, stop = romco.Model(), pytest.raises(ValueError, match="engine must be one of")
    with stop:
        Shards.of(model, 2, engine="none", checkpoint=tmp_path)
    with durable.exclusive(tmp_path / "shards.romco"):  # nobody holds it
        pass
    with Shards.of(model, 2, checkpoint=tmp_path, checkpoint_every=9) as shards:
        learn(shards, STREAM)
    assert place_of(tmp_path / "shards.romco") > 0


def test_merging_is_finite_whatever_the_schedule():
    for growth in (0.01, 1.0, 100.0):
        shards = Shards(n=6, growth=growth)
        assert np.isfinite(learn(shards, STREAM)).all()
