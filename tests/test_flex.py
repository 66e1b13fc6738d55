"""Attention by FlexAttention, which other devices have: forced here, by the definition that torch has of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

import overt
from overt.torch import attend, attention, blocks, flex, gradients
from overt.torch.call import Call
from test_tensors import definition

OPTIONS: dict[str, Any] = dict.fromkeys(("mask", "bias", "softcap", "sinks", "dropout", "num_threads"))
T, S = 100, 130
RNG = torch.Generator().manual_seed(0)
MASKS: dict[str, Any] = {
    "none": None,
    "causal": overt.causal(),
    "window": overt.window(20, 3),
    "padded": overt.causal() & overt.padding([10, 70]),
    "prefix": overt.prefix([3, 8]),
    "documents": overt.documents(np.arange(S) // 37),
    "blind": overt.padding([0, 50]),
    "union": overt.window(40, 0) | overt.prefix([5, 9]),
    "packed": overt.packed([0, 40, T], [0, 90, S]) & overt.causal(),
    "keys": overt.keep(torch.rand((2, 1, 1, S), generator=RNG) > 0.3) & overt.causal(),
    "cells": torch.rand((1, T, S), generator=RNG) > 0.3,
}
BIASES: dict[str, Any] = {
    "none": None,
    "alibi": overt.alibi(torch.rand(4, generator=RNG) / 8),
    "t5": overt.relative(torch.randn(32, 4, generator=RNG)),
    "dense": torch.randn(1, 4, T, S, generator=RNG),
    "hidden": torch.zeros(2, 1, 1, S).masked_fill(torch.rand((2, 1, 1, S), generator=RNG) < 0.3, -torch.inf),
    "sum": overt.alibi(torch.rand(4, generator=RNG) / 8) + torch.randn(4, 1, S, generator=RNG),
}
LEFT = {
    ("cells", "sum"),
    ("packed", "alibi"),
    ("packed", "t5"),
    ("packed", "sum"),
    ("cells", "hidden"),
    ("keys", "dense"),
}


@pytest.fixture(autouse=True)
def _forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "_DEVICES", ("cpu", "meta"))
    monkeypatch.setattr(flex, "_can", lambda problem, real=flex._can: with_one_cell(real, problem))
    monkeypatch.setattr(flex, "_refused", set())
    monkeypatch.setattr(flex, "_compiled", lambda parts: flex._mixed)


def with_one_cell(real: Any, problem: Any) -> bool:
    """As if any problem were more than a block of rows."""
    cells, blocks.CELLS = blocks.CELLS, 0
    try:
        return real(problem)
    finally:
        blocks.CELLS = cells


def call(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    return Call.of(q, k, v, **{"score": overt.scaled_dot(), **OPTIONS, **options}).described(q, k, v)


def draw(dtype: torch.dtype = torch.float32, width: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = (2, 4, T, width), (2, 2, S, width), (2, 2, S, width)
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


def exact(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    return blocks.forward(call(q.double(), k.double(), v.double(), **options))


def check(found: Any, expected: tuple[Tensor, Tensor], atol: float = 5e-6) -> None:
    assert found is not None
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=atol, equal_nan=True)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("mask", MASKS)
def test_it_means_the_same(mask: str) -> None:
    q, k, v = draw()
    for bias, softcap, sinks in (
        ("none", None, torch.linspace(-2, 3, 4)),
        ("alibi", 2.0, None),
        ("t5", None, None),
        ("dense", 5.0, torch.linspace(-2, 3, 4)),
        ("hidden", None, None),
        ("sum", None, None),
    ):
        options = {"mask": MASKS[mask], "bias": BIASES[bias], "softcap": softcap, "sinks": sinks}
        found = flex.forward(call(q, k, v, **options))
        if found is None:
            # Positions that begin anew are no table of distances; two arrays may say something else of the same cells.
            assert (mask, bias) in LEFT
            continue
        check(found, exact(q, k, v, **options))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("score", [overt.scaled_dot(0.3), overt.cosine(4.0)], ids=["scaled", "cosine"])
def test_what_a_mask_hides_reaches_nothing(score: Any) -> None:
    q, k, v = draw()
    spoiled_k, spoiled_v = k.clone(), v.clone()
    spoiled_k[0, :, 9], spoiled_v[1, :, 7] = torch.nan, torch.inf
    keep = torch.ones(2, 1, 1, S, dtype=torch.bool)
    keep[0, ..., 9], keep[1, ..., 7] = False, False
    for mask, rows in ((keep, T), (overt.keep(keep) & overt.causal(0), T), (overt.window(None, 0, 0), 7)):
        options = {"mask": mask, "score": score}
        found = flex.forward(call(q, spoiled_k, spoiled_v, **options))
        expected = exact(q, k, v, **options)
        check([x[:, :, :rows] for x in found], tuple(x[:, :, :rows] for x in expected))  # type: ignore[union-attr]
    # What is seen shows.
    assert found is not None
    assert found[0][0, :, 9:].isnan().all()


def differentiable(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor] | None:
    """Output and lse as on a device: forward by FlexAttention, backward by what other devices have."""
    asked = Call.of(q, k, v, **{"score": overt.scaled_dot(), **OPTIONS, **options})
    # Where torch has it on the CPU, it asks that nobody wants gradients of it.
    fixed = asked.exchanged({name: x.detach() for name, x in asked.parameters.items()})
    problem = fixed.described(q.detach(), k.detach(), v.detach())
    found = flex.forward(problem)
    if found is None:
        return None
    y, lse = (problem.outward(x) for x in found)  # type: ignore[arg-type]
    return gradients.Attention.apply(asked, (y.to(q.dtype), lse), q, k, v, *asked.parameters.values())  # type: ignore[no-any-return, no-untyped-call]


def leaves(values: Any, dtype: torch.dtype) -> Any:
    """Copies of these tensors of floats that want gradients."""
    return tree_map(
        lambda x: x.detach().to(dtype).requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x,
        values,
    )


def learnt(given: dict[str, Tensor]) -> dict[str, Any]:
    """Options of the tensors that have gradients."""
    kinds = {"slopes": overt.alibi, "table": overt.relative, "dense": lambda x: x}
    terms: list[Any] = [kind(given[name]) for name, kind in kinds.items() if name in given]
    options: dict[str, Any] = {"bias": sum(terms[1:], start=terms[0])} if terms else {}
    options |= {"score": overt.bilinear(given["weight"])} if "weight" in given else {}
    return options | {name: x for name, x in given.items() if name == "sinks"}


LEARNT: dict[str, Any] = {
    "sinks": {"sinks": torch.linspace(-2, 3, 4)},
    "alibi": {"slopes": torch.rand(4, generator=RNG) / 8},
    "t5": {"table": torch.randn(32, 4, generator=RNG)},
    "dense": {"dense": BIASES["dense"], "sinks": torch.linspace(-2, 3, 4)},
    "sum": {"slopes": torch.rand(4, generator=RNG) / 8, "dense": torch.randn(4, 1, S, generator=RNG)},
    "bilinear": {"weight": torch.randn(16, 16, generator=RNG) / 8},
    "cosine": {},
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_gradients_are_those_of_the_definition(mask: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "pull", lambda call, found, *given: gradients._pull_blocks(call, *given))
    half = dtype == torch.float16
    # In half precision each mask beside a third of what is learnt, and each of that beside a third of the masks.
    names = [*LEARNT][[*MASKS].index(mask) % 3 :: 3] if half else [*LEARNT]
    for name in names:
        parameters = LEARNT[name]
        inputs = leaves([*draw(), parameters], dtype)
        # The definition of what was rounded, by torch's own derivatives.
        wide = leaves(inputs, torch.float64)
        same = {"mask": MASKS[mask], "softcap": 5.0 if name in ("dense", "bilinear") else None}
        options, exactly = learnt(inputs[3]), learnt(wide[3])
        if name == "cosine":
            options = exactly = {"score": overt.cosine(4.0)}
        found = differentiable(*inputs[:3], **same, **options)
        if found is None:
            assert (mask, name) in LEFT
            continue
        exact = definition(*wide[:3], **same, **exactly)
        results = []
        for (y, lse), own in ((found, inputs), (exact, wide)):
            seen = lse > -torch.inf
            total = (y.double() * torch.linspace(-1, 1, y.shape[-1])).sum() + lse[seen].double().sin().sum()
            results.append(torch.autograd.grad(total, tree_leaves(own)))
        for got, wanted in zip(*results, strict=True):
            assert got.dtype == dtype
            size = wanted.abs().max().item()
            torch.testing.assert_close(got.double(), wanted, rtol=0, atol=(2e-3 if half else 1e-5) * max(size, 1))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_leading_axes_and_types(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((2, 3, 4, T, 16), (2, 3, 2, S, 16), (2, 1, 2, S, 8))
    )
    keep = torch.rand((2, 3, 1, 1, S), generator=generator) > 0.3
    lengths = np.array([[S, 7, 0], [90, 100, 110]])
    bias = torch.randn(2, 3, 1, 1, S, generator=generator)
    rounded = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype]
    for options in (
        {},
        {"mask": overt.padding(lengths) & overt.window(30, 4)},
        {"mask": keep, "bias": overt.alibi(torch.rand(4, generator=generator)), "softcap": 3.0},
        {"bias": bias, "sinks": torch.linspace(-2, 3, 4)},
    ):
        for some in ((q, k, v), (q[0], k[0, :1], v[0])):
            # Options of one leading axis less fit the second.
            if some[0].ndim == 4:
                options = {name: _first(x) for name, x in options.items()}
            problem = call(*some, **options)
            found = flex.forward(problem)
            assert found is not None
            assert found[0].dtype == dtype
            wide = {
                name: x.double() if name in ("bias", "sinks") and isinstance(x, Tensor) else x
                for name, x in options.items()
            }
            check(found, exact(*some, **wide), 5e-6 + 4 * rounded)


def _first(option: Any) -> Any:
    if isinstance(option, Tensor):
        return option[0] if option.ndim == 5 else option
    return overt.padding([S, 7, 0]) & overt.window(30, 4) if isinstance(option, overt.Mask) else option


def test_no_queries_and_no_keys_never_come_to_it() -> None:
    # Of nothing torch's own has no log-sum-exp.
    q, k, v = draw()
    for some in (
        (q[:, :, :0], k, v),
        (q, k[:, :, :0], v[:, :, :0]),
        (q[:0], k[:0], v[:0]),
        (q[:, :0], k[:, :0], v[:, :0]),
    ):
        for mask in (None, overt.causal()):
            assert flex.forward(call(*some, mask=mask)) is None


def test_tensors_of_a_device_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def shapes(q: Tensor, k: Tensor, v: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
        assert all(x.device.type == "meta" for x in tree_leaves(given) if isinstance(x, Tensor))
        return q.new_empty((*q.shape[:-1], v.shape[-1])), q.new_empty(q.shape[:-1])

    # Of tensors without numbers torch knows no such attention.
    monkeypatch.setattr(flex, "_compiled", lambda parts: shapes)
    q, k, v = (x.to("meta").requires_grad_() for x in draw())
    lengths = torch.empty(2, dtype=torch.int32, device="meta")
    options: dict[str, Any] = {
        "mask": overt.padding(lengths) & overt.window(9, 3),
        "bias": overt.alibi(torch.empty(4, device="meta")),
        "softcap": 3.0,
    }
    asked = []
    real = flex.forward
    try:
        flex.forward = lambda problem: asked.append(real(problem)) or asked[-1]  # type: ignore[func-returns-value]
        y = attention(q, k, v, **options)
        seen = attend(q, k, v, **options, sinks=torch.empty(4, device="meta"))
    finally:
        flex.forward = real
    assert len(asked) == 2
    assert all(found is not None for found in asked)
    assert (y.shape, y.device.type, seen.lse.shape) == (q.shape, "meta", q.shape[:-1])
    (y.sum() + seen.lse.sum()).backward()
    assert q.grad is not None


def test_what_it_cannot_do_is_left_to_blocks() -> None:
    q, k, v = draw()
    for options in (
        {"mask": overt.where(lambda b, h, t, s: (t + s) % 3 > 0)},
        {"mask": overt.documents(np.arange(S) % 3)},
        {"dropout": overt.dropout(0.1, 0)},
        {"bias": torch.zeros(T, 1) + torch.zeros(1, S), "mask": torch.ones(T, 1, dtype=torch.bool)},
        {"score": overt.additive(torch.randn(3, 16), torch.randn(3, 16), torch.randn(3))},
    ):
        assert flex.forward(call(q, k, v, **options)) is None
    assert flex.forward(call(*(x.double() for x in draw()))) is None


def test_what_torch_cannot_compile_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*given: Any) -> None:
        asked.append(given)
        raise NotImplementedError

    monkeypatch.setattr(flex, "_compiled", lambda parts: refuse)
    for _ in range(3):
        assert flex.forward(call(*draw(), mask=overt.causal())) is None
    assert len(asked) == 1


def test_lengths_and_numbers_compile_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(flex._mixed, dynamic=True, fullgraph=True, backend=count)
    monkeypatch.setattr(flex, "_compiled", lambda parts: compiled)
    for n, width in ((300, 20), (400, 30), (513, 40)):
        q, k = torch.randn(2, 4, n, 8), torch.randn(2, 2, n + 77, 8)
        options = {"mask": overt.window(width, 2), "bias": overt.alibi(torch.rand(4)), "softcap": float(width)}
        check(flex.forward(call(q, k, k, **options)), exact(q, k, k, **options), 5e-5)
    assert len(graphs) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_traced_whole(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    # As far as all devices go alike: the code torch then makes for the CPU is not sound, and nothing here takes it.
    compiled = torch.compile(flex._mixed, dynamic=True, fullgraph=True, backend="aot_eager")
    monkeypatch.setattr(flex, "_compiled", lambda parts: compiled)
    q, k, v = draw(dtype, 64)
    options = {"mask": MASKS["padded"], "bias": BIASES["t5"], "softcap": 20.0}
    found = flex.forward(call(q, k, v, **options), rows=False)
    assert found is not None
    torch.testing.assert_close(
        found[0].double(), exact(q, k, v, **options)[0], rtol=0, atol=5e-6 if dtype == torch.float32 else 2e-2
    )
