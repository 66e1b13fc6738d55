"""Packed sequences in one call against a call for each sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.masks import Mask
from overt.torch import blocks
from overt.torch.call import Call

# What stands beside the packing, made for all sequences at once (None) or for the sequence of one number.
BESIDE: dict[str, Callable[[Any, np.ndarray], dict[str, Any]]] = {
    "nothing": lambda i, lengths: {},
    "causal": lambda i, lengths: {"mask": overt.causal()},
    "top left": lambda i, lengths: {"mask": overt.causal(offset=0)},
    "window": lambda i, lengths: {"mask": overt.window(2, 1)},
    "not causal": lambda i, lengths: {"mask": ~overt.causal()},
    "padding": lambda i, lengths: {"mask": overt.padding(lengths if i is None else lengths[i])},
    "prefix": lambda i, lengths: {"mask": overt.prefix(lengths if i is None else lengths[i])},
    "gaps": lambda i, lengths: {"mask": overt.causal() & ~overt.window(1, 0)},
    "alibi": lambda i, lengths: {"bias": overt.alibi(np.array([0.5, 0.1])), "mask": overt.causal()},
    "alibi from the start": lambda i, lengths: {"bias": overt.alibi(np.array([0.5, 0.1]), offset=1)},
    "relative": lambda i, lengths: {"bias": overt.relative(np.sin(np.arange(16.0)).reshape(8, 2), max_distance=9)},
    "both": lambda i, lengths: {
        "bias": overt.alibi(np.ones(2)) + overt.relative(np.sin(np.arange(16.0)).reshape(8, 2), offset=1),
        "sinks": np.array([0.5, -1.0]),
        "softcap": 3.0,
    },
}


def edges(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(int)


@given(data=st.data(), name=st.sampled_from(sorted(BESIDE)))
def test_packed_is_each_sequence_for_itself(data: st.DataObject, name: str) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=5)))
    same = data.draw(st.booleans())
    keys = counts if same else np.array([data.draw(st.integers(0, 6)) for _ in counts])
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    batch = data.draw(st.sampled_from([(), (2,)]))
    lengths = rng.integers(0, keys + 1)
    cq, ck = edges(counts), edges(keys)
    q, k, v, dy = (
        rng.normal(size=(*batch, heads, n, width))
        for heads, n, width in ((2, cq[-1], 3), (1, ck[-1], 3), (1, ck[-1], 2), (2, cq[-1], 2))
    )
    options = BESIDE[name](None, lengths)
    packed = overt.packed(cq) if same and data.draw(st.booleans()) else overt.packed(cq, ck)
    options["mask"] = packed & options["mask"] if "mask" in options else packed
    seen = overt.attend(q, k, v, **options)
    gradient = seen.gradient(dy)
    weights = np.zeros((*batch, 2, cq[-1], ck[-1]))
    bias: Any = None
    for i in range(len(counts)):
        rows, columns = slice(*cq[i : i + 2]), slice(*ck[i : i + 2])
        alone = overt.attend(q[..., rows, :], k[..., columns, :], v[..., columns, :], **BESIDE[name](i, lengths))
        np.testing.assert_allclose(seen.output[..., rows, :], alone.output, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(seen.lse[..., rows], alone.lse, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(seen.received()[..., columns], alone.received(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(seen.entropy()[..., rows], alone.entropy(), rtol=1e-9, atol=1e-12)
        weights[..., rows, columns] = alone.weights[...]
        own = alone.gradient(dy[..., rows, :])
        np.testing.assert_allclose(gradient.q[..., rows, :], own.q, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(gradient.k[..., columns, :], own.k, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(gradient.v[..., columns, :], own.v, rtol=1e-8, atol=1e-10)
        parts = own.bias if isinstance(own.bias, tuple) else (own.bias,)
        bias = parts if bias is None else [a if b is None else a + b for a, b in zip(parts, bias, strict=True)]
    np.testing.assert_allclose(seen.weights[...], weights, rtol=1e-9, atol=1e-12)
    if weights.size:
        t, s = rng.integers(0, weights.shape[-2], 9), rng.integers(0, weights.shape[-1], 9)
        np.testing.assert_allclose(seen.weights[..., t, s], weights[..., t, s], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(overt.trace(q, k, v, **options)["weights"], weights, rtol=1e-9, atol=1e-12)
    got = gradient.bias if isinstance(gradient.bias, tuple) else (gradient.bias,)
    for one, expected in zip(got, bias, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", sorted(BESIDE))
def test_packed_tensors(name: str, same: bool) -> None:
    counts, keys = np.array([3, 0, 4, 2]), np.array([4, 2, 3, 0])
    cq, ck = edges(counts), edges(counts if same else keys)
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=size) for size in ((2, cq[-1], 3), (1, ck[-1], 3), (1, ck[-1], 2)))
    options = BESIDE[name](None, np.minimum(np.diff(ck), 2))
    packed = overt.packed(cq, ck)
    options["mask"] = packed & options["mask"] if "mask" in options else packed
    expected = overt.attend(q, k, v, **options)
    dy = rng.normal(size=expected.output.shape)
    gradient = expected.gradient(dy)
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    seen = overt.attend(*tensors, **options)
    seen.output.backward(torch.from_numpy(dy))
    asked = {"score": overt.scaled_dot(), "bias": None, "softcap": None, "sinks": None, "dropout": None, **options}
    problem = Call.of(*tensors, num_threads=None, **asked).opened(*tensors)
    with torch.no_grad():
        by_blocks = [problem.outward(x) for x in blocks.forward(problem)]
        torch.compiler.reset()
        compiled = torch.compile(lambda *x: overt.attention(*x, **options), fullgraph=True, backend="eager")(*tensors)
    for got, wanted in (
        (seen.output, expected.output),
        (seen.lse, expected.lse),
        (seen.received(), expected.received()),
        (by_blocks[0], expected.output),
        (by_blocks[1], expected.lse),
        (compiled, expected.output),
        *zip((x.grad for x in tensors), gradient[:3], strict=True),
    ):
        np.testing.assert_allclose(got.detach(), wanted, rtol=1e-9, atol=1e-11)


def test_long_sequences_in_slices() -> None:
    # A bias that is no view of memory is worked out for some rows at a time.
    rng = np.random.default_rng(0)
    cq, ck = edges(np.array([700, 0, 900])), edges(np.array([800, 300, 1100]))
    q, k, v = (rng.normal(size=(2, n, 8)).astype(np.float32) for n in (cq[-1], ck[-1], ck[-1]))
    options = {"bias": overt.alibi(np.float32([0.5, 0.1])) + rng.normal(size=ck[-1]).astype(np.float32)}
    seen = overt.attend(q, k, v, mask=overt.packed(cq, ck) & overt.causal(), **options)
    for i in (0, 2):
        rows, keys = slice(*cq[i : i + 2]), slice(*ck[i : i + 2])
        alone = overt.attention(
            q[:, rows], k[:, keys], v[:, keys], mask=overt.causal(),
            bias=overt.alibi(np.float32([0.5, 0.1])) + options["bias"].parameter[1][keys],
        )  # fmt: skip
        np.testing.assert_allclose(seen.output[:, rows], alone, rtol=2e-5, atol=2e-6)


SPANS = [
    overt.packed([0, 3, 3, 6]),
    overt.packed([0, 3, 6]) & overt.causal(),
    overt.causal() & overt.packed([0, 3, 6]) & overt.window(1, 0),
    overt.packed([0, 3, 6], [0, 2, 6]) & overt.prefix([1, 2]),
]


@pytest.mark.parametrize("mask", SPANS, ids=repr)
def test_packed_is_lowered_to_spans(mask: Mask) -> None:
    # Spans alone cost a kernel nothing outside the sequences.
    assert mask.plan(6, 6).rest is None


def test_heads_behind_positions_are_a_view() -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 6, 2, 4))
    mask = overt.packed([0, 2, 6]) & overt.causal()
    y = overt.attention(q.swapaxes(0, 1), k.swapaxes(0, 1), v.swapaxes(0, 1), mask=mask).swapaxes(0, 1)
    alone = overt.attention(*(x[2:].swapaxes(0, 1) for x in (q, k, v)), mask=overt.causal()).swapaxes(0, 1)
    np.testing.assert_allclose(y[2:], alone)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (([1, 4],), ArgumentError, r"cu_seqlens must begin with 0.*\[1, 4\].*cumulative"),
        (([0, 3, 2],), ArgumentError, r"cu_seqlens.*never fall"),
        (([0, 3], [0, 3, 2]), ArgumentError, r"cu_seqlens_k.*never fall"),
        (([0, 3], [0, 2, 3]), ShapeError, r"cu_seqlens name 1 sequences but cu_seqlens_k 2"),
        (([],), (DtypeError, ShapeError), r"cu_seqlens"),
        ((4,), ShapeError, r"cu_seqlens have shape \(\).*N \+ 1"),
        (([[0, 4]],), ShapeError, r"cu_seqlens have shape \(1, 2\)"),
        (([0.0, 4.0],), DtypeError, r"cu_seqlens must be integers, not float64"),
    ],
    ids=str,
)
def test_cumulative_lengths_that_cannot_be(given: tuple[Any, ...], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        overt.packed(*given)


def test_what_stands_beside_is_per_sequence() -> None:
    q = np.zeros((2, 6, 3))
    packed = overt.packed([0, 2, 6])
    with pytest.raises(ShapeError, match=r"prefix lengths have shape \(3,\).*2 packed sequences"):
        overt.attention(q, q, q, mask=packed & overt.prefix([1, 1, 1]))
    with pytest.raises(ArgumentError, match=r"padding lengths.*number of keys of their packed sequence"):
        overt.attention(q, q, q, mask=packed & overt.padding([3, 4]))
    with pytest.raises(ArgumentError, match="differ in where these begin"):
        packed & overt.packed([0, 3, 6])
    np.testing.assert_array_equal((packed & overt.packed([0, 2, 6])).dense(6, 6), packed.dense(6, 6))
