"""overt.record on code of strangers: attention as people write it themselves is right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import overt
from overt.errors import RecordingError

pytestmark = pytest.mark.filterwarnings("ignore")
B, H, T, D = 2, 4, 12, 8
W, SCALE = H * D, D**-0.5
SDPA = functional.scaled_dot_product_attention
AT = torch.arange(T)
CAUSAL = AT[:, None] >= AT
NEAR = CAUSAL & (AT[:, None] - AT < 4)
DISTANCE = -(AT[:, None] - AT).abs() * torch.tensor([0.5, 0.25, 0.1, 0.05])[:, None, None]
X = torch.randn(B, T, W, generator=torch.Generator().manual_seed(0))


class Own(nn.Module):
    """Self-attention with q, k and v (B, H, T, D) from one map."""

    def __init__(self, mix: Callable[..., Tensor]) -> None:
        super().__init__()
        self.mix, self.qkv, self.out = mix, nn.Linear(W, 3 * W), nn.Linear(W, W)

    def split(self, x: Tensor) -> list[Tensor]:
        return [y.unflatten(-1, (H, D)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mix(*self.split(x)).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def build(*mixes: Callable[..., Tensor]) -> Model:
    torch.manual_seed(0)
    return Model(*map(Own, mixes)).eval()


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * SCALE


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).softmax(-1) @ v


def causally(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~CAUSAL, -torch.inf)


def more(x: Tensor) -> Tensor:
    return torch.cat([x[:, :, :3].flip(2), x], 2)


def relative(q: Tensor, k: Tensor) -> Tensor:
    table = torch.sin(torch.arange(2 * T - 1)[:, None] * torch.arange(1, D + 1) * 0.1).to(q.dtype)
    places = (AT[:, None] - AT + T - 1).expand(B, H, T, T)
    return (q @ k.mT + (q @ table.T).gather(-1, places)) * SCALE


def largest(x: Tensor) -> Tensor:
    return x.masked_fill(x < x.topk(4, -1).values[..., -1:], -torch.inf)


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return plain(q, k, v)


# What somebody wrote, and the scores that it means, after masks and biases.
RIGHT: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "einsum with an ellipsis": (
        lambda q, k, v: torch.einsum(
            "...ts,...sd->...td", torch.softmax(torch.einsum("...td,...sd->...ts", q, k) * SCALE, -1), v
        ),
        scores,
    ),
    "einsum of numbered axes": (
        lambda q, k, v: torch.einsum(scores(q, k).softmax(-1), [0, 1, 2, 3], v, [0, 1, 3, 4], [0, 1, 2, 4]),
        scores,
    ),
    "scores by elements": (
        lambda q, k, v: ((q[:, :, :, None] * k[:, :, None]).sum(-1) * SCALE).softmax(-1) @ v,
        scores,
    ),
    "keys before queries": (lambda q, k, v: (k @ q.mT * SCALE).softmax(2).mT @ v, scores),
    "softmin": (lambda q, k, v: functional.softmin(-scores(q, k), -1) @ v, scores),
    "torch.special": (lambda q, k, v: torch.special.softmax(scores(q, k), -1) @ v, scores),
    "aten softmax": (lambda q, k, v: torch.ops.aten.softmax.int(scores(q, k), -1) @ v, scores),
    "aten sdpa": (lambda q, k, v: torch.ops.aten.scaled_dot_product_attention(q, k, v), scores),
    "renormalised": (
        lambda q, k, v: (lambda w: (w * CAUSAL) / (w * CAUSAL).sum(-1, keepdim=True))(scores(q, k).softmax(-1)) @ v,
        lambda q, k: scores(q, k).masked_fill(~CAUSAL, -torch.inf),
    ),
    "without what is no number": (
        lambda q, k, v: (lambda w: torch.where(torch.isnan(w), torch.zeros_like(w), w))(scores(q, k).softmax(-1)) @ v,
        scores,
    ),
    "largest alone": (lambda q, k, v: largest(scores(q, k)).softmax(-1) @ v, lambda q, k: largest(scores(q, k))),
    "relative": (lambda q, k, v: relative(q, k).softmax(-1) @ v, relative),
    "ALiBi": (
        lambda q, k, v: SDPA(q, k, v, attn_mask=DISTANCE.masked_fill(~CAUSAL, -torch.inf)[None].to(q.dtype)),
        lambda q, k: (scores(q, k) + DISTANCE).masked_fill(~CAUSAL, -torch.inf),
    ),
    "window": (
        lambda q, k, v: SDPA(q, k, v, attn_mask=NEAR),
        lambda q, k: scores(q, k).masked_fill(~NEAR, -torch.inf),
    ),
    "torch's own causal bias": (lambda q, k, v: SDPA(q, k, v, attn_mask=causal_upper_left(T, T)), causally),
    "that of the last key": (
        lambda q, k, v: SDPA(q, more(k), more(v), attn_mask=causal_lower_right(T, T + 3)),
        lambda q, k: scores(q, more(k)).masked_fill(AT[:, None] + 3 < torch.arange(T + 3), -torch.inf),
    ),
    "one key head": (
        lambda q, k, v: SDPA(q, *(x[:, :1].expand(-1, H, -1, -1) for x in (k, v))),
        lambda q, k: scores(q, k[:, :1]),
    ),
    "softmax in float32": (
        lambda q, k, v: functional.softmax(scores(q, k), -1, dtype=torch.float32).to(v.dtype) @ v,
        scores,
    ),
    "a function of autograd": (lambda q, k, v: Function.apply(q, k, v), scores),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_people_write_is_right(name: str, dtype: torch.dtype) -> None:
    mix, meant = RIGHT[name]
    model, x = build(mix).to(dtype), X.to(dtype)
    with torch.no_grad():
        q, k, _ = (y.double() for y in model.layers[0].split(x))
        expected = meant(q, k).softmax(-1).numpy()
        y = model(x)
        for keep in ("qk", "statistics"):
            with overt.record(model, keep=keep) as rec:
                assert torch.equal(model(x), y)
            assert rec.names == ["layers.0"]
            # Code of somebody's own rounds its scores and weights.
            atol = 1e-6 if dtype == torch.float32 else 2e-2
            np.testing.assert_allclose(rec["layers.0"].received(), expected.sum(-2), atol=T * atol)
            if keep == "qk":
                np.testing.assert_allclose(rec["layers.0"].weights, expected, atol=atol)


def test_under_autocast_what_people_write_is_right() -> None:
    model = build(plain, SDPA)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16), overt.record(model) as rec:
            model(X)
        q, k, _ = model.layers[0].split(X)
        np.testing.assert_allclose(rec["layers.0"].weights, scores(q, k).softmax(-1), atol=2e-2)
    assert rec["layers.1"].deviation < 2e-2


def online(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Piece by piece, as flash kernels do it."""
    m, total, y = torch.full((B, H, T, 1), -torch.inf), torch.zeros(B, H, T, 1), torch.zeros(B, H, T, D)
    for s in range(0, T, 4):
        x = scores(q, k[:, :, s : s + 4])
        new = torch.maximum(m, x.amax(-1, keepdim=True))
        p, shrunk = torch.exp(x - new), torch.exp(m - new)
        total, y, m = total * shrunk + p.sum(-1, keepdim=True), y * shrunk + p @ v[:, :, s : s + 4], new
    return y / total


def by_two(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    p = torch.exp2(scores(q, k) * 1.4426950408889634)
    return (p / p.sum(-1, keepdim=True)) @ v


@torch.library.custom_op("test_record_own::attend", mutates_args=())
def closed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain(q, k, v)


def ragged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    parts = (torch.nested.nested_tensor([*x.transpose(1, 2)], layout=torch.jagged).transpose(1, 2) for x in (q, k, v))
    return torch.nested.to_padded_tensor(SDPA(*parts).transpose(1, 2), 0.0).transpose(1, 2)


def native(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    x = q.transpose(1, 2).flatten(2)
    maps = torch.eye(3 * W, W), torch.zeros(3 * W), torch.eye(W), torch.zeros(W)
    y = torch._native_multi_head_attention(x, x, x, W, H, *maps)[0]
    return y.unflatten(-1, (H, D)).transpose(1, 2)


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "piece by piece": (online, "it spells out its softmax by exp,"),
    "powers of two": (by_two, "it spells out its softmax by exp2"),
    "a kernel itself": (
        lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
        "it calls aten::_scaled_dot_product_flash_attention_for_cpu, which shows nothing of its inside",
    ),
    "an operator": (lambda q, k, v: closed(q, k, v), "it calls test_record_own::attend"),
    "torch's fast path": (native, "it calls _native_multi_head_attention"),
    "vmap": (lambda q, k, v: torch.vmap(plain)(q, k, v), r"after its softmax, it runs inside torch\.func"),
    "ragged": (ragged, "its tensors are of the class nested NestedTensor"),
    "a piece that is used beside one that is not understood": (
        lambda q, k, v: (lambda w: w[..., :4] * v[:, :, :1, :4] @ v[:, :, :4] + w[..., 4:] @ v[:, :, 4:])(
            scores(q, k).softmax(-1)
        ),
        "after its softmax, ",
    ),
    "the same the other way round": (
        lambda q, k, v: (lambda w: w[..., 4:] @ v[:, :, 4:] + (w[..., :4, None] * v[:, :, None, :4]).sum(-2))(
            scores(q, k).softmax(-1)
        ),
        "after its softmax, mul",
    ),
    "blocks of keys beside global ones": (
        lambda q, k, v: (
            lambda w: (
                torch.einsum("bhnts,bhsd->bhntd", w[..., :4], v[:, :, :4])
                + torch.einsum("bhnts,bhnsd->bhntd", w[..., 4:], v.unflatten(2, (3, 4)))
            ).flatten(2, 3)
        )(
            torch.cat(
                [
                    torch.einsum("bhntd,bhsd->bhnts", q.unflatten(2, (3, 4)), k[:, :, :4]),
                    torch.einsum("bhntd,bhnsd->bhnts", q.unflatten(2, (3, 4)), k.unflatten(2, (3, 4))),
                ],
                -1,
            ).softmax(-1)
        ),
        "after its softmax, einsum",
    ),
    "a difference": (lambda q, k, v: (scores(q, k).softmax(-1) - scores(k, q).softmax(-1)) @ v, "after its softmax"),
    "a window of its own": (
        lambda q, k, v: torch.einsum(
            "bhtw,bhtdw->bhtd",
            torch.einsum("bhtd,bhtdw->bhtw", q, functional.pad(k, (0, 0, 3, 0)).unfold(2, 4, 1)).softmax(-1),
            functional.pad(v, (0, 0, 3, 0)).unfold(2, 4, 1),
        ),
        "after its softmax, einsum",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_named_beside_what_can(name: str) -> None:
    mix, why = REFUSED[name]
    model = build(plain, mix)
    with torch.no_grad():
        model(X)
        message = rf"could not follow 1 .*and recorded [12]: layers\.1: {why}"
        with pytest.raises(RecordingError, match=message), overt.record(model):
            model(X)
        # Who does without it gets the others.
        with overt.record(model, layers="layers.0") as rec:
            model(X)
    assert rec.names == ["layers.0"]


class Bare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(torch.softmax(torch.matmul(x, x.transpose(-1, -2)), -1), x)


@pytest.mark.parametrize("make", [torch.jit.script, lambda module: torch.jit.trace(module, X)])
def test_torchscript_is_named(make: Callable[..., Any]) -> None:
    model = Model(Own(plain), make(Bare())).eval()
    with torch.no_grad():
        with pytest.raises(RecordingError, match=r"recorded 1: layers\.1: it is TorchScript"), overt.record(model):
            model(X)
        model.layers[1] = make(nn.Sequential(nn.Linear(W, W), nn.ReLU()))
        with overt.record(model) as rec:
            model(X)
    assert (rec.names, rec.without) == (["layers.0"], ["layers.1"])


def test_what_mixes_without_a_softmax_is_named() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Own(plain), Own(lambda q, k, v: torch.sigmoid(scores(q, k)) @ v)

        def forward(self, x: Tensor) -> Tensor:
            return self.two(self.one(x))

    model = Two()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["one"], ["two"])
    assert "without attention: two" in str(rec)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_a_router_of_experts_is_no_attention(mode: Any) -> None:
    """Scores of parameters are none, whichever way these are turned."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.w = nn.Parameter(torch.randn(4, W)), nn.Parameter(torch.randn(4, W, W))

        def forward(self, x: Tensor) -> Tensor:
            share = (x @ self.gate.T).softmax(-1)
            return torch.einsum("bte,bted->btd", share, torch.einsum("btd,edf->btef", x, self.w))

    model = Model(Own(plain), Experts())
    with mode(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["layers.0"], ["layers.1"])


@pytest.mark.parametrize("keep", ["qk", "statistics"])
@pytest.mark.parametrize("mix", [SDPA, plain])
def test_attention_over_nothing(keep: str, mix: Callable[..., Tensor]) -> None:
    model = build(mix)
    for x in (X[:0], X[:, :0]):
        with (
            torch.no_grad(),
            pytest.raises(RecordingError, match=r"layers\.0 attended with no queries or no keys"),
            overt.record(model, keep=keep),
        ):
            model(x)
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        model(X[:, :0])
        model(X[:, :1])
    assert rec["layers.0"].received().shape == (B, H, 1)


def test_numbers_that_are_not_finite_are_named() -> None:
    x, model = X.clone(), build(SDPA)
    x[0, 3] = torch.nan
    for keep in ("qk", "statistics"):
        with (
            torch.no_grad(),
            pytest.raises(RecordingError, match=r"layers\.0: .* its own output is not finite"),
            overt.record(model, keep=keep),
        ):
            model(x)


def test_weights_that_are_not_finite_are_named() -> None:
    def strictly(q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k).masked_fill(~CAUSAL.tril(-1), -torch.inf).softmax(-1)

    message = r"layers\.0: the weights of its softmax are not all finite.* or give the weights nan_to_num\(\)"
    model = build(lambda q, k, v: strictly(q, k) @ v)
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)
    model = build(lambda q, k, v: strictly(q, k).nan_to_num() @ v)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert not np.asarray(rec["layers.0"].weights)[:, :, 0].any()


@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_queries_that_see_nothing_count_in_no_measure(keep: str) -> None:
    earlier = CAUSAL.tril(-1)
    by_hand = build(lambda q, k, v: scores(q, k).masked_fill(~earlier, -torch.inf).softmax(-1).nan_to_num() @ v)
    fused = build(lambda q, k, v: SDPA(q, k, v, attn_mask=earlier))
    found = []
    for model in (by_hand, fused):
        with torch.no_grad(), overt.record(model, keep=keep) as rec:
            model(X)
        assert np.isneginf(rec["layers.0"].lse[..., 0]).all()
        told = rec.measures()["layers.0"]
        found.append([rec.mass({"all": slice(None)})["all"]["layers.0"], told.first, told.sinks, told.entropy])
    for own, other in zip(*found, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-6)


def test_a_part_that_was_compiled_keeps_its_name() -> None:
    model = build(plain, SDPA)
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    with torch.no_grad():
        model(X)
        with overt.record(model) as rec:
            model(X)
    assert rec.names == ["layers.0", "layers.1"]


class Cached(nn.Module):
    """Self-attention that keeps its keys and values: one piece after another, in room to spare, or in a ring."""

    def __init__(self, kind: str, mix: Callable[..., Tensor]) -> None:
        super().__init__()
        self.kind, self.mix, self.qkv, self.known = kind, mix, nn.Linear(W, 3 * W), 0
        length = {"joined": 0, "spare": 20, "ring": 6}[kind]
        self.k, self.v = torch.zeros(2, B, H, length, D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (H, D)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        n, self.known = x.shape[1], self.known + x.shape[1]
        places = torch.arange(self.known - n, self.known)
        if self.kind == "joined":
            self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        else:
            self.k[:, :, places % self.k.shape[2]], self.v[:, :, places % self.k.shape[2]] = k, v
        seen = torch.arange(self.k.shape[2]) <= places[:, None]
        return self.mix(q, self.k, self.v, seen).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("mix", [lambda q, k, v, seen: SDPA(q, k, v, attn_mask=seen), None])
@pytest.mark.parametrize("kind", ["joined", "spare"])
def test_steps_with_a_cache_of_ones_own_are_joined(kind: str, mix: Any) -> None:
    torch.manual_seed(0)
    by_hand = mix or (lambda q, k, v, seen: scores(q, k).masked_fill(~seen, -torch.inf).softmax(-1) @ v)
    model = Cached(kind, by_hand)
    with torch.inference_mode():
        q, k, _ = (y.unflatten(-1, (H, D)).transpose(1, 2) for y in model.qkv(X).chunk(3, -1))
        expected = scores(q, k).masked_fill(~CAUSAL, -torch.inf).softmax(-1)
        with overt.record(model) as rec:
            for a, b in ((0, 8), *((t, t + 1) for t in range(8, T))):
                model(X[:, a:b])
    assert rec[""].weights.shape == expected.shape
    np.testing.assert_allclose(rec[""].weights, expected, atol=1e-6)


def test_a_ring_of_ones_own_is_no_one_matrix() -> None:
    torch.manual_seed(0)
    model = Cached("ring", lambda q, k, v, seen: SDPA(q, k, v, attn_mask=seen))
    with torch.inference_mode(), overt.record(model) as rec:
        for t in range(T):
            model(X[:, t : t + 1])
    assert len(rec.calls("")) == T
    assert max(seen.deviation for seen in rec.calls("")) < 1e-6
    with pytest.raises(RecordingError, match="do not continue one another"):
        rec[""]
