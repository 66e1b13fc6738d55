"""overt.torch: attention with gradients, and modules that call the layers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import overt
from overt import layers, models
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.torch import (
    AdditiveAttention,
    BilinearAttention,
    CrossAttention,
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    LearnedPositions,
    MultiHeadAttention,
    SelfAttention,
    SinusoidalPositions,
    attention,
)
from overt.torch.attention import fused

MASKS = {
    "none": None,
    "causal": overt.causal(),
    "window": overt.window(2, 1),
    "offset": overt.causal(offset=[0, 1]),
    "padding": overt.padding([7, 0]) & overt.causal(),
    "holes": overt.where(lambda b, h, t, s: (s + t + h) % 3 > 0),
    "tensor": torch.arange(35).reshape(5, 7) % 4 > 0,
}


def draw(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def problem() -> list[torch.Tensor]:
    return draw((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3), (4, 5, 7), (4,))


@pytest.mark.parametrize("name", MASKS)
def test_values_and_gradients_are_those_of_the_definition(name: str) -> None:
    tensors, mask = problem(), MASKS[name]

    def run(f: Any) -> list[torch.Tensor]:
        q, k, v, bias, sinks = tensors
        y = f(q, k, v, mask=mask, bias=bias, sinks=sinks, softcap=3.0)
        return [y, *torch.autograd.grad(y.sin().sum(), tensors)]

    for ours, theirs in zip(run(attention), run(overt.attention), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MASKS)
def test_gradcheck(name: str) -> None:
    tensors = problem()
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias, sinks: attention(q, k, v, mask=MASKS[name], bias=bias, sinks=sinks), tensors
    )


@pytest.mark.parametrize(
    "score", [overt.dot(), overt.scaled_dot(0.3), overt.cosine(2.0), "bilinear", "additive"], ids=str
)
def test_scores_and_their_weights_have_gradients(score: Any) -> None:
    q, k, v, W, U, w = draw((3, 5, 4), (3, 6, 4), (3, 6, 2), (4, 4), (4, 4), (4,))
    inputs = [q, k, v]
    if score == "bilinear":
        inputs, score = [*inputs, W], lambda W: overt.bilinear(W)
    elif score == "additive":
        inputs, score = [*inputs, W, U, w], lambda *weights: overt.additive(*weights)
    made = score if callable(score) else lambda: score
    y = attention(q, k, v, score=made(*inputs[3:]))
    torch.testing.assert_close(y, overt.attention(q, k, v, score=made(*inputs[3:])), rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda q, k, v, *weights: attention(q, k, v, score=made(*weights)), inputs)


@pytest.mark.parametrize("seed", [0, 2**63 + 5, 2**64 - 1])
@pytest.mark.parametrize("kind", ["product", "additive"])
def test_dropout_is_that_of_the_definition(kind: str, seed: int) -> None:
    q, k, v, W, U, w = draw((3, 5, 4), (3, 6, 4), (3, 6, 2), (4, 4), (4, 4), (4,))
    inputs = (q, k, v, W, U, w)

    def run(f: Any) -> tuple[torch.Tensor, ...]:
        score = overt.additive(W, U, w) if kind == "additive" else overt.bilinear(W)
        y = f(q, k, v, score=score, mask=overt.causal(), dropout=overt.dropout(0.4, seed))
        return (y, *torch.autograd.grad(y.sin().sum(), inputs[: 6 if kind == "additive" else 4]))

    for ours, theirs in zip(run(attention), run(overt.attention), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["product", "additive"])
def test_types_are_about_as_exact_as_the_definition(kind: str, dtype: torch.dtype) -> None:
    inputs = draw((3, 5, 16), (3, 6, 16), (3, 6, 8), (16, 16), (16, 16), (16,), dtype=dtype)

    def run(f: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        q, k, v, *weights = tensors
        score = overt.additive(*weights) if kind == "additive" else overt.scaled_dot()
        y = f(q, k, v, score=score, sinks=q[:, 0, 0].detach())
        return [y, *torch.autograd.grad(y.sin().sum(), tensors if kind == "additive" else tensors[:3])]

    exact = run(overt.attention, [x.detach().double().requires_grad_() for x in inputs])
    for ours, theirs, right in zip(run(attention, inputs), run(overt.attention, inputs), exact, strict=True):
        assert ours.dtype == dtype
        scale = right.abs().max()
        limit = max(3 * (theirs - right).abs().max(), 4 * scale * torch.finfo(dtype).eps)
        assert (ours - right).abs().max() <= limit


@pytest.mark.parametrize("name", [*MASKS, "square"])
@pytest.mark.parametrize("biased", [False, True])
def test_fused_kernels_of_other_devices_mean_the_same(name: str, biased: bool) -> None:
    q, k, v, bias, _ = problem()
    mask = overt.causal() if name == "square" else MASKS[name]
    if name == "square":
        k, v, bias = k[..., :5, :], v[..., :5, :], bias[..., :5]
    given = bias if biased else None
    score = overt.scaled_dot(0.3)
    y = fused(q, k, v, score, mask, given)
    expected = attention(q, k, v, score=score, mask=mask, bias=given)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    ours, theirs = (torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (y, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    # One head, and many axes in front.
    if name not in ("offset", "padding", "holes"):
        alone = q[0, 0], k[0, 0], v[0, 0]
        one = given if given is None else given[0]
        expected = attention(*alone, score=score, mask=mask, bias=one)
        torch.testing.assert_close(fused(*alone, score, mask, one), expected, rtol=0, atol=1e-12)
        wide = q[:, None], k[None], v[None]
        expected = attention(*wide, score=score, mask=mask, bias=given)
        torch.testing.assert_close(fused(*wide, score, mask, given), expected, rtol=0, atol=1e-12)


def test_other_devices_are_told_what_is_wrong() -> None:
    q, k, v = (torch.empty(shape, device="meta") for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)))
    assert attention(q, k, v, mask=overt.causal()).shape == (2, 4, 5, 3)
    for wrong, message in (
        ({"k": k[:, :, :, :4]}, "width"),
        ({"v": v[:, :, :6]}, "v has 6 positions but k has 7"),
        ({"q": q[:, :3]}, "heads"),
        ({"mask": torch.ones(9, 2, 4, 5, 7, dtype=torch.bool)}, "mask"),
        ({"bias": torch.empty(3, 3, device="meta")}, "bias"),
    ):
        with pytest.raises(ShapeError, match=message):
            attention(**{"q": q, "k": k, "v": v, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["product", "cosine", "bilinear", "additive"])
def test_what_a_mask_hides_reaches_no_gradient(kind: str) -> None:
    q, k, v, W, U, w = draw((3, 5, 4), (3, 6, 4), (3, 6, 2), (4, 4), (4, 4), (4,))
    hidden = torch.arange(6) == 5
    garbage = torch.where(hidden[:, None], torch.nan, k), torch.where(hidden[:, None], torch.inf, v)
    weights = {"bilinear": [W], "additive": [W, U, w]}.get(kind, [])
    score = {
        "product": overt.scaled_dot,
        "cosine": overt.cosine,
        "bilinear": lambda: overt.bilinear(W),
        "additive": lambda: overt.additive(W, U, w),
    }[kind]()

    def run(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = attention(q, k, v, score=score, mask=~hidden)
        return (y, *torch.autograd.grad(y.sin().sum(), [q, *weights]))

    torch.testing.assert_close(run(*garbage), run(k, v))
    # What is seen shows.
    assert attention(q, garbage[0], v, score=score).isnan().all()


def test_nothing_has_gradients_of_nothing() -> None:
    for shapes in (((0, 2, 3, 4), (0, 2, 5, 4)), ((2, 2, 0, 4), (2, 2, 5, 4)), ((2, 2, 3, 4), (2, 2, 0, 4))):
        q, k = draw(*shapes)
        attention(q, k, k).sum().backward()
        assert q.grad is not None
        assert not q.grad.any()


def test_the_operator_keeps_the_rules_of_operators() -> None:
    q, k, v, bias, sinks = problem()
    keep = torch.ones(5, 7, dtype=torch.bool)
    operator = torch.ops.overt.attention.default
    additive = torch.randn(6, dtype=torch.float64, requires_grad=True)
    no_mask = None, None, None, None, None
    torch.library.opcheck(operator, (q, k, v, bias, sinks, None, None, None, keep, None, None, 0.4, None, 0.0, 0))
    torch.library.opcheck(operator, (q, k, v, None, None, None, None, None, None, -1, 0, 0.4, 5.0, 0.0, 0))
    torch.library.opcheck(operator, (q, k, v, None, None, additive, *no_mask, 1.0, None, 0.5, -3))


def test_it_compiles_without_graph_breaks() -> None:
    q, k, v, *_ = problem()

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q.sin(), k, v, mask=overt.causal()).cos()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), f(q, k, v))
    ours, theirs = (torch.autograd.grad(g(q, k, v).sum(), (q, k, v)) for g in (compiled, f))
    torch.testing.assert_close(ours, theirs)


def test_masks_that_change_are_not_baked_in() -> None:
    q, k, v, *_ = problem()
    compiled = torch.compile(lambda mask: attention(q, k, v, mask=mask), backend="aot_eager")
    for mask in (overt.padding([7, 3]), overt.padding([1, 5]), overt.causal(), overt.window(1, 0)):
        torch.testing.assert_close(compiled(mask), attention(q, k, v, mask=mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_come_back_and_axes_broadcast(dtype: torch.dtype) -> None:
    for shapes in [
        ((5, 6), (7, 6), (7, 3)),
        ((2, 1, 4, 5, 6), (3, 2, 7, 6), (1, 2, 7, 3)),
    ]:
        q, k, v = draw(*shapes, dtype=dtype)
        y = attention(q, k, v)
        expected = overt.attention(*(x.double() for x in (q, k, v)))
        assert y.dtype == dtype
        assert y.shape == expected.shape
        tolerance = {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5}[dtype]
        torch.testing.assert_close(y.double(), expected, rtol=0, atol=tolerance)
        y.sum().backward()
        assert q.grad is not None
        assert q.grad.dtype == dtype


def test_what_is_wrong_is_said_as_ever() -> None:
    q, k, v, *_ = problem()
    with pytest.raises(ShapeError, match="v has 6 positions but k has 7"):
        attention(q, k, v[..., :6, :])
    with pytest.raises(DtypeError, match="mask"):
        attention(q, k, v, mask=torch.ones(5, 7))
    with pytest.raises(DtypeError):
        attention(q.float(), k, v)
    with pytest.raises(ArgumentError, match="softcap"):
        attention(q, k, v, softcap=-1.0)


@pytest.mark.parametrize("widths", [None, 5])
def test_multi_head_attention_loads_that_of_torch(widths: int | None) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, kdim=widths, vdim=widths).eval()
    ours = MultiHeadAttention(12, 3, context_width=widths)
    ours.load_state_dict(theirs.state_dict())
    x, z = torch.randn(2, 4, 12), torch.randn(2, 6, widths or 12)
    torch.testing.assert_close(ours(x, z), theirs(x, z, z)[0], rtol=0, atol=1e-6)
    hidden = torch.rand(4, 6) > 0.7
    torch.testing.assert_close(ours(x, z, mask=~hidden), theirs(x, z, z, attn_mask=hidden)[0], rtol=0, atol=1e-6)
    # Inside another module, and in its own form.
    nn.Sequential(ours).load_state_dict({f"0.{name}": x for name, x in theirs.state_dict().items()})
    again = MultiHeadAttention(12, 3, context_width=widths)
    again.load_state_dict(ours.state_dict())
    torch.testing.assert_close(again(x, z), ours(x, z))


MODULES: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {
    "self": (SelfAttention(8, 4, groups=2, dropout=0.5), ((2, 5, 8),)),
    "cross": (CrossAttention(8, 2, context_width=6, bias=False, dropout=0.5), ((2, 5, 8), (2, 3, 6))),
    "additive": (AdditiveAttention(4, 6, 5, dropout=0.5), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "bilinear": (BilinearAttention(4, 6, dropout=0.5), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "encoder": (EncoderLayer(8, 2, 16, dropout=0.5), ((2, 5, 8),)),
    "decoder": (DecoderLayer(8, 2, 16, dropout=0.5), ((2, 5, 8), (2, 3, 8))),
    "learned": (LearnedPositions(9, 8), ((2, 5, 8),)),
    "sinusoidal": (SinusoidalPositions(), ((2, 5, 8),)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_own_move_and_save_their_parameters(name: str) -> None:
    module, shapes = MODULES[name]
    inputs = draw(*shapes, dtype=torch.float32)
    module.eval()
    y = module(*inputs)
    y.square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    copy.deepcopy(module).load_state_dict(module.state_dict())
    torch.testing.assert_close(module.double()(*(x.double() for x in inputs)), y.double(), rtol=0, atol=1e-5)
    module.float()


@pytest.mark.parametrize("name", ["self", "cross", "additive", "bilinear", "encoder", "decoder"])
def test_dropout_obeys_eval(name: str) -> None:
    module, shapes = MODULES[name]
    inputs = draw(*shapes, dtype=torch.float32)
    module.train()
    assert not torch.allclose(module(*inputs), module(*inputs))
    module.eval()
    assert torch.equal(module(*inputs), module(*inputs))


@pytest.mark.parametrize(
    "model",
    [
        models.Transformer(11, 13, width=8, heads=2, inner=16, encoder_layers=1, decoder_layers=2),
        models.Recurrent(11, 13, width=4, state=6, inner=5),
    ],
)
def test_whole_models_give_what_numpy_gives(model: Any) -> None:
    module = EncoderDecoder(model, dropout=0.3).eval()
    source, lengths, target = np.arange(10).reshape(2, 5), np.array([5, 3]), np.arange(8).reshape(2, 4)
    arrays = {name: x.detach().numpy() for name, x in module.checkpoint_parameters().items()}
    assert {name: x.shape for name, x in arrays.items()} == model.shapes()
    expected = model.logits(layers.nested(arrays), source, lengths, target)
    found = module(*(torch.from_numpy(x) for x in (source, lengths, target)))
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5)
    found.sum().backward()
    unused = {name for name, x in module.named_parameters() if x.grad is None}
    assert unused == set()


def test_sizes_that_do_not_fit_are_refused() -> None:
    for wrong in (lambda: MultiHeadAttention(10, 3), lambda: MultiHeadAttention(12, 4, groups=3)):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ArgumentError, match="dropout"):
        SelfAttention(8, 2, dropout=1.0)
