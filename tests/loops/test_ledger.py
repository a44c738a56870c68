"""The books find what they are there to find: each of these is a broken promise, made by hand."""
# pylint: disable=protected-access
import pytest

from batch import batch
from harness import sent
from ledger import ACK, Broken, Ledger, RawLog, same_logs
from marks import key_of, value_of


def told(folder, acks):
    with open(folder / "7@t.acks", "ab") as f:
        for number, offset in acks:
            f.write(ACK.pack(0, 0, number, offset))


def keep(folder, log, acks, once=True, complete=None):
    """log: the numbers that stand at offsets 0, 1, ..; acks: (number, offset)."""
    told(folder, acks)
    ledger = Ledger(str(folder), "t", 1, once).take_acks()
    for offset, number in enumerate(log):
        key = key_of(7, 0, 0, number)
        ledger.saw(0, offset, key, value_of(key))
    ledger.settle()
    ledger.complete(sent({7: {"topic": "t", "sent": [[0, 0, len(log) if complete is None else complete]]}}, "t"))
    return ledger


def test_what_is_right_is_not_blamed(tmp_path):
    ledger = keep(tmp_path, [0, 1, 2], [(2, 2), (0, 0)])
    assert ledger.acknowledged == 2 and not ledger.pending
    ledger.same(0, [(n, key_of(7, 0, 0, n)) for n in range(3)])


@pytest.mark.parametrize("log, acks, complete, says", [
    ([0, 1], [(0, 0), (2, 2)], None, "was acknowledged at 2, where nothing is"),
    ([0, 2], [(0, 0)], None, "missing"),
    ([0, 1, 1], [], None, "doubled"),
    ([1, 0], [], None, "out of order"),
    ([0, 1], [(0, 1)], None, "was acknowledged at 1, where stands record 1"),
    ([0, 1], [], 3, r"\(3, 2\)"),
], ids=["lost at the end", "lost within", "doubled", "out of order", "at another offset", "not all there"])
def test_a_broken_promise_is_found(tmp_path, log, acks, complete, says):
    with pytest.raises(Broken, match=says):
        keep(tmp_path, log, acks, complete=complete)


def test_writers_that_may_lose_are_not_let_double(tmp_path):
    keep(tmp_path, [0, 2, 5], [(2, 1)], once=False)
    with pytest.raises(Broken, match="doubled"):
        keep(tmp_path, [0, 2, 2], [], once=False)


def test_a_changed_value_and_another_reading_are_found(tmp_path):
    ledger = Ledger(str(tmp_path), "t", 1)
    key = key_of(7, 0, 0, 0)
    with pytest.raises(Broken, match="another value"):
        ledger.saw(0, 0, key, value_of(key) + b".")
    ledger.saw(0, 0, key, value_of(key))
    with pytest.raises(Broken, match="given twice"):
        ledger.saw(0, 0, key, value_of(key))
    for other in ([], [(1, key)], [(0, key), (0, key)]):
        with pytest.raises(Broken):
            ledger.same(0, other)


def test_bytes_that_change_and_gaps_are_found():
    first, second = batch([b"a", b"b"]), batch([b"c"], base_offset=2)
    log = RawLog("t", 0)
    assert log._take(first + second[:-1], 0, 0) == (len(first), 2)
    assert log._take(second, len(first), 2) == (len(second), 3)
    assert log.data == first + second and [h.base for h in log.headers] == [0, 2]
    log._take(first + second, 0, 0) # the same again
    assert len(log.headers) == 2
    with pytest.raises(Broken, match="not what it was"):
        log._take(first + batch([b"x"], base_offset=2), 0, 0)
    with pytest.raises(Broken, match="where 3 should be"):
        log._take(batch([b"d"], base_offset=4), len(first) + len(second), 3)


def test_logs_that_differ_are_found():
    one, other = RawLog("t", 0), RawLog("t", 0)
    one.data[:], other.data[:] = b"abcdef", b"abcdef"
    same_logs(one, other)
    del other.data[4:]
    same_logs(one, other, prefix=True)
    with pytest.raises(Broken, match="byte 4"):
        same_logs(one, other)
    other.data[1:2] = b"x"
    with pytest.raises(Broken, match="byte 1"):
        same_logs(one, other, prefix=True)
    with pytest.raises(Broken):
        same_logs(other, one, prefix=True)
