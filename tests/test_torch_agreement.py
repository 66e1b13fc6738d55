"""overt beside PyTorch: the same numbers where the two mean the same, and the differences pinned where they do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import AuxRequest, flex_attention
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d, scaled_dot_product_attention

import overt
from overt import kernels

# Relative and absolute, for outputs of about 1.  Torch rounds the weights of half types to half before they meet the
# values, so there the two may differ by a few units in the last place; which one is nearer is tested apart.
TOLERANCE = {torch.float64: 1e-14, torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
HALVES = torch.float16, torch.bfloat16


def array(x: torch.Tensor) -> np.ndarray:
    """The same memory as a NumPy array, bfloat16 included."""
    x = x.detach()
    return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()


def wide(x: torch.Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(array(x) if isinstance(x, torch.Tensor) else x, np.float64)


def close(got: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(wide(got), wide(expected), rtol=tolerance, atol=tolerance)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(
    q: tuple[int, ...], k: tuple[int, ...], E: int | None = None, dtype: torch.dtype = torch.float64
) -> list[torch.Tensor]:
    v = (*k[:-1], k[-1] if E is None else E)
    return [normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate((q, k, v))]


def visible(*shape: int, seed: int = 9) -> torch.Tensor:
    """A boolean mask, True = may attend, in which each matrix has a row that sees nothing."""
    keep = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    keep[..., 1, :] = False
    return keep


def additive(keep: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return normal(*keep.shape, dtype=dtype, seed=8).masked_fill(~keep, -torch.inf)


SHAPES = [
    pytest.param((2, 3, 5, 8), (2, 3, 7, 8), None, id="small"),
    pytest.param((2, 3, 5, 8), (2, 3, 7, 8), 6, id="narrow values"),
    # Over the blocks of both libraries' fused kernels.
    pytest.param((1, 2, 70, 40), (1, 2, 600, 40), None, id="long"),
    pytest.param((2, 1, 3, 5, 8), (1, 4, 3, 7, 8), None, id="batch axes that broadcast"),
    pytest.param((3, 5, 8), (2, 3, 7, 8), None, id="batch axis on one side"),
]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
class TestForward:
    @pytest.mark.parametrize(("q", "k", "E"), SHAPES)
    def test_plain(self, dtype: torch.dtype, q: tuple[int, ...], k: tuple[int, ...], E: int | None) -> None:
        tensors = inputs(q, k, E, dtype)
        got = overt.attention(*map(array, tensors))
        expected = scaled_dot_product_attention(*tensors)
        assert got.shape == expected.shape
        assert got.dtype == array(expected).dtype
        close(got, expected, TOLERANCE[dtype])

    @pytest.mark.parametrize(("q", "k", "E"), SHAPES[:3])
    def test_boolean_mask(self, dtype: torch.dtype, q: tuple[int, ...], k: tuple[int, ...], E: int | None) -> None:
        tensors, keep = inputs(q, k, E, dtype), visible(*q[:-1], k[-2])
        got = overt.attention(*map(array, tensors), mask=array(keep))
        close(got, scaled_dot_product_attention(*tensors, attn_mask=keep), TOLERANCE[dtype])
        assert not wide(got)[..., 1, :].any()

    @pytest.mark.parametrize(("q", "k", "E"), SHAPES[:3])
    def test_float_mask_is_a_bias(
        self, dtype: torch.dtype, q: tuple[int, ...], k: tuple[int, ...], E: int | None
    ) -> None:
        tensors, bias = inputs(q, k, E, dtype), additive(visible(*q[:-1], k[-2]), dtype)
        got = overt.attention(*map(array, tensors), bias=array(bias))
        close(got, scaled_dot_product_attention(*tensors, attn_mask=bias), TOLERANCE[dtype])
        assert not wide(got)[..., 1, :].any()

    def test_mask_that_broadcasts(self, dtype: torch.dtype) -> None:
        tensors = inputs((2, 3, 5, 8), (2, 3, 7, 8), None, dtype)
        for keep in (visible(2, 1, 5, 7), visible(3, 5, 7), visible(5, 7), visible(2, 1, 2, 7)[..., :1, :]):
            got = overt.attention(*map(array, tensors), mask=array(keep))
            close(got, scaled_dot_product_attention(*tensors, attn_mask=keep), TOLERANCE[dtype])

    @pytest.mark.parametrize("length", [5, 150])
    def test_causal_square(self, dtype: torch.dtype, length: int) -> None:
        tensors = inputs((2, 3, length, 8), (2, 3, length, 8), None, dtype)
        expected = scaled_dot_product_attention(*tensors, is_causal=True)
        for mask in (overt.causal(), overt.causal(offset=0)):
            close(overt.attention(*map(array, tensors), mask=mask), expected, TOLERANCE[dtype])

    @pytest.mark.parametrize(("T", "S"), [(5, 7), (7, 5), (1, 9), (90, 200)])
    def test_causal_from_the_top_left(self, dtype: torch.dtype, T: int, S: int) -> None:
        tensors = inputs((2, 3, T, 8), (2, 3, S, 8), None, dtype)
        got = overt.attention(*map(array, tensors), mask=overt.causal(offset=0))
        close(got, scaled_dot_product_attention(*tensors, is_causal=True), TOLERANCE[dtype])

    @pytest.mark.parametrize(("T", "S"), [(5, 7), (1, 9), (90, 200)])
    def test_causal_to_the_lower_right(self, dtype: torch.dtype, T: int, S: int) -> None:
        tensors = inputs((2, 3, T, 8), (2, 3, S, 8), None, dtype)
        got = overt.attention(*map(array, tensors), mask=overt.causal())
        close(got, scaled_dot_product_attention(*tensors, attn_mask=causal_lower_right(T, S)), TOLERANCE[dtype])

    def test_more_queries_than_keys(self, dtype: torch.dtype) -> None:
        tensors = inputs((2, 3, 7, 8), (2, 3, 5, 8), None, dtype)
        # Torch warns of NaN and gives zeros, as overt does.
        with pytest.warns(UserWarning, match="Lower right causal bias"):
            bias = causal_lower_right(7, 5)
        got = overt.attention(*map(array, tensors), mask=overt.causal())
        close(got, scaled_dot_product_attention(*tensors, attn_mask=bias), TOLERANCE[dtype])
        assert not wide(got)[..., :2, :].any()

    @pytest.mark.parametrize("G", [1, 2, 3])
    def test_grouped_queries(self, dtype: torch.dtype, G: int) -> None:
        tensors = inputs((2, 6, 5, 8), (2, G, 7, 8), None, dtype)
        expected = scaled_dot_product_attention(*tensors, enable_gqa=True)
        close(overt.attention(*map(array, tensors)), expected, TOLERANCE[dtype])

    @pytest.mark.parametrize("scale", [0.01, 1.0, 3.0])
    def test_scale(self, dtype: torch.dtype, scale: float) -> None:
        tensors = inputs((2, 3, 5, 8), (2, 3, 7, 8), None, dtype)
        got = overt.attention(*map(array, tensors), score=overt.scaled_dot(scale))
        # A score of 20 is itself known to 20 units of rounding.
        close(got, scaled_dot_product_attention(*tensors, scale=scale), TOLERANCE[dtype] * max(1, 4 * scale))

    def test_no_heads_axis(self, dtype: torch.dtype) -> None:
        tensors = inputs((5, 8), (7, 8), 6, dtype)
        close(overt.attention(*map(array, tensors)), scaled_dot_product_attention(*tensors), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("T", "S", "D"), [(5, 7, 8), (33, 64, 32), (128, 300, 64), (2, 1000, 128)])
def test_half_types_are_nearer_the_truth(dtype: torch.dtype, masked: bool, T: int, S: int, D: int) -> None:
    tensors = inputs((2, 3, T, D), (2, 3, S, D), None, dtype)
    keep = visible(2, 1, T, S) if masked else None
    options = {"mask": None if keep is None else array(keep)}
    truth = overt.trace(*map(wide, tensors), **options)["output"]
    ours = np.abs(wide(overt.attention(*map(array, tensors), **options)) - truth)
    theirs = np.abs(wide(scaled_dot_product_attention(*tensors, attn_mask=keep)) - truth)
    # No slack: both round the output, and overt rounds nothing else.  Only tiles take rounded weights, as torch does.
    slack = 1.05 if kernels.levels()[0] == "amx" else 1.0
    assert ours.max() <= theirs.max() * slack
    assert np.square(ours).mean() <= np.square(theirs).mean() * slack


def test_lse_and_softcap_of_flex_attention() -> None:
    """The public torch function that returns a log-sum-exp, given the same softcap, bias and mask by hand."""
    q, k, v = inputs((2, 3, 5, 8), (2, 3, 7, 8))
    bias, keep = normal(3, 5, 7, seed=5), visible(3, 5, 7)

    def score(s: torch.Tensor, b: int, h: int, t: int, i: int) -> torch.Tensor:
        return torch.where(keep[h, t, i], 2 * torch.tanh(s / 2) + bias[h, t, i], -torch.inf)

    with warnings.catch_warnings():
        # It tells that it was not compiled, which is meant here.
        warnings.simplefilter("ignore")
        output, aux = flex_attention(q, k, v, score_mod=score, return_aux=AuxRequest(lse=True))
    seen = overt.attend(*map(array, (q, k, v)), mask=array(keep), bias=array(bias), softcap=2.0)
    close(seen.output, output, 1e-14)
    close(seen.lse, aux.lse, 1e-14)
    assert np.isneginf(seen.lse[..., 1]).all()


def definition(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    keep: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention in plain torch, for autograd, with zeros for rows that see nothing."""
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if keep is None:
        keep = torch.ones(scores.shape, dtype=torch.bool)
    # A row of −∞ alone would give NaN, and its zeros afterwards would not stop the NaN on the way back.
    some = keep.any(-1, keepdim=True)
    scores = torch.where(keep | ~some, scores, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    weights = torch.softmax(scores, -1)[..., : keep.shape[-1]]
    return torch.where(keep, weights, 0) @ v


GRADIENTS = [
    pytest.param({}, id="plain"),
    pytest.param({"keep": visible(2, 6, 5, 7)}, id="mask"),
    pytest.param({"keep": visible(1, 1, 5, 7)}, id="mask that broadcasts"),
    pytest.param({"bias": normal(2, 6, 5, 7, seed=5)}, id="bias"),
    pytest.param({"bias": normal(6, 1, 7, seed=5)}, id="bias that broadcasts"),
    pytest.param({"bias": normal(2, 1, 5, 1, seed=5), "keep": visible(5, 7)}, id="bias over all keys"),
    pytest.param({"softcap": 1.5}, id="softcap"),
    pytest.param({"sinks": normal(6, seed=6)}, id="sinks"),
    pytest.param({"sinks": normal(6, seed=6), "keep": visible(2, 6, 5, 7)}, id="sinks and mask"),
    pytest.param(
        {"keep": visible(2, 6, 5, 7), "bias": normal(6, 5, 7, seed=5), "softcap": 1.5, "sinks": normal(6, seed=6)},
        id="everything",
    ),
]


@pytest.mark.parametrize("options", GRADIENTS)
@pytest.mark.parametrize("G", [6, 3, 1])
def test_gradient(options: dict[str, Any], G: int) -> None:
    tensors = [x.requires_grad_() for x in inputs((2, 6, 5, 8), (2, G, 7, 8), 4)]
    bias = options.get("bias")
    leaves = tensors if bias is None else [*tensors, bias.clone().requires_grad_()]
    dy = normal(2, 6, 5, 4, seed=7)
    expected = definition(*leaves[:3], **{**options, **({} if bias is None else {"bias": leaves[3]})})
    pulled = torch.autograd.grad(expected, leaves, dy)

    ours = {"mask" if name == "keep" else name: x for name, x in options.items()}
    ours = {name: array(x) if isinstance(x, torch.Tensor) else x for name, x in ours.items()}
    seen = overt.attend(*map(array, tensors), **ours)
    close(seen.output, expected, 1e-14)
    gradient = seen.gradient(array(dy))
    assert (gradient.bias is None) == (bias is None)
    for got, want in zip(gradient, pulled, strict=False):
        assert got.shape == tuple(want.shape)
        close(got, want, 1e-13)


@pytest.mark.parametrize("masked", ["none", "boolean", "float"])
def test_gradient_of_sdpa(masked: str) -> None:
    """Torch's own way back, rows that see nothing and batch axes that broadcast included."""
    tensors = [x.requires_grad_() for x in inputs((2, 1, 6, 5, 8), (4, 3, 7, 8))]
    keep, dy = visible(2, 4, 6, 5, 7), normal(2, 4, 6, 5, 8, seed=7)
    bias = additive(keep, torch.float64).requires_grad_()
    mask, option, leaves = {
        "none": (None, {}, tensors),
        "boolean": (keep, {"mask": array(keep)}, tensors),
        "float": (bias, {"bias": array(bias)}, [*tensors, bias]),
    }[masked]
    # Its grouped queries do not broadcast over batch axes.
    q, *kv = tensors
    k, v = (x.repeat_interleave(2, -3) for x in kv)
    pulled = torch.autograd.grad(scaled_dot_product_attention(q, k, v, attn_mask=mask), leaves, dy)
    gradient = overt.attend(*map(array, tensors), **option).gradient(array(dy))
    for got, want in zip(gradient, pulled, strict=False):
        assert got.shape == tuple(want.shape)
        close(got, want, 1e-13)


def test_gradient_of_alibi() -> None:
    q, k, v = (x.requires_grad_() for x in inputs((2, 4, 5, 8), (2, 4, 7, 8)))
    slopes = (normal(4, seed=3).abs() + 0.1).requires_grad_()
    # Query t stands at key position t + S − T.
    distance = torch.arange(7) - torch.arange(5)[:, None] - 2
    dy = normal(2, 4, 5, 8, seed=7)
    y = definition(q, k, v, bias=-slopes[:, None, None] * distance.abs(), keep=distance <= 0)
    seen = overt.attend(*map(array, (q, k, v)), bias=overt.alibi(array(slopes)), mask=overt.causal())
    close(seen.output, y, 1e-14)
    for got, want in zip(seen.gradient(array(dy)), torch.autograd.grad(y, (q, k, v, slopes), dy), strict=True):
        close(got, want, 1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 4), (5, 2), (11, 17), (20, 40)])
@pytest.mark.parametrize(
    ("pool", "adaptive"), [("max", adaptive_max_pool2d), ("mean", adaptive_avg_pool2d)], ids=["max", "mean"]
)
def test_map(dtype: torch.dtype, rows: int, columns: int, pool: Any, adaptive: Callable[..., torch.Tensor]) -> None:
    """The rule of adaptive pooling, more bins than cells included."""
    q, k, v = inputs((2, 3, 11, 8), (2, 3, 17, 8), None, dtype)
    weights = torch.softmax((q @ k.mT / 8**0.5).masked_fill(~visible(11, 17), -torch.inf), -1).nan_to_num(0)
    got = overt.attend(*map(array, (q, k, v)), mask=array(visible(11, 17))).map(rows, columns, pool)
    close(got, adaptive(weights, (rows, columns)), 1e-14 if dtype == torch.float64 else 1e-6)


class TestTensors:
    """The definition runs on torch tensors, and autograd runs through it."""

    @pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
    def test_forward(self, dtype: torch.dtype) -> None:
        q, k, v = inputs((2, 6, 5, 8), (2, 3, 7, 8), None, dtype)
        keep = visible(2, 6, 5, 7)
        y = overt.attention(q, k, v, mask=keep)
        assert isinstance(y, torch.Tensor)
        assert y.dtype == dtype
        expected = scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        close(y, expected, TOLERANCE[dtype])

    @pytest.mark.parametrize("options", GRADIENTS)
    def test_autograd(self, options: dict[str, Any]) -> None:
        leaves = [x.requires_grad_() for x in inputs((2, 6, 5, 8), (2, 3, 7, 8), 4)]
        dy = normal(2, 6, 5, 4, seed=7)
        ours = {"mask" if name == "keep" else name: x for name, x in options.items()}
        y = overt.attention(*leaves, **ours)
        expected = definition(*leaves, **options)
        close(y, expected, 1e-14)
        for got, want in zip(
            torch.autograd.grad(y, leaves, dy), torch.autograd.grad(expected, leaves, dy), strict=True
        ):
            close(got, want, 1e-13)

    @pytest.mark.parametrize(
        "score",
        [
            overt.scaled_dot(),
            overt.dot(),
            overt.cosine(3.0),
            overt.bilinear(normal(4, 4, seed=3)),
            overt.additive(normal(3, 4, seed=3), normal(3, 4, seed=4), normal(3, seed=5), normal(3, seed=6)),
        ],
        ids=["scaled dot", "dot", "cosine", "bilinear", "additive"],
    )
    def test_gradcheck(self, score: Any) -> None:
        leaves = [x.requires_grad_() for x in inputs((2, 3, 4), (1, 5, 4), 2)]
        # Query 0 sees nothing.
        mask = overt.causal(offset=-1)
        assert torch.autograd.gradcheck(lambda q, k, v: overt.attention(q, k, v, score=score, mask=mask), leaves)

    def test_gradients_of_a_scores_parameters(self) -> None:
        q, k, v = inputs((2, 6, 5, 4), (2, 3, 7, 4), 2)
        dy, mask = normal(2, 6, 5, 2, seed=7), overt.causal()
        names = "query_weight", "key_weight", "v", "bias"
        shapes = (3, 4), (3, 4), (3,), (3,)
        for make, parameters in (
            (overt.bilinear, {"weight": normal(4, 4, seed=3)}),
            (overt.additive, {name: normal(*n, seed=i) for i, (name, n) in enumerate(zip(names, shapes, strict=True))}),
        ):
            leaves = {name: x.clone().requires_grad_() for name, x in parameters.items()}
            y = overt.attention(q, k, v, score=make(**leaves), mask=mask)
            expected = dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), dy), strict=True))
            arrays = make(**{name: array(x) for name, x in parameters.items()})
            for seen, pull in (
                (overt.attend(*map(array, (q, k, v)), score=arrays, mask=mask), array(dy)),
                (overt.attend(q, k, v, score=arrays, mask=mask), dy),
            ):
                found = seen.gradient(pull).score
                assert found.keys() == expected.keys()
                for name, want in expected.items():
                    close(found[name], want, 1e-12)

    def test_gradient_is_autograd(self) -> None:
        leaves = [x.requires_grad_() for x in inputs((2, 6, 5, 8), (2, 3, 7, 8))]
        dy, mask = normal(2, 6, 5, 8, seed=7), overt.causal()
        pulled = torch.autograd.grad(overt.attention(*leaves, mask=mask), leaves, dy)
        gradient = overt.attend(*leaves, mask=mask).gradient(dy)
        assert all(isinstance(x, torch.Tensor) for x in gradient[:3])
        for got, want in zip(gradient, pulled, strict=False):
            close(got, want, 1e-13)

    def test_statistics(self) -> None:
        tensors, mask = inputs((2, 6, 5, 8), (2, 3, 7, 8)), overt.causal()
        ours, arrays = overt.attend(*tensors, mask=mask), overt.attend(*map(array, tensors), mask=mask)
        for name in ("received", "entropy"):
            close(getattr(ours, name)(), getattr(arrays, name)(), 1e-14)
        close(ours.lse, arrays.lse, 1e-14)
        close(ours.map(2, 3), arrays.map(2, 3), 1e-14)
        for got, want in zip(ours.top(3), arrays.top(3), strict=True):
            close(got, want, 1e-14)

    def test_weights(self) -> None:
        tensors, mask = inputs((2, 6, 5, 8), (2, 3, 7, 8)), overt.causal()
        ours, arrays = overt.attend(*tensors, mask=mask), overt.attend(*map(array, tensors), mask=mask)
        close(ours.weights[1, 2:4, ::2], arrays.weights[1, 2:4, ::2], 1e-14)

    @pytest.mark.parametrize("wrap", [lambda x: x, lambda x: overt.alibi(abs(x[0, 0]))], ids=["array", "alibi"])
    def test_bfloat16_bias(self, wrap: Callable[[torch.Tensor], Any]) -> None:
        tensors = inputs((2, 7, 5, 8), (2, 7, 7, 8), None, torch.bfloat16)
        bias = normal(7, 5, 7, dtype=torch.bfloat16, seed=5)
        close(
            overt.attention(*tensors, bias=wrap(bias)),
            overt.attention(*map(array, tensors), bias=wrap(array(bias))),
            2**-7,
        )

    def test_autograd_of_the_bias(self) -> None:
        q, k, v = inputs((2, 6, 5, 8), (2, 3, 7, 8))
        bias, dy = normal(6, 5, 7, seed=5).requires_grad_(), normal(2, 6, 5, 8, seed=7)
        (want,) = torch.autograd.grad(definition(q, k, v, bias=bias), bias, dy)
        (got,) = torch.autograd.grad(overt.attention(q, k, v, bias=bias), bias, dy)
        close(got, want, 1e-13)

    @pytest.mark.parametrize("which", ["sinks", "weight"])
    def test_autograd_of_parameters(self, which: str) -> None:
        q, k, v = inputs((2, 6, 5, 8), (2, 3, 7, 8))
        dy = normal(2, 6, 5, 8, seed=7)
        # Otherwise torch warns but once a process.
        torch.set_warn_always(True)
        try:
            if which == "sinks":
                leaf = normal(6, seed=6).requires_grad_()
                got, want = overt.attention(q, k, v, sinks=leaf), definition(q, k, v, sinks=leaf)
            else:
                leaf = normal(8, 8, seed=6).requires_grad_()
                got = overt.attention(q, k, v, score=overt.bilinear(leaf))
                want = definition(q @ leaf * 8**0.5, k, v)
        finally:
            torch.set_warn_always(False)
        pulled = (torch.autograd.grad(y, leaf, dy)[0] for y in (got, want))
        close(*pulled, 1e-12)


class TestDifferences:
    """What ``docs/differences.md`` says of torch, so that it stays true."""

    def test_sdpa_lets_masked_nan_through(self) -> None:
        q, k, v = inputs((1, 1, 5, 8), (1, 1, 7, 8))
        keep = torch.ones(5, 7, dtype=torch.bool)
        keep[:, 3] = False
        k[..., 3, :] = v[..., 3, :] = torch.nan
        assert scaled_dot_product_attention(q, k, v, attn_mask=keep).isnan().all()
        assert not np.isnan(overt.attention(*map(array, (q, k, v)), mask=array(keep))).any()

    @pytest.mark.parametrize("E", [8, 6])
    def test_sdpa_documents_no_mask_beside_causal(self, E: int) -> None:
        tensors, keep = inputs((1, 1, 5, 8), (1, 1, 7, 8), E), visible(5, 7)
        both = scaled_dot_product_attention(*tensors, attn_mask=keep.tril())
        mask = overt.causal(offset=0) & overt.keep(array(keep))
        close(overt.attention(*map(array, tensors), mask=mask), both, 1e-14)
        if E == 8:
            # The fused kernel for the CPU takes both all the same, and means what overt means.
            close(scaled_dot_product_attention(*tensors, attn_mask=keep, is_causal=True), both, 1e-14)
        else:
            with pytest.raises(RuntimeError, match="is_causal"):
                scaled_dot_product_attention(*tensors, attn_mask=keep, is_causal=True)

    def test_sdpa_drops_out_wherever_it_is_told_to(self) -> None:
        q, k, v = inputs((1, 1, 5, 8), (1, 1, 7, 8))
        dropped = scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        assert not torch.allclose(dropped, scaled_dot_product_attention(q, k, v))

    def test_weights_are_those_before_dropout(self) -> None:
        arrays = [array(x) for x in inputs((1, 5, 8), (1, 7, 8))]
        dropped, plain = overt.attend(*arrays, dropout=overt.dropout(0.5, 1)), overt.attend(*arrays)
        close(np.asarray(dropped.weights), np.asarray(plain.weights), 1e-14)
        assert not np.allclose(dropped.output, plain.output)


class TestMultiheadAttention:
    """The heads of nn.MultiheadAttention, with its mask turned round."""

    H, T, D = 2, 5, 8

    @pytest.fixture
    def module(self) -> torch.nn.MultiheadAttention:
        torch.manual_seed(0)
        return torch.nn.MultiheadAttention(self.D, self.H, dropout=0.5, batch_first=True, dtype=torch.float64).eval()

    def heads(self, module: torch.nn.MultiheadAttention, x: torch.Tensor) -> list[np.ndarray]:
        packed = x @ module.in_proj_weight.T + module.in_proj_bias
        return [array(part.unflatten(-1, (self.H, -1)).transpose(-2, -3)) for part in packed.chunk(3, -1)]

    def test_true_means_may_not_attend(self, module: torch.nn.MultiheadAttention) -> None:
        x, keep = normal(2, self.T, self.D), torch.ones(self.T, self.T, dtype=torch.bool).tril()
        y, weights = module(x, x, x, attn_mask=~keep)
        seen = overt.attend(*self.heads(module, x), mask=array(keep))
        joined = torch.from_numpy(seen.output.copy()).transpose(1, 2).flatten(-2)
        close(joined @ module.out_proj.weight.T + module.out_proj.bias, y, 1e-14)
        # One matrix a batch row: the mean of the heads.
        close(np.asarray(seen.weights).mean(1), weights, 1e-14)
        _, weights = module(x, x, x, attn_mask=~keep, average_attn_weights=False)
        close(np.asarray(seen.weights), weights, 1e-14)

    def test_key_padding(self, module: torch.nn.MultiheadAttention) -> None:
        x, lengths = normal(2, self.T, self.D), torch.tensor([3, 5])
        padding = torch.arange(self.T) >= lengths[:, None]
        _, weights = module(x, x, x, key_padding_mask=padding)
        seen = overt.attend(*self.heads(module, x), mask=overt.padding(array(lengths)))
        close(np.asarray(seen.weights).mean(1), weights, 1e-14)

    def test_a_row_that_sees_nothing(self, module: torch.nn.MultiheadAttention) -> None:
        x, hide = normal(1, self.T, self.D), torch.zeros(self.T, self.T, dtype=torch.bool)
        hide[1] = True
        with_weights, weights = module(x, x, x, attn_mask=hide)
        without, _ = module(x, x, x, attn_mask=hide, need_weights=False)
        # NaN or zero, by whether anybody asked for the weights; in overt both are zero.
        assert weights[0, 1].isnan().all()
        assert with_weights[0, 1].isnan().all()
        close(without[0, 1], module.out_proj.bias, 1e-14)
        seen = overt.attend(*self.heads(module, x), mask=array(~hide))
        assert not seen.output[..., 1, :].any()
        assert not seen.weights[..., 1, :].any()

    def test_weights_are_those_after_dropout(self, module: torch.nn.MultiheadAttention) -> None:
        x = normal(1, self.T, self.D)
        _, weights = module.train()(x, x, x, average_attn_weights=False)
        plain = np.asarray(overt.attend(*self.heads(module, x)).weights)
        kept = wide(weights) != 0
        assert 0 < kept.sum() < kept.size
        close(wide(weights)[kept], 2 * plain[kept], 1e-14)
