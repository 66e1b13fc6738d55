"""Every mask against its definition written out, and every lowering to spans against the mask itself."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt import bits
from overt.errors import ArgumentError, DtypeError, OvertError, ShapeError
from overt.grid import Cells, Shape
from overt.masks import Mask
from overt.masks.spans import Spans

Rule = Callable[[int, int, int, int], bool]
ROWS = np.arange(40)


def dense(rule: Rule, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> np.ndarray:
    """The definition, cell by cell; b counts batch rows in C order."""
    B = int(np.prod(batch))
    cells = [rule(*cell) for cell in product(range(B), range(heads), range(T), range(S))]
    return np.array(cells, bool).reshape(*batch, heads, T, S)


def lowered(mask: Mask, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> np.ndarray:
    """What the plan says: first ≤ s < last, and inside that what the rest says."""
    first, last, rest = mask.plan(T, S, batch, heads)
    full = (int(np.prod(batch)), heads, T)
    for edge in (first, last):
        assert edge.dtype.kind == "i"
        assert edge.size == 0 or (edge.min() >= 0 and edge.max() <= S)
    first, last = (np.broadcast_to(edge, full)[..., None] for edge in (first, last))
    keep = (first <= np.arange(S)) & (np.arange(S) < last)
    if rest is not None:
        keep = keep & rest.visible(Shape(batch, heads, T, S).cells())
    return keep.reshape(*batch, heads, T, S)


def check(mask: Mask, rule: Rule, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> None:
    expected = dense(rule, T, S, batch, heads)
    got = mask.dense(T, S, batch, heads)
    assert got.dtype == bool
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(lowered(mask, T, S, batch, heads), expected)


SIZES = [(4, 4), (3, 6), (6, 3), (1, 5), (5, 1), (0, 4), (4, 0), (0, 0)]
BATCHES = [(), (3,), (2, 2)]


def numbers(batch: tuple[int, ...], high: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high + 1, size=batch)


@pytest.mark.parametrize(("T", "S"), SIZES)
@pytest.mark.parametrize("batch", BATCHES)
def test_definitions(T: int, S: int, batch: tuple[int, ...]) -> None:
    def at(t: int) -> int:
        return t + S - T

    lengths, offsets = numbers(batch, S), numbers(batch, 4, 1) - 2
    n, o = lengths.reshape(-1), offsets.reshape(-1)
    ids = numbers((*batch, S), 2, 2)
    sorted_ids, d = np.sort(ids, axis=-1), ids.reshape(-1, S) if S else np.zeros((int(np.prod(batch)), 0), int)
    runs = np.sort(d, axis=-1)
    query_ids = numbers((*batch, T), 3, 4)
    e = query_ids.reshape(-1, T) if T else np.zeros((int(np.prod(batch)), 0), int)
    bits = numbers((*batch, 2, T, S), 1, 3) == 1
    cases: list[tuple[Mask, Rule]] = [
        (overt.causal(), lambda b, h, t, s: s <= at(t)),
        (overt.causal(0), lambda b, h, t, s: s <= t),
        (overt.causal(offset=-2), lambda b, h, t, s: s <= t - 2),
        (overt.causal(offsets), lambda b, h, t, s: s <= t + o[b]),
        (overt.window(0, 0), lambda b, h, t, s: s == at(t)),
        (overt.window(1, 2), lambda b, h, t, s: at(t) - 1 <= s <= at(t) + 2),
        (overt.window(2, 0, 1), lambda b, h, t, s: t - 1 <= s <= t + 1),
        (overt.window(1, 0, offsets), lambda b, h, t, s: t + o[b] - 1 <= s <= t + o[b]),
        (overt.window(None, 1), lambda b, h, t, s: s <= at(t) + 1),
        (overt.window(1, None), lambda b, h, t, s: s >= at(t) - 1),
        (overt.window(None, 0, offsets), lambda b, h, t, s: s <= t + o[b]),
        (overt.window(None, None), lambda b, h, t, s: True),
        (overt.padding(lengths), lambda b, h, t, s: s < n[b]),
        (overt.prefix(lengths), lambda b, h, t, s: s < n[b] or s <= at(t)),
        (overt.prefix(lengths, offsets), lambda b, h, t, s: s < n[b] or s <= t + o[b]),
        (overt.documents(ids), lambda b, h, t, s: at(t) >= 0 and d[b, at(t)] == d[b, s]),
        (overt.documents(sorted_ids), lambda b, h, t, s: at(t) >= 0 and runs[b, at(t)] == runs[b, s]),
        (overt.documents(query_ids, ids), lambda b, h, t, s: e[b, t] == d[b, s]),
        (overt.documents(query_ids, sorted_ids), lambda b, h, t, s: e[b, t] == runs[b, s]),
        (overt.keep(bits), lambda b, h, t, s: bits.reshape(-1, 2, T, S)[b, h, t, s]),
        (overt.where(lambda b, h, t, s: (b + 2 * h + t + s) % 3 > 0), lambda b, h, t, s: (b + 2 * h + t + s) % 3 > 0),
        # A predicate need not look at everything.
        (overt.where(lambda b, h, t, s: s < 2), lambda b, h, t, s: s < 2),
        (overt.where(lambda b, h, t, s: h == 0), lambda b, h, t, s: h == 0),
    ]
    for mask, rule in cases:
        check(mask, rule, T, S, batch, heads=2)
        check(~mask, lambda b, h, t, s, rule=rule: not rule(b, h, t, s), T, S, batch, heads=2)


def test_prefix_and_padding_of_one_length_for_all() -> None:
    for batch in ((), (2,)):
        check(overt.padding(2), lambda b, h, t, s: s < 2, 3, 4, batch)
        check(overt.prefix(2), lambda b, h, t, s: s < 2 or s <= t + 1, 3, 4, batch)
    # One row of lengths for several rows of batches broadcasts as NumPy does.
    check(overt.padding(np.array([1, 3])), lambda b, h, t, s: s < (1, 3)[b % 2], 2, 4, (3, 2))
    check(overt.padding(np.array([[1], [3]])), lambda b, h, t, s: s < (1, 3)[b // 2], 2, 4, (2, 2))


@pytest.mark.parametrize("axes", list(product((True, False), repeat=4)))
def test_keep_broadcasts(axes: tuple[bool, ...]) -> None:
    shape = tuple(n if whole else 1 for n, whole in zip((2, 3, 4, 5), axes, strict=True))
    bits = numbers(shape, 1) == 1
    expected = np.broadcast_to(bits, (2, 3, 4, 5))
    for array in (bits, bits[0] if shape[0] == 1 else bits):
        np.testing.assert_array_equal(overt.keep(array).dense(4, 5, (2,), 3), expected)
        np.testing.assert_array_equal(lowered(overt.keep(array), 4, 5, (2,), 3), expected)
    check(overt.keep(np.array(True)), lambda b, h, t, s: True, 2, 3)
    check(overt.keep([[True, False]]), lambda b, h, t, s: s == 0, 2, 2)


def test_documents_that_come_back() -> None:
    # Document 1 lies on both sides of document 2: no span can say that.
    ids = np.array([1, 1, 2, 2, 1])
    assert overt.documents(ids).plan(5, 5).rest is not None
    assert overt.documents(np.array([7, 7, 3, 3, 9])).plan(5, 5).rest is None
    check(overt.documents(ids), lambda b, h, t, s: ids[t] == ids[s], 5, 5)
    # Each row of a batch for itself.
    rows = np.array([[0, 0, 1, 1], [5, 4, 4, 4]])
    assert overt.documents(rows).plan(4, 4, (2,)).rest is None
    check(overt.documents(rows), lambda b, h, t, s: rows[b, t] == rows[b, s], 4, 4, (2,))


def test_a_window_to_the_own_position_is_causal() -> None:
    # Kernels know the one causal mask best.
    assert overt.window(None, 0) is overt.causal()
    assert repr(overt.window(None, 0, 2)) == repr(overt.causal(2))


SPANS = [
    overt.causal(),
    overt.window(1, 2),
    overt.window(None, 2),
    overt.window(1, None),
    ~overt.window(None, 1),
    overt.documents(np.array([1, 0, 0, 5, 2, 1]), np.array([2, 2, 0, 0, 0, 1])),
    overt.padding(3),
    overt.prefix(2),
    overt.documents(np.array([0, 0, 1, 1, 1, 2])),
    ~overt.causal(),
    ~overt.padding(4),
    overt.causal() & overt.padding(4),
    overt.window(2, 0) & overt.documents(np.array([0, 0, 1, 1, 1, 2])),
    overt.causal() | overt.padding(2),
    overt.window(1, 0) | overt.window(0, 1),
    ~(overt.causal() & overt.padding(4)),
    ~~overt.causal(),
]


@pytest.mark.parametrize("mask", SPANS, ids=range(len(SPANS)))
def test_what_is_a_span_is_lowered_to_one(mask: Mask) -> None:
    # Bits cost a kernel more than spans: these masks need none.
    assert mask.plan(6, 6).rest is None
    np.testing.assert_array_equal(lowered(mask, 6, 6), mask.dense(6, 6))


GAPS = [
    overt.window(0, 0, 0) | overt.window(0, 0, 3),
    overt.padding(1) | ~overt.padding(4),
    overt.window(0, 1, -9) | overt.window(1, 0) | overt.padding(1),
    # Here and there a span is empty, and elsewhere there is a gap.
    (overt.causal(0) & ~overt.padding(3)) | overt.padding(1),
    ~overt.window(1, 1),
    ~(overt.causal() & ~overt.padding(2)),
    overt.causal() & ~overt.window(1, 1),
    ~overt.documents(np.array([0, 0, 1, 1, 1, 2])),
]


@pytest.mark.parametrize("mask", GAPS, ids=range(len(GAPS)))
def test_what_has_a_gap_is_no_span(mask: Mask) -> None:
    assert mask.plan(6, 6).rest is not None
    np.testing.assert_array_equal(lowered(mask, 6, 6), mask.dense(6, 6))


def test_a_span_bounds_what_bits_decide() -> None:
    mask = overt.causal() & overt.where(lambda b, h, t, s: s % 2 == 0)
    first, last, rest = mask.plan(5, 5)
    assert rest is not None
    assert np.array_equal(np.broadcast_to(last, (1, 1, 5)).reshape(-1), np.arange(1, 6))
    assert np.broadcast_to(first, (1, 1, 5)).max() == 0


@st.composite
def expressions(
    draw: st.DrawFn, batch: tuple[int, ...], H: int, T: int, S: int, depth: int = 3
) -> tuple[Mask, np.ndarray]:
    """A mask, and the dense array that it must mean."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kind = draw(st.integers(0, 10 if depth else 6))
    offset = draw(st.sampled_from([None, 0, 2, -3, "rows"]))
    if offset == "rows":
        offset = rng.integers(-3, 4, size=batch)
    start = np.asarray(S - T if offset is None else offset)
    start = np.broadcast_to(start, batch)[..., None, None, None]
    t, s = np.arange(T)[:, None], np.arange(S)
    distance = s - (t + start)
    lengths = rng.integers(0, S + 1, size=batch)
    full = (*batch, H, T, S)
    if kind == 0:
        return overt.causal(offset), np.broadcast_to(distance <= 0, full)
    if kind == 1:
        left, right = (draw(st.one_of(st.none(), st.integers(0, 6))) for _ in range(2))
        low, high = -np.inf if left is None else -left, np.inf if right is None else right
        return overt.window(left, right, offset), np.broadcast_to((low <= distance) & (distance <= high), full)
    if kind == 2:
        return overt.padding(lengths), np.broadcast_to(s < lengths[..., None, None, None], full)
    if kind == 3:
        keep = (s < lengths[..., None, None, None]) | (distance <= 0)
        return overt.prefix(lengths, offset), np.broadcast_to(keep, full)
    if kind == 4:
        ids = rng.integers(0, 3, size=(*batch, S))
        ids = np.sort(ids, axis=-1) if draw(st.booleans()) else ids
        if draw(st.booleans()):
            own = rng.integers(-1, 3, size=(*batch, T))
            keep = own[..., None, :, None] == ids[..., None, None, :]
            return overt.documents(own, ids), np.broadcast_to(keep, full)
        position = np.arange(T) + S - T
        here = ids[..., np.maximum(position, 0)] if S else np.zeros((*batch, T), int)
        keep = (here[..., :, None] == ids[..., None, :]) & (position >= 0)[:, None]
        return overt.documents(ids), np.broadcast_to(keep[..., None, :, :], full)
    if kind == 5:
        axes = tuple(draw(st.sampled_from([1, n])) for n in full)
        bits = rng.random(axes) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
        return overt.keep(bits), np.broadcast_to(bits, full)
    if kind == 6:
        modulus = draw(st.integers(2, 4))
        b = np.arange(int(np.prod(batch))).reshape(batch)[..., None, None, None]
        keep = (b + np.arange(H)[:, None, None] + t + s) % modulus > 0
        return overt.where(lambda b, h, t, s: (b + h + t + s) % modulus > 0), np.broadcast_to(keep, full)
    left_mask, left_keep = draw(expressions(batch, H, T, S, depth - 1))
    if kind == 7:
        return ~left_mask, ~left_keep
    right_mask, right_keep = draw(expressions(batch, H, T, S, depth - 1))
    if kind == 8:
        return left_mask | right_mask, left_keep | right_keep
    return left_mask & right_mask, left_keep & right_keep


@given(data=st.data(), batch=st.sampled_from([(), (2,), (2, 2), (0,)]), H=st.integers(1, 2))
def test_any_composition(data: st.DataObject, batch: tuple[int, ...], H: int) -> None:
    T, S = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    mask, expected = data.draw(expressions(batch, H, T, S))
    np.testing.assert_array_equal(mask.dense(T, S, batch, H), expected)
    np.testing.assert_array_equal(lowered(mask, T, S, batch, H), expected)


@given(data=st.data(), batch=st.sampled_from([(), (2,), (2, 2)]))
def test_attention_sees_what_the_mask_says(data: st.DataObject, batch: tuple[int, ...]) -> None:
    T, S = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    mask, expected = data.draw(expressions(batch, 2, T, S))
    q, k, v = (np.zeros((*batch, 2, n, 1), np.float32) for n in (T, S, S))
    seen = overt.attend(q, k, v, mask=mask)
    share = expected / np.maximum(expected.sum(axis=-1, keepdims=True), 1)
    np.testing.assert_allclose(seen.weights[...], share, rtol=1e-6)
    np.testing.assert_allclose(seen.received(), share.sum(axis=-2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(overt.trace(q, k, v, mask=mask)["weights"], share, rtol=1e-6)
    np.testing.assert_array_equal(overt.attend(q, k, v, mask=expected).weights[...], seen.weights[...])


@given(data=st.data())
def test_any_cells(data: st.DataObject) -> None:
    """The definition answers for cells picked one by one as it does for all of them."""
    T, S = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    mask, expected = data.draw(expressions((2, 2), 2, T, S))
    rng = np.random.default_rng(0)
    b, h, t, s = (rng.integers(0, n, size=20) for n in (4, 2, T, S))
    cells = Cells(Shape((2, 2), 2, T, S), b, h, t, s)
    got = np.broadcast_to(mask.visible(cells), 20)
    np.testing.assert_array_equal(got, expected.reshape(4, 2, T, S)[b, h, t, s])


HUGE = [sys.maxsize - 1, sys.maxsize, 2**70]


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize(("T", "S"), [(3, 3), (5, 2), (2, 5)])
def test_a_window_without_an_end(T: int, S: int, huge: int) -> None:
    # sys.maxsize is what people write for "no limit".
    at = S - T
    check(overt.window(huge, huge), lambda b, h, t, s: True, T, S)
    check(overt.window(huge, 0), lambda b, h, t, s: s <= t + at, T, S)
    check(overt.window(0, huge), lambda b, h, t, s: s >= t + at, T, S)


@pytest.mark.parametrize("huge", [2**40, sys.maxsize - 1, sys.maxsize])
def test_an_offset_beyond_all_lengths(huge: int) -> None:
    check(overt.causal(offset=huge), lambda b, h, t, s: True, 3, 4)
    check(overt.causal(offset=-huge), lambda b, h, t, s: False, 3, 4)
    check(overt.window(1, 1, huge), lambda b, h, t, s: False, 3, 4)
    check(overt.prefix(2, -huge), lambda b, h, t, s: s < 2, 3, 4)


def test_masks_are_values() -> None:
    # What was given may change afterwards without changing the mask.
    lengths, ids, offset = np.array([1, 2]), np.array([0, 1, 1]), np.array([0, 1])
    made = [overt.padding(lengths), overt.prefix(lengths), overt.documents(ids), overt.causal(offset)]
    before = [mask.dense(3, 3, (2,)) for mask in made]
    for given_array in (lengths, ids, offset):
        given_array[:] = 0
    for mask, expected in zip(made, before, strict=True):
        np.testing.assert_array_equal(mask.dense(3, 3, (2,)), expected)
    # And composing leaves the parts as they were.
    causal = overt.causal()
    _ = causal & overt.padding(1), ~causal, causal | overt.padding(1)
    np.testing.assert_array_equal(causal.dense(3, 3)[0], np.tri(3, dtype=bool))


def test_masks_can_be_pickled_and_used_again() -> None:
    mask = pickle.loads(pickle.dumps(overt.causal() & ~overt.padding(np.array([1, 2])) | overt.window(1, 1)))
    np.testing.assert_array_equal(mask.dense(2, 3, (2,)), pickle.loads(pickle.dumps(mask)).dense(2, 3, (2,)))
    assert mask.dense(4, 4, (2,)).shape == (2, 1, 4, 4)


def test_a_mask_array_does_not_outlive_its_call() -> None:
    # A dense mask may be the largest thing in memory: nothing may hold on to it.
    array = np.ones((2, 6, 6), bool)
    alive = weakref.ref(array)
    q = np.zeros((2, 6, 3), np.float32)
    overt.attention(q, q, q, mask=array)
    overt.attention(q, q, q, mask=overt.keep(array) & overt.causal())
    del array
    gc.collect()
    assert alive() is None


def test_spans_that_are_a_mask_with_a_name_say_so() -> None:
    first, last = np.zeros((1, 1, 6), int), np.arange(1, 7)[None, None]
    assert repr(Spans(first, last)) == "causal()"
    assert repr(Spans(first, last + 3)) == "causal(offset=3)"
    # A cache that has room for no more.
    assert repr(Spans(first, np.minimum(last + 3, 7))) == "causal(offset=3)"
    assert repr(Spans(np.maximum(last - 3, 0), last)) == "window(2, 0)"
    # Texts of a batch that are padded on the left, where what stands in the padding sees nothing, or on the right.
    begins, ends = np.array([2, 0])[:, None, None], np.array([3, 6])[:, None, None]
    left = np.maximum(first, begins), np.where(last > begins, last, 0)
    for spans, name in (
        (left, "causal() & ~padding([2, 0])"),
        ((np.maximum(left[0], last - 3), left[1]), "window(2, 0) & ~padding([2, 0])"),
        ((first, np.minimum(last, ends)), "causal() & padding([3, 6])"),
        ((begins, first[..., :1] + 6), "~padding([2, 0])"),
        ((first[..., :1], ends), "padding([3, 6])"),
        ((begins, begins + 3), "~padding([2, 0]) & padding([5, 3])"),
        ((first[..., :1], last[..., -1:]), "padding([6])"),
    ):
        mask = Spans(*spans)
        assert repr(mask) == name
        given = eval(
            name,
            {x: getattr(overt, x) for x in ("causal", "window")} | {"padding": lambda n: overt.padding(np.array(n))},
        )
        np.testing.assert_array_equal(mask.dense(6, 6, (2,)), given.dense(6, 6, (2,)))
    for other in (
        Spans(first, last[..., ::-1]),
        Spans(np.where(last > begins, left[0], 0), np.where(last > begins, last, 6)),
        Spans(first, np.concatenate([last, last[..., ::-1]], 1)),
        Spans(first, last * 0),
    ):
        assert repr(other).startswith("spans(arrays")


def test_repr_names_the_mask() -> None:
    for mask, words in (
        (overt.causal(), ["causal"]),
        (overt.window(2, 1), ["window", "2", "1"]),
        (overt.padding(np.array([4, 3])), ["padding", "4", "3"]),
        (overt.prefix(2), ["prefix", "2"]),
        (overt.documents(np.array([0, 1])), ["documents"]),
        (overt.keep(np.ones((2, 2), bool)), ["keep"]),
        (overt.where(lambda b, h, t, s: s > 0), ["where"]),
        (overt.causal() & ~overt.padding(1), ["causal", "padding"]),
    ):
        assert all(word in repr(mask).lower() for word in words), repr(mask)
        assert len(repr(mask)) < 300


# Worked out once.


@given(data=st.data(), batch=st.sampled_from([(), (2,), (2, 2), (0,)]), H=st.integers(1, 2))
def test_a_settled_mask_is_the_same(data: st.DataObject, batch: tuple[int, ...], H: int) -> None:
    T, S = data.draw(st.integers(0, 7)), data.draw(st.sampled_from([0, 1, 3, 7, 8, 9, 17]))
    mask, expected = data.draw(expressions(batch, H, T, S))
    shape = Shape(batch, H, T, S)
    with pytest.MonkeyPatch.context() as patch:
        # Some rows at a time, and with no room for bits at all.
        patch.setattr(bits, "_CELLS", data.draw(st.sampled_from([1, 40, 1 << 21])))
        patch.setattr(bits, "_BYTES", data.draw(st.sampled_from([0, 1 << 26])))
        known = bits.settled(mask, shape)
        np.testing.assert_array_equal(known.dense(T, S, batch, H), expected)
        np.testing.assert_array_equal(lowered(known, T, S, batch, H), expected)
    if expected.size:
        rng = np.random.default_rng(0)
        b, h, t, s = (rng.integers(0, n, size=20) for n in (shape.B, H, T, S))
        got = np.broadcast_to(known.visible(Cells(shape, b, h, t, s)), 20)
        np.testing.assert_array_equal(got, expected.reshape(-1, H, T, S)[b, h, t, s])
    assert repr(known) == repr(mask)


@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("compose", [lambda m: m, lambda m: m | overt.window(0, 0), lambda m: overt.causal() & m])
def test_a_predicate_is_asked_once_for_all_questions(span: bool, compose: Any) -> None:
    asked = []

    def predicate(b: np.ndarray, h: np.ndarray, t: np.ndarray, s: np.ndarray) -> np.ndarray:
        asked.append(t)
        return s <= t if span else (t + s) % 3 > 0

    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 40, 4))
    mask = compose(overt.where(predicate))
    seen = overt.attend(q, k, v, mask=mask)
    assert sum(t.size for t in asked) <= 40 + 1
    asked.clear()
    seen.received(), seen.entropy(), seen.top(3), seen.map(4, 4), seen.gradient(seen.output)
    weights = seen.weights[...], seen.weights[0, 3:9], seen.weights[:, [1, 2], [3, 4]]
    assert not asked
    dense = np.broadcast_to(np.tri(40, dtype=bool) if span else np.add.outer(ROWS, ROWS) % 3 > 0, (1, 2, 40, 40))
    other = overt.attend(q, k, v, mask=compose(overt.keep(dense[0])))
    for got, index in zip(weights, (..., (0, slice(3, 9)), (slice(None), [1, 2], [3, 4])), strict=True):
        np.testing.assert_allclose(got, other.weights[index], rtol=1e-12)
    # What is one span per query costs no bits.
    plan = seen.problem.mask.plan(40, 40, (), 2)
    assert (plan.rest is None) == span


def test_a_predicate_is_asked_once_for_all_questions_about_tensors() -> None:
    asked = []
    mask = overt.where(lambda b, h, t, s: asked.append(t) or (t + s) % 3 > 0)
    q = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 40, 4)))
    seen = overt.attend(q, q, q, mask=mask)
    rows = seen.weights[...]
    asked.clear()
    seen.received(), seen.entropy(), seen.top(3), seen.map(4, 4), seen.weights[0, 3:9], seen.weights[:, [1, 2], [3, 4]]
    assert not asked
    np.testing.assert_allclose(rows.sum(dim=-2), seen.received())


def test_what_is_kept_of_a_mask_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_BYTES", 40 * 5 - 1)
    asked = []
    mask = overt.where(lambda b, h, t, s: asked.append(t) or (t + s) % 3 > 0)
    q = np.random.default_rng(0).normal(size=(2, 40, 4))
    seen = overt.attend(q, q, q, mask=mask)
    asked.clear()
    expected = overt.attend(q, q, q, mask=np.add.outer(ROWS, ROWS) % 3 > 0)
    np.testing.assert_allclose(seen.received(), expected.received())
    np.testing.assert_allclose(seen.weights[0, 1], expected.weights[0, 1])
    assert asked


# What does not fit.


@pytest.mark.parametrize("other", [np.ones((2, 2), bool), True, None, 1, "causal", overt.causal])
def test_masks_combine_with_masks_alone(other: Any) -> None:
    for combine in (lambda: overt.causal() & other, lambda: overt.causal() | other):
        with pytest.raises(DtypeError, match=r"overt\.keep"):
            combine()


@pytest.mark.parametrize("other", [np.ones((2, 2), bool), np.True_, True])
def test_masks_combine_from_the_right_too(other: Any) -> None:
    for combine in (lambda: other & overt.causal(), lambda: other | overt.causal()):
        with pytest.raises(DtypeError, match=r"overt\.keep"):
            combine()


def test_and_is_not_ampersand() -> None:
    # ``a and b`` is b, silently; NumPy refuses it for arrays for that reason.
    with pytest.raises(OvertError, match="&"):
        _ = overt.causal() and overt.padding(1)
    with pytest.raises(OvertError, match="~"):
        _ = not overt.causal()


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (overt.padding(np.array([1, 2])), ShapeError, r"padding lengths.*\(2,\).*\(3,\).*one per batch row"),
        (overt.padding(5), ArgumentError, r"padding lengths.*0…4.*5"),
        (overt.padding(-1), ArgumentError, r"padding lengths.*0…4.*-1"),
        (overt.prefix(np.array([1, 2, 9])), ArgumentError, r"prefix lengths.*0…4.*9"),
        (overt.prefix(np.array([[1], [2]])), ShapeError, r"prefix lengths.*\(2, 1\).*\(3,\)"),
        (overt.causal(np.array([1, 2])), ShapeError, r"offsets.*\(2,\).*\(3,\)"),
        (overt.window(1, 1, np.array([1, 2])), ShapeError, r"offsets.*\(2,\).*\(3,\)"),
        (overt.documents(np.arange(5)), ShapeError, r"document ids.*5.*4.*one id per key"),
        (overt.documents(np.zeros((2, 4), int)), ShapeError, r"document ids.*\(2,\).*\(3,\)"),
        (overt.documents(np.arange(3), np.arange(4)), ShapeError, r"document ids.*3.*q has 2.*one id per query"),
        (overt.documents(np.arange(2), np.arange(5)), ShapeError, r"document ids.*5.*k has 4.*one id per key"),
        (overt.documents(np.zeros((2, 2), int), np.arange(4)), ShapeError, r"document ids.*\(2,\).*\(3,\)"),
        (overt.packed([0, 2], [0, 5]), ShapeError, r"cu_seqlens of keys end at 5.*k has 4"),
        (overt.packed([0, 1, 3], [0, 2, 4]), ShapeError, r"cu_seqlens of queries end at 3.*q has 2"),
        (overt.keep(np.ones((4, 2), bool)), ShapeError, r"mask.*\(4, 2\).*\(3, 2, 2, 4\)"),
        (overt.keep(np.ones((3, 4), bool)), ShapeError, r"mask.*\(3, 4\).*mask\[:, None, None, :\]"),
        (overt.where(lambda b, h, t, s: s - t), DtypeError, r"predicate.*booleans.*int64.*s <= t"),
        (overt.where(lambda b, h, t, s: np.ones(9, bool)), ShapeError, r"predicate.*\(9,\)"),
        (overt.where(lambda b, h, t, s: None), DtypeError, r"predicate.*booleans"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_masks_that_do_not_fit(mask: Mask, error: type, message: str) -> None:
    for fitting in (mask, mask & overt.causal(), overt.causal() | mask, ~mask):
        with pytest.raises(error, match=message):
            fitting.dense(2, 4, (3,), 2)
        with pytest.raises(error, match=message):
            overt.attention(*(np.zeros((3, 2, n, 1)) for n in (2, 4, 4)), mask=fitting)
