"""overt.record where heads were moved, stand where queries do, or beside levels: axes are as the model has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from test_record_heads import SPLITS, Attention, given, recorded

B, T, W, H, D = 2, 5, 12, 3, 4
SDPA = functional.scaled_dot_product_attention
Mix = Callable[..., Tensor]


def causal(t: int = T) -> Tensor:
    return torch.full((t, t), -1e4).triu(1)


def softly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / D**0.5).softmax(-1) @ v


class Own(nn.Module):
    """Hands q (B, T, H, D), and k and v (B, T, G, D), to a function."""

    def __init__(self, mix: Mix, groups: int = H, heads: int = H) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.mix, self.heads, self.groups = mix, heads, groups
        self.q, self.k, self.v = (nn.Linear(W, n * D) for n in (heads, groups, groups))

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(y(x).unflatten(-1, (-1, D)) for y in (self.q, self.k, self.v))  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(*self.split(x))

    def exact(self, x: Tensor, mask: Tensor | None = None) -> np.ndarray:
        """Weights (B, H, T, T), in float64."""
        with torch.no_grad():
            q, k, _ = (y.double().transpose(1, 2) for y in self.split(x))
            scores = q @ k.repeat_interleave(self.heads // self.groups, 1).mT / D**0.5
            return (scores if mask is None else scores + mask).softmax(-1).numpy()


def agrees(model: nn.Module, x: Tensor, expected: Any, **options: Any) -> None:
    rec = recorded(model, x, **options)
    assert not rec.unseen
    np.testing.assert_allclose(rec[""].weights, expected, atol=2e-6)


MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "roll": lambda x: x.roll(-1, 1),
    "flip": lambda x: x.flip(1),
    "cat": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
    "stack": lambda x: torch.stack([x[:, 2], x[:, 0], x[:, 1]], 1),
    "chunks": lambda x: torch.cat(x.chunk(H, 1)[::-1], 1),
}


@pytest.mark.parametrize("mix", [softly, SDPA])
@pytest.mark.parametrize("name", MOVES)
def test_heads_stand_as_the_model_moved_them(name: str, mix: Mix) -> None:
    move, x = MOVES[name], given(B)
    for fold in (False, True):

        def forward(*qkv: Tensor, fold: bool = fold) -> Tensor:
            moved = [move(y.transpose(1, 2)) for y in qkv]
            return mix(*(y.flatten(0, 1) for y in moved)) if fold else mix(*moved)

        model = Own(forward)
        agrees(model, x, move(torch.from_numpy(model.exact(x))))


@pytest.mark.parametrize("split", ["split and cat", "interleaved", "four axes, heads first", "four axes"])
def test_the_output_of_another_kernel_lies_as_the_models(split: str) -> None:
    torch.manual_seed(1)
    model, x = Attention(SPLITS[split], 4, SDPA), given(B)
    with torch.no_grad():
        y = model(x)
        with overt.record(model, compute="overt"):
            found = model(x)
    torch.testing.assert_close(found, y, atol=1e-5, rtol=0)


def behind(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As GPT-BigCode does: heads stand behind the queries, which are folded for both products."""
    n, t, h, _ = q.shape
    w = torch.bmm(q.flatten(1, 2), k[:, :, 0].mT).mul(D**-0.5).view(n, t, h, -1) + causal(t)[:, None]
    return torch.bmm(w.softmax(-1).view(n, t * h, -1), v[:, :, 0]).view(q.shape)


def before(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    n, t, h, _ = q.shape
    scores = torch.einsum("bnd,bsd->bns", q.transpose(1, 2).flatten(1, 2), k[:, :, 0]) / D**0.5
    w = (scores + causal(t).repeat(h, 1)).softmax(-1)
    return torch.einsum("bns,bsd->bnd", w, v[:, :, 0]).view(n, h, t, -1).transpose(1, 2)


def groups(mix: Mix) -> Mix:
    def folded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        t, h = q.shape[1:3]
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        q = q.unflatten(2, (k.shape[1], -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        mask = causal(t).repeat(h // k.shape[1], 1)
        return mix(q, k, v, mask).unflatten(2, (-1, t)).flatten(1, 2).transpose(1, 2)

    return folded


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.mT / D**0.5 + mask).softmax(-1) @ v


def unturned(mix: Mix) -> Mix:
    """Queries and heads stand as they were split, and one head of keys beside them."""
    return lambda q, k, v: mix(q, k[:, None, :, 0], v[:, None, :, 0], causal(q.shape[1])[:, None])


FOLDS: list[tuple[Mix, int]] = [
    (behind, 1), (before, 1), (groups(masked), 1), (groups(masked), 2), (groups(SDPA), 2), (groups(SDPA), 3),
    (unturned(masked), 1), (unturned(SDPA), 1),
]  # fmt: skip


@pytest.mark.parametrize("queries", [1, T, 6])
@pytest.mark.parametrize(("mix", "groups"), FOLDS)
def test_heads_that_stand_where_queries_do(mix: Mix, groups: int, queries: int) -> None:
    # Six queries are as many as heads.
    x = torch.randn(B, queries, W, generator=torch.Generator().manual_seed(0))
    model = Own(mix, groups, 6)
    expected = model.exact(x, causal(queries))
    agrees(model, x, expected)
    with torch.no_grad():
        y = model(x)
        with overt.record(model, keep="statistics", compute="overt") as rec:
            torch.testing.assert_close(model(x), y, atol=1e-5, rtol=0)
    np.testing.assert_allclose(rec[""].received(), expected.sum(-2), atol=1e-5)


@pytest.mark.parametrize("mix", [softly, SDPA])
def test_features_that_are_compared_are_no_heads(mix: Mix) -> None:
    """Attention of channels to channels."""
    model, x = Own(lambda q, k, v: mix(*(y.permute(0, 2, 3, 1) for y in (q, k, v)))), given(B)
    assert recorded(model, x)[""].weights.shape == (B, H, D, D)


class Levels(nn.Module):
    """Two levels, which one map splits into heads."""

    def __init__(self, levels: Callable[..., Tensor], axes: tuple[int, ...], mix: Mix) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.levels, self.axes, self.mix = levels, axes, mix
        self.a, self.b, self.q, self.k, self.v = (nn.Linear(W, W) for _ in range(5))

    def split(self, x: Tensor) -> list[Tensor]:
        z = self.levels(self, x)
        return [y(z).unflatten(-1, (H, D)) for y in (self.q, self.k, self.v)]

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(*(y.permute(self.axes) for y in self.split(x)))


LEVELS: dict[str, Callable[..., Tensor]] = {
    "one thing": lambda m, x: x[:, None].expand(-1, 2, -1, -1),
    "one map": lambda m, x: torch.stack([m.a(x), m.a(x.flip(1))], 1),
    "two maps": lambda m, x: torch.stack([m.a(x), m.b(x)], 1),
    "a map and none": lambda m, x: torch.stack([x, m.a(x)], 1),
    "sums": lambda m, x: torch.cat([x[:, None], x.cumsum(1)[:, None]], 1),
}


@pytest.mark.parametrize("mix", [softly, SDPA])
@pytest.mark.parametrize("axes", [(0, 3, 1, 2, 4), (0, 1, 3, 2, 4), (3, 0, 1, 2, 4)])
@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_samples(name: str, axes: tuple[int, ...], mix: Mix) -> None:
    model, x = Levels(LEVELS[name], axes, mix), given(B)
    with torch.no_grad():
        q, k, _ = (y.double().transpose(2, 3).flatten(0, 1) for y in model.split(x))
    agrees(model, x, (q @ k.mT / D**0.5).softmax(-1))


MASKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added": lambda a, m: a + m,
    "added first": lambda a, m: torch.add(m, a),
    "in place": lambda a, m: a.add_(m),
    "filled": lambda a, m: a.masked_fill(m < 0, -1e4),
    "chosen": lambda a, m: torch.where(m < 0, m, a),
    "in four axes": lambda a, m: (a.view(B, H, T, T) + m.view(B, H, T, T)).view(a.shape),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_that_was_folded_tells_no_heads(name: str) -> None:
    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q.transpose(1, 2).reshape(B * H, T, D)
        k, v = (y.transpose(1, 2).expand(B, H, T, D).reshape(B * H, T, D) for y in (k, v))
        mask = (torch.zeros(B, 1, T, T) + causal()).expand(B, H, T, T).reshape(B * H, T, T)
        return MASKS[name](q @ k.mT / D**0.5, mask).softmax(-1) @ v

    model, x = Own(forward, groups=1), given(B)
    agrees(model, x, model.exact(x, causal()))


def absorbed(kind: str) -> Mix:
    """As DeepSeek-V3 infers: queries meet the latent of all heads, by a part of the map that would unfold it."""

    def mix(q: Tensor, latent: Tensor, turned: Tensor, w: Tensor) -> Tensor:
        if kind == "matmul":
            q = q.transpose(1, 2)
            scores = q[..., 2:] @ turned[:, None].mT + (q[..., :2] @ w[:, :2]) @ latent[:, None].mT
            return ((scores / 2).softmax(-1) @ latent[:, None]) @ w[:, 2:].mT
        found = torch.einsum("bshd,hdc->bshc", q[..., :2], w[:, :2])
        if kind == "folded":
            q, k = torch.cat([found, q[..., 2:]], -1).flatten(1, 2), torch.cat([latent, turned], -1)
            return (q @ k.mT / 2).softmax(-1) @ latent
        scores = torch.einsum("bshc,btc->bsht", found, latent)
        scores = scores + torch.einsum("bshr,btr->bsht", q[..., 2:], turned)
        return torch.einsum("bsht,btc->bshc", (scores / 2).softmax(-1), latent)

    return mix


@pytest.mark.parametrize("kind", ["einsum", "matmul", "folded"])
def test_maps_that_were_absorbed(kind: str) -> None:
    class Latent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.latent, self.up = nn.Linear(W, H * D), nn.Linear(W, 7), nn.Linear(5, H * 4, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            latent, turned = self.latent(x).split([5, 2], -1)
            return absorbed(kind)(self.q(x).unflatten(-1, (H, D)), latent, turned, self.up.weight.view(H, 4, 5))

    torch.manual_seed(1)
    model, x = Latent(), given(B)
    with torch.no_grad():
        q = model.q(x).unflatten(-1, (H, D)).transpose(1, 2).double()
        latent, turned = (y[:, None].double() for y in model.latent(x).split([5, 2], -1))
        k = latent @ model.up.weight.view(H, 4, 5)[:, :2].mT.double()
    agrees(model, x, ((q[..., :2] @ k.mT + q[..., 2:] @ turned.mT) / 2).softmax(-1))


def one(q: Tensor, k: Tensor) -> Tensor:
    return (q[0, :, 0] @ k[0, :, 0].mT / D**0.5).softmax(-1)


SPELLINGS: dict[str, Mix] = {
    "a sum in it": lambda q, k, v: torch.baddbmm(q[:, :, 0] * 99, one(q, k)[None], v[:1, :, 0], beta=0.5, alpha=2),
    "by their names": lambda q, k, v: torch.baddbmm(input=q[:1, :, 0], batch1=one(q, k)[None], batch2=v[:1, :, 0]),
    "in place": lambda q, k, v: q[:1, :, 0].clone().baddbmm_(one(q, k)[None], v[:1, :, 0]),
    "two axes": lambda q, k, v: torch.addmm(q[0, :, 0], one(q, k), v[0, :, 0]),
    "scores in place": lambda q, k, v: (
        torch.empty(1, T, T).baddbmm_(q[:1, :, 0], k[:1, :, 0].mT, beta=0, alpha=0.5).softmax(-1) @ v[:1, :, 0]
    ),
    "tensordot": lambda q, k, v: torch.tensordot(one(q, k), v[0, :, 0], 1),
    "tensordot, dims": lambda q, k, v: torch.tensordot(one(q, k), v[0, :, 0], dims=1),
    "tensordot, lists": lambda q, k, v: torch.tensordot(one(q, k), v[0, :, 0], ([-1], [0])),
    "tensordot, values first": lambda q, k, v: torch.tensordot(v[0, :, 0], one(q, k), dims=([0], [1])),
    "no arrow": lambda q, k, v: torch.einsum("ij,jk", one(q, k), v[0, :, 0]),
    "an ellipsis": lambda q, k, v: torch.einsum("...ij,...jk->...ik", one(q, k)[None], v[:1, :, 0]),
    "numbers": lambda q, k, v: torch.einsum(one(q, k), [0, 1], v[0, :, 0], [1, 2], [0, 2]),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_products_in_other_spellings(name: str) -> None:
    model, x = Own(SPELLINGS[name], groups=1, heads=1), given(1)
    agrees(model, x, model.exact(x))


def test_heads_by_tensordot() -> None:
    """One sample, whose heads share their keys; and maps that are learned."""

    class Dots(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Parameter(torch.randn(W, *n, D) / 3) for n in ((H,), (), ()))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (torch.tensordot(x[0], y, dims=([1], [0])) for y in (self.q, self.k, self.v))
            w = (torch.tensordot(q, k, dims=([-1], [-1])) / 2).softmax(-1)
            return torch.tensordot(w, v, 1)

    torch.manual_seed(1)
    model, x = Dots(), given(1)
    with torch.no_grad():
        q, k = (torch.einsum("btw,w...->bt...", x, y).double() for y in (model.q, model.k))
    agrees(model, x, (torch.einsum("bthd,bsd->bhts", q, k) / 2).softmax(-1))
