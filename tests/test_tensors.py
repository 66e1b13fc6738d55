"""Attention on tensors: the definition's values and gradients, at the price of arrays, in torch's own habits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

import overt
from overt import reference
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.problem import Problem
from overt.torch import Attended, attend, attention, blocks, flex, short
from overt.torch.call import Call
from overt.torch.fused import can, fused
from strategies import Case, cases

KEEP = torch.arange(35).reshape(5, 7) % 4 > 0


def draw(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def problem() -> list[Tensor]:
    return draw((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3), (4, 5, 7), (4,))


def definition(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Output and lse by the definition in torch, which torch differentiates itself."""
    asked = Problem.of(q, k, v, **{"score": overt.scaled_dot(), **options})
    return tuple(asked.outward(x) for x in reference.forward(asked)[:2])  # type: ignore[return-value]


def call(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Call:
    names = "mask", "bias", "softcap", "sinks", "dropout", "num_threads"
    return Call.of(q, k, v, **{"score": overt.scaled_dot(), **dict.fromkeys(names), **options})


def by_blocks(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The engine of other devices, on this one."""
    asked = call(q, k, v, **options).opened(q, k, v)
    output, lse = blocks.forward(asked)
    return asked.outward(output).to(q.dtype), asked.outward(lse)


def opened(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    seen = attend(q, k, v, **options)
    return seen.output, seen.lse


ENGINES = {"kernels": opened, "blocks": by_blocks}
Asked = tuple[dict[str, Any], list[Tensor]]


def bilinear() -> Asked:
    (weight,) = draw((6, 6))
    return {"score": overt.bilinear(weight)}, [weight]


def additive() -> Asked:
    weights = draw((8, 6), (8, 6), (8,), (8,))
    return {"score": overt.additive(*weights), "softcap": 2.0}, weights


def biased(bias: Callable[[Tensor], Any], *shape: int, **more: Any) -> Callable[[], Asked]:
    def ask() -> Asked:
        (parameter,) = draw(shape)
        return {"bias": bias(parameter), **more}, [parameter]

    return ask


def dense() -> Asked:
    bias, sinks = draw((4, 5, 7), (4,))
    with torch.no_grad():
        bias[:, :, 2] = -torch.inf
    return {"bias": bias, "sinks": sinks, "softcap": 3.0}, [bias, sinks]


def summed() -> Asked:
    slopes, bias = draw((4,), (2, 1, 5, 1))
    return {"bias": overt.alibi(slopes) + bias}, [slopes, bias]


def only(**options: Any) -> Callable[[], Asked]:
    return lambda: (options, [])


ASKED: dict[str, Callable[[], Asked]] = {
    "nothing": only(),
    "causal": only(mask=overt.causal()),
    "window": only(mask=overt.window(2, 1)),
    "offset": only(mask=overt.causal(offset=[0, 1])),
    "padding": only(mask=overt.padding([7, 0]) & overt.causal()),
    "documents": only(mask=overt.documents([0, 0, 1, 1, 2, 1, 1])),
    "packed": only(mask=overt.packed([0, 2, 5], [0, 3, 7]) & overt.causal()),
    "holes": only(mask=overt.where(lambda b, h, t, s: (s + t + h) % 3 > 0)),
    "tensor": only(mask=torch.arange(35).reshape(5, 7) % 4 > 0),
    "some of a tensor": only(mask=torch.tensor([[[[True]]], [[[False]]]])),
    "dot": only(score=overt.dot()),
    "scale": only(score=overt.scaled_dot(0.3), softcap=1.0),
    "cosine": only(score=overt.cosine(2.0)),
    "bilinear": bilinear,
    "additive": additive,
    "dense": dense,
    "row": biased(lambda x: x, 7),
    "alibi": biased(overt.alibi, 4, mask=overt.causal()),
    "alibi, one offset a row": biased(lambda x: overt.alibi(x, offset=[0, 3]), 4),
    "T5": biased(lambda x: overt.relative(x, max_distance=20), 8, 4),
    "packed alibi": biased(overt.alibi, 4, mask=overt.packed([0, 2, 5], [0, 3, 7])),
    "sum": summed,
    "dropout": only(dropout=overt.dropout(0.4, 2**64 - 1), mask=overt.causal()),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("engine", ENGINES)
def test_values_and_gradients_are_those_of_the_definition(engine: str, name: str) -> None:
    q, k, v, *_ = problem()
    options, parameters = ASKED[name]()
    inputs = [q, k, v, *parameters]

    def run(f: Any) -> list[Tensor]:
        y, lse = f(q, k, v, **options)
        seen = lse != -torch.inf
        return [y, lse, *torch.autograd.grad(y.sin().sum() + torch.where(seen, lse, 0).cos().sum(), inputs)]

    for ours, theirs in zip(run(ENGINES[engine]), run(definition), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@given(cases(dtypes=("float32", "float64")))
def test_generated_problems_are_those_of_arrays(case: Case) -> None:
    """What lies in memory in any way, as tensors; and every statistic by blocks."""
    arrays = [x if min(x.strides, default=0) >= 0 else x.copy() for x in (case.q, case.k, case.v)]
    q, k, v = (torch.from_numpy(x.copy() if not x.flags.writeable else x) for x in arrays)
    sinks = case.options.get("sinks")
    options = {**case.options, "sinks": None if sinks is None else torch.from_numpy(sinks)}
    expected, seen = overt.attend(case.q, case.k, case.v, **case.options), attend(q, k, v, **options)
    for ours, theirs in (
        (seen.output, expected.output),
        (seen.lse, expected.lse),
        (seen.received(), expected.received()),
    ):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)
    asked = call(q, k, v, **options).opened(q, k, v)
    lse = torch.from_numpy(expected.lse.copy()).reshape(asked.shape.B, asked.shape.H, asked.shape.T)
    tolerance = 1e-4 if q.dtype == torch.float32 else 1e-6
    for ours, theirs in (
        (blocks.forward(asked)[0], expected.output),
        (blocks.statistics(asked, lse)[0], expected.received()),
        (blocks.statistics(asked, lse)[1], expected.entropy()),
        (blocks.weights(asked, lse), np.asarray(expected.weights)),
    ):
        np.testing.assert_allclose(asked.outward(ours).numpy(), theirs, rtol=tolerance, atol=tolerance)


@given(cases(dtypes=("float16", "bfloat16")))
@settings(max_examples=60)
def test_generated_problems_of_half_types_are_those_of_the_definition(case: Case) -> None:
    wide, kind = case.wide(), torch.bfloat16 if case.q.dtype.name == "bfloat16" else torch.float16
    q, k, v = (torch.from_numpy(x.astype(np.float32)).to(kind) for x in (case.q, case.k, case.v))
    sinks = case.options.get("sinks")
    options = {**case.options, "sinks": None if sinks is None else torch.from_numpy(sinks.astype(np.float32))}
    exact, seen = overt.attend(wide.q, wide.k, wide.v, **wide.options), attend(q, k, v, **options)
    asked = call(q, k, v, **options).opened(q, k, v)
    for lse in (seen.lse, asked.outward(blocks.forward(asked)[1])):
        np.testing.assert_allclose(lse.numpy(), exact.lse, rtol=3e-4, atol=3e-4)


class Blocked(Attended):
    """An open result whose answers come from blocks, as on other devices."""

    _host = False


def seen_by(engine: str, dtype: torch.dtype, **options: Any) -> Attended:
    q, k, v = (x.detach() for x in draw((2, 4, 50, 16), (2, 2, 70, 16), (2, 2, 70, 8), dtype=dtype))
    seen = attend(q, k, v, **options)
    return seen if engine == "kernels" else Blocked(seen._call, seen._tensors, seen._found, dtype=seen.output.dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("engine", ["kernels", "blocks"])
@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.cosine(3.0)], ids=["dot", "cosine"])
def test_every_answer_is_a_tensor_and_right(engine: str, dtype: torch.dtype, score: Any) -> None:
    options = {"score": score, "mask": overt.window(20, 3) & ~overt.padding([0, 2]), "softcap": 5.0}
    sinks, slopes = torch.rand(4), torch.rand(4)
    seen = seen_by(engine, dtype, **options, sinks=sinks, bias=overt.alibi(slopes))
    q, k, v = (x.double().numpy() for x in seen._tensors)
    exact = overt.attend(q, k, v, **options, sinks=sinks.double().numpy(), bias=overt.alibi(slopes.double().numpy()))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert (seen.output.dtype, seen.lse.dtype, seen.weights.dtype) == (dtype, wide, wide)
    tolerance = {torch.float64: 1e-9, torch.float32: 2e-5}.get(dtype, 2e-5)
    for ask in (
        lambda seen: seen.received(),
        lambda seen: seen.entropy(),
        lambda seen: seen.top(5)[1],
        lambda seen: seen.map(7, 9),
        lambda seen: seen.map(60, 9, "mean"),
        lambda seen: seen.weights[...],
        lambda seen: seen.weights[1, 2, ::-3, 4:60:5],
        lambda seen: seen.weights[:, None, -1, 3],
        lambda seen: seen.weights[[0, 1], [1, 2], [3, 49], [2, 60]],
        lambda seen: seen.weights[0, 0, 5, 3],
    ):
        ours = ask(seen)
        assert isinstance(ours, Tensor)
        assert ours.dtype == wide
        np.testing.assert_allclose(ours.numpy(), ask(exact), rtol=0, atol=tolerance)
    indices = torch.tensor([0, 1]), torch.tensor(3), torch.tensor([9, 8]), torch.tensor([1, 1])
    picked = seen.weights[indices]
    np.testing.assert_allclose(picked, exact.weights[[0, 1], 3, [9, 8], [1, 1]], rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.asarray(seen.weights), np.asarray(exact.weights), rtol=0, atol=tolerance)
    # The caller may write to what it is given.
    seen.received().zero_()
    np.testing.assert_allclose(seen.received().numpy(), exact.received(), rtol=0, atol=tolerance)
    # Rows that see one key, or none, have an entropy of 0, and not of −0.
    alone = seen_by(engine, dtype, score=score, mask=overt.window(0, 0) & ~overt.padding([0, 9])).entropy()
    assert alone.max() < 1e-6
    assert not alone.signbit().any()
    assert seen.problem.q.dtype != np.dtype("V2")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_an_open_result_are_those_of_autograd(dtype: torch.dtype) -> None:
    q, k, v, weight = draw((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2), (4, 4), dtype=dtype)
    slopes, table, sinks = torch.rand(3).requires_grad_(), torch.randn(8, 3).requires_grad_(), torch.rand(3)
    for options, parameters in (
        ({"bias": overt.alibi(slopes), "sinks": sinks.requires_grad_()}, [slopes, sinks]),
        ({"bias": overt.relative(table, max_distance=20) + slopes[:, None, None]}, [table]),
        ({"score": overt.bilinear(weight)}, [weight]),
    ):
        seen = attend(q, k, v, **options)
        dy, dlse = torch.randn_like(seen.output), torch.randn_like(seen.lse)
        gradient = seen.gradient(dy, dlse)
        expected = torch.autograd.grad((seen.output, seen.lse), [q, k, v, *parameters], (dy, dlse))
        ours = [gradient.q, gradient.k, gradient.v]
        if "score" in options:
            ours.append(gradient.score["weight"])
        elif len(parameters) == 2:
            ours += [gradient.bias, gradient.sinks]
        else:
            ours.append(gradient.bias[0])
        torch.testing.assert_close(ours, list(expected), rtol=0, atol=0)
    with pytest.raises(ShapeError, match="dy has shape"):
        seen.gradient(dy[0])
    with pytest.raises(DtypeError, match="dy is"):
        seen.gradient(dy.int())
    for name in ("output", "lse"):
        seen = attend(q, k, v)
        with torch.no_grad():
            getattr(seen, name).add_(1)
        with pytest.raises(ArgumentError, match=f"the {name} has been written to since, and the gradient reads it"):
            seen.gradient(dy)


def test_what_another_kernel_found_is_opened() -> None:
    q, k, v = (x.detach() for x in draw((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3), dtype=torch.float32))
    whole = attend(q, k, v, mask=overt.causal())
    output, lse = torch.randn_like(whole.output), whole.lse.clone()
    seen = attend(q, k, v, mask=overt.causal(), found=(output, lse))
    assert seen.output is output
    assert seen.lse is lse
    torch.testing.assert_close(seen.received(), whole.received())
    torch.testing.assert_close(seen.top(2), whole.top(2))


def test_overt_itself_gives_tensors_the_same() -> None:
    q, k, v, *_ = problem()
    seen = overt.attend(q, k, v, mask=overt.causal())
    assert isinstance(seen, Attended)
    assert seen.output.requires_grad
    assert torch.equal(overt.attention(q, k, v, mask=overt.causal()), seen.output)
    steps = overt.trace(q, k, v, mask=overt.causal())
    torch.testing.assert_close(steps["output"], seen.output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["product", "additive"])
def test_types_are_about_as_exact_as_the_definition(kind: str, dtype: torch.dtype) -> None:
    inputs = draw((3, 5, 16), (3, 6, 16), (3, 6, 8), (16, 16), (16, 16), (16,), dtype=dtype)

    def run(f: Any, tensors: list[Tensor]) -> list[Tensor]:
        q, k, v, *weights = tensors
        score = overt.additive(*weights) if kind == "additive" else overt.scaled_dot()
        y, _ = f(q, k, v, score=score, sinks=q[:, 0, 0].detach())
        return [y, *torch.autograd.grad(y.sin().sum(), tensors if kind == "additive" else tensors[:3])]

    exact = run(definition, [x.detach().double().requires_grad_() for x in inputs])
    for engine in ENGINES.values():
        for ours, theirs, right in zip(run(engine, inputs), run(definition, inputs), exact, strict=True):
            assert ours.dtype == dtype
            scale = right.abs().max()
            limit = max(3 * (theirs - right).abs().max(), 4 * scale * torch.finfo(dtype).eps)
            assert (ours - right).abs().max() <= limit


BFLOAT16 = """
import sys
sys.modules["ml_dtypes"] = None
import torch, overt
q = torch.randn(2, 9, 8).bfloat16().requires_grad_()
for score in (overt.scaled_dot(), overt.cosine(2.0)):
    seen = overt.attend(q, q, q, score=score, mask=overt.causal())
    seen.output.sum().backward()
    assert seen.output.dtype == q.grad.dtype == torch.bfloat16
    assert seen.received().shape == (2, 9) and seen.weights[0, [1, 2], [0, 1]].shape == (2,)
"""


def test_bfloat16_needs_no_other_package() -> None:
    subprocess.run([sys.executable, "-c", BFLOAT16], check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["product", "softcap", "cosine", "bilinear", "additive"])
def test_what_a_mask_hides_reaches_no_gradient(engine: str, kind: str) -> None:
    q, k, v, W, U, w = draw((3, 5, 4), (3, 6, 4), (3, 6, 2), (4, 4), (4, 4), (4,))
    hidden = torch.arange(6) == 5
    garbage = torch.where(hidden[:, None], torch.nan, k), torch.where(hidden[:, None], torch.inf, v)
    weights = {"bilinear": [W], "additive": [W, U, w]}.get(kind, [])
    score = {
        "cosine": overt.cosine,
        "bilinear": lambda: overt.bilinear(W),
        "additive": lambda: overt.additive(W, U, w),
    }.get(kind, overt.scaled_dot)()
    f = ENGINES[engine]

    def run(k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y, _ = f(q, k, v, score=score, mask=~hidden, softcap=3.0 if kind == "softcap" else None)
        return (y, *torch.autograd.grad(y.sin().sum(), [q, *weights]))

    torch.testing.assert_close(run(*garbage), run(k, v))
    # What is seen shows.
    assert f(q, garbage[0], v, score=score)[0].isnan().all()
    assert (f(q, k, garbage[1])[0] == torch.inf).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_has_gradients_of_nothing(engine: str) -> None:
    for shapes in (((0, 2, 3, 4), (0, 2, 5, 4)), ((2, 2, 0, 4), (2, 2, 5, 4)), ((2, 2, 3, 4), (2, 2, 0, 4))):
        q, k = draw(*shapes)
        ENGINES[engine](q, k, k)[0].sum().backward()
        assert q.grad is not None
        assert not q.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_come_back_and_axes_broadcast(dtype: torch.dtype) -> None:
    for shapes in [((5, 6), (7, 6), (7, 3)), ((2, 1, 4, 5, 6), (3, 2, 7, 6), (1, 2, 7, 3))]:
        q, k, v = draw(*shapes, dtype=dtype)
        expected = definition(*(x.double() for x in (q, k, v)))[0]
        tolerance = {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5}[dtype]
        for f in ENGINES.values():
            y = f(q, k, v)[0]
            assert (y.dtype, y.shape) == (dtype, expected.shape)
            torch.testing.assert_close(y.double(), expected, rtol=0, atol=tolerance)
            q.grad = None
            y.sum().backward()
            assert q.grad is not None
            assert q.grad.dtype == dtype


def test_tensors_may_lie_as_they_like() -> None:
    q, k, v, *_ = problem()
    expected = attention(q, k, v)
    for lay in (
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: torch.stack([x, x], dim=-1)[..., 0],
        lambda x: torch._neg_view(-x),
        torch.nn.Parameter,
    ):
        torch.testing.assert_close(attention(lay(q), lay(k), lay(v)), expected)


def test_what_is_wrong_is_said_as_ever() -> None:
    q, k, v, *_ = problem()
    with pytest.raises(ShapeError, match="v has 6 positions but k has 7"):
        attention(q, k, v[..., :6, :])
    with pytest.raises(DtypeError, match="mask"):
        attention(q, k, v, mask=torch.ones(5, 7))
    with pytest.raises(DtypeError, match="one dtype"):
        attention(q.float(), k, v)
    with pytest.raises(ArgumentError, match="softcap"):
        attention(q, k, v, softcap=-1.0)
    with pytest.raises(DtypeError, match="one library"):
        attention(q, k.detach().numpy(), v)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="score"):
        attention(q, k, v, score="dot")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="sinks lies on meta, but q on cpu"):
        attention(q, k, v, sinks=torch.empty(4, device="meta"))
    with pytest.raises(ArgumentError, match="seed"):
        overt.dropout(0.1, torch.ones(2, dtype=torch.int64))


def test_inputs_that_need_no_gradient_cost_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from overt import _native

    q, k, v, bias, _ = problem()
    wanted = []

    def backward(*arguments: Any, **options: Any) -> None:
        wanted.append(any(isinstance(x, np.ndarray) and x.shape == (2, 4, 5, 7) for x in arguments))
        real(*arguments, **options)

    real = _native.backward
    monkeypatch.setattr(_native, "backward", backward)
    attention(q, k, v, bias=bias.detach()).sum().backward()
    attention(q, k, v, bias=overt.alibi(overt.positions.alibi_slopes(4))).sum().backward()
    assert wanted == [False, False]
    attention(q, k, v, bias=bias).sum().backward()
    assert wanted == [False, False, True]
    with torch.no_grad():
        assert attention(q, k, v).grad_fn is None
    assert attention(q.detach(), k.detach(), v.detach(), bias=bias.detach()).grad_fn is None


def test_tensors_of_somebody_who_imported_overt_alone_compile() -> None:
    code = """
import torch
import overt

f = torch.compile(lambda q: overt.attention(q, q, q, mask=overt.causal()), fullgraph=True, backend="eager")
q = torch.randn(1, 2, 4, 8)
assert torch.equal(f(q), overt.attention(q, q, q, mask=overt.causal()))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("mask", [None, KEEP, overt.causal()], ids=["none", "tensor", "square"])
@pytest.mark.parametrize("biased", [False, True])
def test_fused_kernels_of_other_devices_mean_the_same(mask: Any, biased: bool) -> None:
    q, k, v, bias, _ = problem()
    if mask is not None and mask is not KEEP:
        k, v, bias = k[..., :5, :], v[..., :5, :], bias[..., :5]
    options = {"mask": mask, "bias": bias if biased else None, "score": overt.scaled_dot(0.3)}
    asked = call(q, k, v, **options)
    if isinstance(mask, overt.masks.Mask) and biased:
        assert not can(asked, q, k)
        return
    assert can(asked, q, k)
    for left, right, values, own in ((q, k, v, asked), (q[:, None], k[None], v[None], asked)):
        ours, theirs = fused(own, left, right, values), definition(left, right, values, **options)[0]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-10)


def test_other_devices_answer_and_are_told_what_is_wrong() -> None:
    q, k, v = (torch.empty(shape, device="meta") for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
    seed = torch.zeros((), dtype=torch.int64, device="meta")
    options = {"bias": overt.alibi(torch.empty(4, device="meta")), "dropout": overt.dropout(0.1, seed)}
    seen = attend(q.requires_grad_(), k, v, mask=overt.window(3, 2), **options)
    found = (seen.output, seen.lse, seen.received(), seen.entropy(), *seen.top(3), seen.map(3, 3), seen.weights[0, 0])
    shapes = [(2, 4, 5, 3), (2, 4, 5), (2, 4, 7), (2, 4, 5), (2, 4, 5, 3), (2, 4, 5, 3), (2, 4, 3, 3), (5, 7)]
    assert [tuple(x.shape) for x in found] == shapes
    assert {x.device.type for x in found} == {"meta"}
    seen.output.sum().backward()
    assert q.grad is not None
    assert q.grad.device.type == "meta"
    for wrong, message in (
        ({"k": k[:, :, :, :4]}, "width"),
        ({"v": v[:, :, :6]}, "v has 6 positions but k has 7"),
        ({"q": q[:, :3]}, "heads"),
        ({"mask": torch.ones(9, 2, 4, 5, 7, dtype=torch.bool), "softcap": 1.0}, "mask"),
        ({"bias": torch.empty(3, 3, device="meta")}, "bias"),
    ):
        with pytest.raises(ShapeError, match=message):
            attention(**{"q": q, "k": k, "v": v, **wrong})  # type: ignore[arg-type]


SHORT = [((2, 3, 4, 8), (2, 1, 5, 8), (2, 1, 5, 6)), ((3, 4, 8), (3, 4, 8), (3, 4, 8))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shapes", SHORT, ids=["grouped", "three axes"])
@pytest.mark.parametrize("mask", [None, overt.causal()], ids=["full", "causal"])
def test_short_calls_are_what_all_calls_are(dtype: torch.dtype, shapes: Any, mask: Any) -> None:
    inputs = draw(*shapes, dtype=dtype)
    found = short.forward(*inputs, mask)
    assert found is not None
    y = attention(*inputs, mask=mask)
    # One thread is asked for in words, which is more than a short call says.
    longer = attention(*inputs, mask=mask, num_threads=1)
    assert torch.equal(y, longer)
    assert torch.equal(y, found[0])
    dy = torch.randn_like(y)
    for slope in (dy, dy[..., :1].expand_as(dy)):
        expected = torch.autograd.grad(longer, inputs, slope, retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(y, inputs, slope, retain_graph=True), expected, rtol=0, atol=0)
        for i, one in enumerate(inputs):
            assert torch.equal(torch.autograd.grad(y, one, slope, retain_graph=True)[0], expected[i])


def test_what_is_no_short_call_takes_the_general_way() -> None:
    q, k, v = draw(*SHORT[0])
    assert short.forward(torch._neg_view(q), k, v, None) is None
    assert short.forward(q, k[0], v, None) is None
    assert short.forward(q, k, v.float(), None) is None
    assert short.forward(q.bfloat16(), k.half(), v.half(), None) is None
    assert short.forward(q, k, v[..., :4, :], None) is None
    assert short.forward(q[:, :2], k, v, overt.window(2, 0)) is None
    freed = torch.empty(8, 5, 8, dtype=torch.float64)
    freed.untyped_storage().resize_(0)
    assert short.forward(freed, freed, freed, None) is None
    # Large sums are summed up anew.
    large = (q * 1e4).detach().requires_grad_()
    y = attention(large, k, v)
    assert short.gradients(large, k, v, None, y, attend(large, k, v).lse, y, [True] * 3) is None
    expected = torch.autograd.grad(definition(large, k, v)[0].sum(), large)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), large), expected)


OLDER = """
import torch
torch.Tensor.__dlpack_c_exchange_api__ = None
import overt
from overt.torch import short
q = torch.randn(2, 3, 4, 8, requires_grad=True)
assert short.forward(q, q, q, None) is None
overt.attention(q, q, q, mask=overt.causal()).sum().backward()
assert q.grad is not None
"""


def test_torch_before_it_lent_its_memory() -> None:
    subprocess.run([sys.executable, "-c", OLDER], check=True, capture_output=True, timeout=120)


def test_what_needs_no_gradient_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from overt import _native

    calls: list[tuple[Any, ...]] = []

    def watched(name: str) -> None:
        real = getattr(_native, name)

        def record(*given: Any, **options: Any) -> Any:
            calls.append(given)
            return real(*given, **options)

        monkeypatch.setattr(_native, name, record)

    watched("backward")
    watched("plain_backward")
    q, k, v, *_ = problem()
    attention(q, k.detach(), v.detach()).sum().backward()
    attention(q.detach(), k.detach(), v, mask=overt.causal(), softcap=2.0).sum().backward()
    (_, *_, dq, dk, dv, _, _), (_, _, _, _, _, _, *general) = calls
    assert [x is None for x in (dq, dk, dv)] == [False, True, True]
    assert [x is None for x in general[:3]] == [True, True, False]


@pytest.mark.parametrize("mask", ["tensor", "causal", "bias"])
def test_what_a_mask_hides_reaches_no_output_of_fused_kernels(mask: str) -> None:
    q, k, v = draw((1, 4, 6, 4), (1, 2, 6, 4), (1, 2, 6, 3))
    options: dict[str, Any] = {"mask": overt.causal()}
    if mask != "causal":
        keep = torch.arange(6) < torch.arange(6)[:, None].clamp(max=4) + 1
        bias = torch.where(keep, 0.0, -torch.inf).double()
        options = {"mask": keep} if mask == "tensor" else {"bias": bias}
    garbage_k, garbage_v = k.detach().clone(), v.detach().clone()
    garbage_k[:, :, 5], garbage_v[:, :, 4, 1], garbage_v[:, :, 5] = torch.nan, torch.nan, torch.inf
    asked = call(q, k, v, **options)
    assert can(asked, q, k)
    clean, spoiled = fused(asked, q, k, v), fused(asked, q, garbage_k, garbage_v)
    torch.testing.assert_close(spoiled[:, :, :4], clean[:, :, :4], rtol=0, atol=1e-12)
    # What is seen shows.
    assert spoiled[:, :, 4:].isnan().all()
    (slope,) = torch.autograd.grad(spoiled[:, :, :4].sum(), q)
    assert slope.isfinite().all()


def test_masks_of_other_devices_are_worked_out_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from overt.grid import Shape

    def on_the_host(shape: Shape) -> None:
        raise AssertionError("the cells of a matrix were worked out by NumPy")

    q, k, v = (torch.empty(shape, device="meta") for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
    asked = []

    def holes(b: Any, h: Any, t: Any, s: Any) -> Any:
        asked.append((b, h, t, s))
        return (s + t + h) % 3 > 0

    monkeypatch.setattr(Shape, "cells", on_the_host)
    monkeypatch.setattr(Problem, "cells", property(on_the_host))
    for mask in (
        overt.where(holes),
        overt.documents([0, 1, 0, 1, 1, 0, 1]),
        overt.padding([7, 3]) | overt.window(1, 1),
        overt.packed([0, 2, 5], [0, 3, 7]) & overt.causal(),
        ~overt.prefix([1, 2]),
        overt.keep(np.arange(7) > 2),
    ):
        assert attention(q, k, v, mask=mask).device.type == "meta"
        assert attend(q, k, v, mask=mask).received().device.type == "meta"
    assert asked
    assert all(x.device.type == "meta" for index in asked for x in index)


def test_a_predicate_of_numpy_is_asked_on_the_host() -> None:
    q, k, v, *_ = problem()
    table = np.arange(35).reshape(5, 7) % 4 > 0
    mask = overt.where(lambda b, h, t, s: np.logical_and(table[np.asarray(t), np.asarray(s)], True))
    torch.testing.assert_close(by_blocks(q, k, v, mask=mask)[0], attention(q, k, v, mask=KEEP), rtol=0, atol=1e-12)


# Masks of T = 5, S = 7 and two batch rows, of what a function makes of their numbers.
MASKS: dict[str, Any] = {
    "padding": lambda of: overt.padding(of([7, 3])),
    "prefix": lambda of: overt.prefix(of([2, 6]), of([1, -1])),
    "causal": lambda of: overt.causal(of([2, -3])),
    "window": lambda of: overt.window(2, 1, offset=of([0, 3])),
    "documents": lambda of: overt.documents(of([[0, 0, 1, 1, 2, 2, 2], [0, 1, 0, 1, 1, 0, 2]])),
    "documents of both": lambda of: overt.documents(of([4, 1, 1, 0, 9]), of([1, 0, 4, 4, 1, 0, 3])),
    "keep": lambda of: overt.keep(of([[[True, False, True, True, False, True, True]]])),
    "both": lambda of: overt.padding(of([7, 3])) & overt.window(3, 1) & overt.keep(of([[True]] * 4 + [[False]])),
    "either": lambda of: overt.prefix(of([1, 2])) | overt.documents(of([0, 1, 1, 0, 2, 2, 2])),
    "not": lambda of: ~(overt.padding(of([2, 5])) | overt.causal(of([-2, 0]))),
    "where": lambda of: overt.where(lambda b, h, t, s: of([[1, 3, 5, 2, 4], [6, 0, 2, 3, 1]])[b, t] + h > s),
    "packed": lambda of: overt.packed([0, 2, 5], [0, 3, 7]) & overt.padding(of([2, 3])) & overt.causal(),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_tensors_of_a_device_mean_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (x.detach() for x in draw((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
    expected = attend(q, k, v, mask=MASKS[name](np.array))
    # The device is this one, and its tensors are left where they are.
    for module in ("grid", "masks.mask", "masks.spans"):
        monkeypatch.setattr(f"overt.{module}.is_elsewhere", lambda x: isinstance(x, Tensor))
    there = MASKS[name](torch.tensor)
    assert there.is_elsewhere == (name != "where")
    output, lse = by_blocks(q, k, v, mask=there)
    seen = Blocked(call(q, k, v, mask=there), (q, k, v), (output, lse))
    cells = [0, 1, 1, 0], [3, 0, 2, 1], [4, 0, 2, 1], [6, 0, 2, 3]
    for ours, theirs in (
        (output, expected.output),
        (lse, expected.lse),
        (seen.weights[1, 2:, ::-2, 1:6:2], expected.weights[1, 2:, ::-2, 1:6:2]),
        (seen.weights[cells], expected.weights[cells]),
        (seen.received(), expected.received()),
        (seen.map(2, 3), expected.map(2, 3)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    # And by the spans of FlexAttention, where it is asked.
    asked = flex._asked(call(q, k, v, mask=there).described(q, k, v))
    if asked is not None and asked.first is not None and asked.last is not None:
        s = torch.arange(7)
        shown = (asked.first[..., None] <= s) & (s < asked.last[..., None])
        shown = shown if asked.keep is None else shown & asked.keep
        assert torch.equal(shown.expand(2, 4, 5, 7), torch.tensor(MASKS[name](np.array).dense(5, 7, (2,), 4)))


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_a_device_read_nothing_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.empty(shape, device="meta") for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
    mask = MASKS[name](lambda numbers: torch.tensor(numbers, device="meta"))
    slopes = torch.empty(4, device="meta")
    y = attention(q.requires_grad_(), k, v, mask=mask, bias=overt.alibi(slopes))
    y.sum().backward()
    seen = attend(q, k, v, mask=mask, softcap=3.0)
    found = (y, q.grad, seen.lse, seen.received(), seen.entropy(), *seen.top(3), seen.map(3, 3))
    # Of the cells that are picked, one number is read where there are numbers.
    found += (seen.weights[0, 1], seen.weights[[0, 1], [1, 2], [3, 4], [2, 0]])
    assert {x.device.type for x in found if x is not None} == {"meta"}
    assert q.grad is not None


@pytest.mark.parametrize("sinks", [False, True])
def test_large_sums_lose_no_digits_by_blocks(sinks: bool) -> None:
    q, k, v = (x.detach() for x in draw((2, 4, 50, 16), (2, 2, 70, 16), (2, 2, 70, 8), dtype=torch.float32))
    options: dict[str, Any] = {"mask": overt.causal(), "bias": torch.tensor(9876.5)}
    if sinks:
        options["sinks"] = torch.full((4,), 9876.0)
    seen = attend(q, k, v, **options)
    wide = {name: x.double() if isinstance(x, Tensor) else x for name, x in options.items()}
    exact = attend(q.double(), k.double(), v.double(), **wide)
    opened = Blocked(seen._call, seen._tensors, seen._found)
    torch.testing.assert_close(by_blocks(q, k, v, **options)[0].double(), exact.output, rtol=0, atol=2e-3)
    for ask in (
        lambda seen: seen.weights[0, 1, 3:9, 4:60:5],
        lambda seen: seen.weights[[0, 1], [1, 2], [3, 49], [2, 60]],
    ):
        # Scores of 10⁴ have steps of 10⁻³, but what rounds them all alike rounds their sum alike.
        torch.testing.assert_close(ask(opened).double(), ask(exact), rtol=2e-3, atol=1e-6)
    rows = opened.weights[...].sum(dim=-1)
    if not sinks:
        torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=1e-6)
    tile, whole = opened.weights[:, :, :, 4:60:5], opened.weights[...][..., 4:60:5]
    torch.testing.assert_close(tile, whole, rtol=0, atol=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("S", [1, 50, 5000])
def test_numbers_near_the_end_of_the_range(engine: str, S: int) -> None:
    """A mean of them is one of them, though their sum is none; scores of large terms are finite."""
    largest = 0.999 * torch.finfo(torch.float32).max
    q, k = (x.detach() for x in draw((1, 2, 30, 16), (1, 2, S, 16), dtype=torch.float32))
    v = torch.full((1, 2, S, 8), largest)
    weights = draw((4, 16), (4, 16), (4,), dtype=torch.float32)
    for options in (
        {},
        {"mask": overt.causal(offset=S)},
        {"score": overt.additive(*(x.detach() * size for x, size in zip(weights, (1, 1, 1e37), strict=True)))},
    ):
        output, lse = ENGINES[engine](q, k, v, **options)
        torch.testing.assert_close(output, torch.full_like(output, largest), rtol=1e-5, atol=0)
        assert lse.isfinite().all()


HALF_SCORES: dict[str, Callable[[], Any]] = {
    "scaled dot": overt.scaled_dot,
    "cosine": overt.cosine,
    "bilinear": lambda: overt.bilinear(torch.ones(8, 8) / 8),
    "additive": lambda: overt.additive(*2 * [torch.ones(4, 8) / 8], torch.ones(4)),
}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("score", HALF_SCORES)
def test_biases_of_half_types_stand_beside_half_inputs(score: str, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    q, bias = torch.randn(2, 5, 8).to(kind), torch.randn(5, 5).to(kind).requires_grad_()
    options: dict[str, Any] = {"score": HALF_SCORES[score]()}
    y = overt.attention(q, q, q, bias=bias, **options)
    assert y.dtype == kind
    assert torch.equal(y, overt.attention(q, q, q, bias=bias.detach().float(), **options))
    seen = overt.attend(q, q, q, bias=bias, **options)
    slope = torch.ones_like(y)
    (found,) = torch.autograd.grad(seen.output, bias, slope)
    assert found.dtype == seen.gradient(slope).bias.dtype == kind
    torch.testing.assert_close(seen.gradient(slope).bias, found)
    assert torch.equal(overt.attention(q, q, q, bias=bias + overt.alibi(torch.zeros(2)), **options), y)
    mapped = torch.vmap(lambda bias: overt.attention(q, q, q, bias=bias, **options))(bias.detach()[None])[0]
    torch.testing.assert_close(mapped, y.detach(), rtol=1e-2, atol=1e-2)
    with pytest.raises(DtypeError, match=f"float64 beside {str(kind)[6:]} inputs"):
        overt.attention(q, q, q, bias=bias.double(), **options)
    with pytest.raises(DtypeError, match="float16 beside float32 inputs"):
        overt.attention(*3 * [q.float()], bias=bias.half(), **options)


@pytest.mark.filterwarnings("ignore:.*prototype")
@pytest.mark.filterwarnings("ignore:.*beta state")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda x: x.to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (lambda x: x.to_sparse(), "layout torch.sparse_coo: convert it with to_dense"),
        (lambda x: torch.nested.nested_tensor([*x]), "nested tensor: pad it"),
        (lambda x: torch.nested.nested_tensor([*x], layout=torch.jagged), "nested tensor: pad it"),
    ],
    ids=["fp8", "sparse", "nested", "jagged"],
)
def test_tensors_that_are_no_arrays_of_known_floats_are_refused(made: Callable[[Any], Any], said: str) -> None:
    x, square = torch.randn(2, 5, 8), torch.ones(5, 5)
    strange = made(x)
    for q, k, v in ((strange, strange, strange), (x, strange, strange), (x, x, strange)):
        for attended in (overt.attention, overt.attend):
            with pytest.raises(DtypeError, match=said):
                attended(q, k, v)
    for options in (
        lambda: {"bias": made(square)},
        lambda: {"score": overt.bilinear(made(torch.ones(8, 8)))},
        lambda: {"mask": made(square > 0)} if "float8" not in said else {"bias": made(square)},
    ):
        with pytest.raises(DtypeError, match=said):
            overt.attention(x, x, x, **options())
    with pytest.raises(DtypeError, match=said):
        overt.Cache().append(strange, strange)
    with pytest.raises(DtypeError, match=said):
        overt.trace(strange, strange, strange)
