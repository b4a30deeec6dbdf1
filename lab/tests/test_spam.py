import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import mutual_info_score

from conftest import write_folders
from romco_lab.datasets import spam
from romco_lab.datasets.storage import DamagedData, MissingData


def made_up_messages():
    rng = np.random.default_rng(0)
    for corpus, n in spam.CORPORA.items():
        for i in range(n):
            kind = "spmsg" if i % 3 == 0 else "legit"
            numbers = rng.integers(0, 40, rng.integers(0, 12)) + (5 if kind == "spmsg" else 0)
            yield corpus, 1 + i % spam.PARTS, f"7{kind}{i}.txt", numbers.tolist()


@pytest.fixture(scope="module")
def small():
    """Let the corpora have fewer messages, to be quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spam, "CORPORA", {"pu1": 60, "pu2": 40, "pu3": 90, "pua": 50})
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory, small):
    root = tmp_path_factory.mktemp("data")
    write_folders(root / "spam_pu", made_up_messages())
    return root


@pytest.fixture(scope="module")
def corpora(folders):
    return spam.read(spam.find(folders))


def test_folders_of_text_files_are_read(folders):
    stream = spam.load(folders)
    np.testing.assert_array_equal(np.bincount(stream.task), [60, 40, 90, 50])
    assert stream.labels == ("legitimate", "spam")
    assert np.count_nonzero(stream.y > 0) == sum(-(-n // 3) for n in spam.CORPORA.values())


def test_numbers_of_subject_and_body_are_counted(folders, corpora):
    wanted = {(c, name): n for c, _, name, n in made_up_messages()}
    first = spam.list_messages(folders / "spam_pu" / "pu1")[0]
    counts = np.bincount(wanted["pu1", first.name], minlength=corpora.counts.shape[1])
    np.testing.assert_array_equal(corpora.counts[[0]].toarray()[0], counts)


def test_messages_come_in_the_order_of_their_numbers(folders):
    names = [path.stem for path in spam.list_messages(folders / "spam_pu" / "pu2")[:4]]
    assert names == ["7spmsg0", "7legit10", "7legit20", "7spmsg30"]


def test_frequent_features_know_no_label(corpora):
    turned = dataclasses.replace(corpora, spam=np.random.default_rng(1).permutation(corpora.spam))
    before, after = (spam.features(c, "frequency") for c in (corpora, turned))
    np.testing.assert_array_equal(before.toarray(), after.toarray())


def test_selection_by_gain_looks_at_labels_and_says_so(folders, corpora, monkeypatch):
    monkeypatch.setattr(spam, "BEST_PER_USER", 5)
    turned = dataclasses.replace(corpora, spam=np.random.default_rng(1).permutation(corpora.spam))
    before, after = (spam.features(c, "information-gain") for c in (corpora, turned))
    assert before.shape != after.shape or (before != after).nnz > 0
    assert any("looks ahead" in note and "labels" in note for note in spam.load(folders).notes)


def test_information_gain_is_the_mutual_information(corpora):
    rows = np.flatnonzero(corpora.user == 1)
    counts, label = corpora.counts[rows], corpora.spam[rows]
    gain = spam.information_gain(counts, label)
    present = counts.toarray() > 0
    plainly = [mutual_info_score(label, column) for column in present.T]
    assert_allclose(gain, plainly, atol=1e-12)


def test_no_data(tmp_path):
    with pytest.raises(MissingData, match=r"'spam' is not in .*Androutsopoulos"):
        spam.load(tmp_path)


def test_unknown_selection(folders):
    with pytest.raises(ValueError, match="'frequency', not 'luck'"):
        spam.load(folders, selection="luck")


def test_a_missing_part_is_named(tmp_path):
    write_folders(tmp_path, [("pu1", 1, "1legit0.txt", [1, 2])])
    with pytest.raises(DamagedData, match=r"part2 is missing: unpack"):
        spam.load(tmp_path)


def test_a_missing_message_is_noticed(tmp_path, small):
    write_folders(tmp_path, list(made_up_messages())[1:])
    with pytest.raises(DamagedData, match=r"pu1 has 59 messages .* expected 60"):
        spam.load(tmp_path)


def test_words_in_a_message_are_refused(tmp_path):
    parts = [("pu1", part, "1legit0.txt", ["cheap"]) for part in range(1, 11)]
    write_folders(tmp_path, parts)
    with pytest.raises(DamagedData, match=r"1legit0\.txt is not a message of numbers .*cheap"):
        spam.load(tmp_path)


def test_archive_with_another_digest_is_refused(damaged_copy):
    data = damaged_copy(b"PK not the archive", spam.ARCHIVE, lambda content: content)
    with pytest.raises(DamagedData, match=rf"pu_corpora\.npz.*expected {spam.SHA256}"):
        spam.load(data)
