"""overt.record where heads lie elsewhere than behind the samples: what was split tells, and no name of an attribute."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import RecordingError

D, T, W = 3, 5, 12
SCALE = D**-0.5
SDPA = functional.scaled_dot_product_attention
Split = Callable[[Tensor, int], Tensor]


def turned(x: Tensor) -> Tensor:
    """Rotary positions."""
    angles = torch.arange(x.shape[-2])[:, None] * torch.tensor([1.0, 0.1, 1.0])
    return x * angles.cos() + torch.cat([-x[..., 1:], x[..., :1]], -1) * angles.sin()


# How people split (B, T, H·D), and what they have then: (H·B, T, D), (B·H, T, D), (H, B, T, D) or (B, H, T, D).
SPLITS: dict[str, Split] = {
    "split and cat": lambda x, h: torch.cat(x.split(D, 2), 0),
    "chunk and cat": lambda x, h: torch.cat(torch.chunk(x, h, dim=-1), dim=0),
    "indices and cat": lambda x, h: torch.cat([x[..., i * D : (i + 1) * D] for i in range(h)]),
    "tensor_split and concat": lambda x, h: torch.concat(x.tensor_split(h, -1), 0),
    "view, transpose, reshape": lambda x, h: x.view(*x.shape[:2], h, D).transpose(1, 2).reshape(-1, x.shape[1], D),
    "permute and reshape": lambda x, h: x.reshape(*x.shape[:2], h, D).permute(2, 0, 1, 3).reshape(-1, x.shape[1], D),
    "permute, contiguous, view": lambda x, h: (
        x.unflatten(-1, (h, D)).permute(2, 0, 1, 3).contiguous().view(-1, x.shape[1], D)
    ),
    "movedim and flatten": lambda x, h: x.unflatten(-1, (h, -1)).movedim(2, 1).flatten(0, 1),
    "unfold": lambda x, h: x.unfold(-1, D, D).transpose(1, 2).flatten(0, 1),
    "unfold, heads first": lambda x, h: x.unfold(-1, D, D).permute(2, 0, 1, 3).flatten(0, 1),
    "sequence first": lambda x, h: x.transpose(0, 1).contiguous().view(x.shape[1], -1, D).transpose(0, 1),
    "interleaved": lambda x, h: x.unflatten(-1, (D, h)).permute(3, 0, 1, 2).flatten(0, 1),
    "chunk and stack": lambda x, h: torch.stack(x.chunk(h, -1)),
    "chunk and stack behind the samples": lambda x, h: torch.stack(x.chunk(h, -1), 1),
    "chunk, stack, flatten": lambda x, h: torch.stack(x.chunk(h, -1)).flatten(0, 1),
    "four axes": lambda x, h: x.unflatten(-1, (h, D)).transpose(1, 2),
    "four axes, heads first": lambda x, h: x.unflatten(-1, (h, D)).permute(2, 0, 1, 3),
    "scaled, normalised, turned": lambda x, h: turned(functional.normalize(torch.cat((x * 2).split(D, 2)) / 3, dim=-1)),
    "halves and back": lambda x, h: torch.cat(x.double().split(D, 2)).float(),
}


def softly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * SCALE).softmax(-1) @ v


def by_bmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    shape = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    scores = torch.baddbmm(torch.zeros(len(q), q.shape[1], k.shape[1]), q, k.mT, alpha=SCALE)
    return torch.bmm(scores.softmax(-1), v).view(*shape[:-1], D)


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    axes = "nm"[: q.ndim - 2]
    w = torch.einsum(f"{axes}td,{axes}sd->{axes}ts", q * SCALE, k).softmax(-1)
    return torch.einsum(f"{axes}ts,{axes}sd->{axes}td", w, v)


WAYS = [softly, by_bmm, by_einsum, SDPA]


class Attention(nn.Module):
    def __init__(self, split: Split, h: int, mix: Callable[..., Tensor] = softly, /, **named: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(W, h * D) for _ in range(3))
        self.split, self.h, self.mix = split, h, mix
        for name, n in named.items():
            setattr(self, name, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(*(self.split(y(x), self.h) for y in (self.q, self.k, self.v)))


def exact(model: Any, x: Tensor, split: Split, heads: int) -> np.ndarray:
    """Weights (B, H, T, T) of one sample and one head after the other, in float64."""
    model = model.double()
    q, k = (torch.stack([split(y(one[None].double()), heads).reshape(heads, -1, D) for one in x])
            for y in (model.q, model.k))  # fmt: skip
    weights = (q @ k.mT * SCALE).softmax(-1).numpy()
    model.float()
    return weights


def recorded(model: nn.Module, *inputs: Tensor, **options: Any) -> Any:
    with torch.no_grad():
        y = model(*inputs)
        with overt.record(model, **options) as rec:
            assert torch.equal(model(*inputs), y)
    return rec


def given(B: int, seed: int = 0) -> Tensor:
    return torch.randn(B, T, W, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("B", [1, 2, 3])
@pytest.mark.parametrize("split", SPLITS)
def test_samples_and_heads_are_told_apart(split: str, B: int, heads: int) -> None:
    x, names = given(B), [{}, {"num_heads": heads}, {"num_heads": 2}, {"n_head": B, "heads": 3}]
    for mix, named in zip(WAYS, names, strict=True):
        torch.manual_seed(1)
        model = Attention(SPLITS[split], heads, mix, **named)
        rec = recorded(model, x)
        with torch.no_grad():
            expected = exact(model, x, SPLITS[split], heads)
        assert rec[""].weights.shape == (B, heads, T, T)
        np.testing.assert_allclose(rec[""].weights, expected, atol=2e-6)
        assert rec[""].deviation < 1e-5
        kept = recorded(model, x, keep="statistics")
        np.testing.assert_allclose(kept[""].received(), expected.sum(-2), atol=1e-5)
        assert kept[""].lse.shape == (B, heads, T)


@pytest.mark.parametrize("split", ["split and cat", "four axes, heads first", "view, transpose, reshape"])
def test_masks_and_lse_of_heads_that_lie_elsewhere(split: str) -> None:
    B, heads = 3, 2
    x, mask = given(B), torch.rand(B, heads, T, T, generator=torch.Generator().manual_seed(2)) > 0.4
    mask |= torch.eye(T, dtype=torch.bool)
    own = mask.transpose(0, 1) if split != "view, transpose, reshape" else mask
    own = own if split.startswith("four") else own.flatten(0, 1)
    torch.manual_seed(1)
    model = Attention(SPLITS[split], heads, lambda q, k, v: SDPA(q, k, v, attn_mask=own))
    rec = recorded(model, x)
    with torch.no_grad():
        q, k = (y(x).double().unflatten(-1, (heads, D)).transpose(1, 2) for y in (model.q, model.k))
        scores = (q @ k.mT * SCALE).masked_fill(~mask, -torch.inf)
    np.testing.assert_allclose(rec[""].weights, scores.softmax(-1), atol=2e-6)
    np.testing.assert_allclose(rec[""].lse, scores.logsumexp(-1), atol=1e-5)


class Shared(nn.Module):
    """Grouped keys, queries that are learned, or maps of single heads."""

    def __init__(self, kind: str, heads: int, mix: Callable[..., Tensor]) -> None:
        super().__init__()
        self.kind, self.h, self.mix = kind, heads, mix
        self.q, self.k, self.v = (nn.Linear(W, heads * D) for _ in range(3))
        self.learned = nn.Parameter(torch.randn(1, 4, W))
        self.one = nn.Linear(D, D)
        self.each = nn.ModuleList(nn.Linear(W, D) for _ in range(3 * heads))
        self.maps = nn.Parameter(torch.randn(3, heads, W, D) / 3)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, B = self.h, len(x)
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.kind == "one key head":
            k, v = (y[..., :D].expand(h, -1, -1, -1).reshape(-1, T, D) for y in (k, v))
            return torch.cat(q.split(D, -1)), k, v
        if self.kind == "groups":
            k, v = (y[..., : h // 2 * D].unflatten(-1, (-1, D)).repeat_interleave(2, 2) for y in (k, v))
            return tuple(y.permute(2, 0, 1, 3).flatten(0, 1) for y in (q.unflatten(-1, (h, D)), k, v))  # type: ignore[return-value]
        if self.kind == "learned queries":
            q = self.q(self.learned.repeat(B, 1, 1))
        if self.kind == "learned queries that are spread":
            q = self.q(self.learned).expand(B, -1, -1)
        if self.kind in ("maps of heads", "maps of heads, first"):
            q, k, v = (self.one(y.unflatten(-1, (h, D))).permute(2, 0, 1, 3) for y in (q, k, v))
            return (q, k, v) if "first" in self.kind else (q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1))
        if self.kind == "single maps":
            q, k, v = (torch.cat([y(x) for y in self.each[i * h : (i + 1) * h]]) for i in range(3))
            return q, k, v
        if self.kind == "maps by einsum":
            return tuple(torch.einsum("btw,hwd->hbtd", x, y) for y in self.maps)  # type: ignore[return-value]
        if self.kind == "maps by products":
            return tuple(x @ y[:, None] for y in self.maps)  # type: ignore[return-value]
        return tuple(torch.cat(y.split(D, -1)) for y in (q, k, v))  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(*self.split(x))


KINDS = [
    "one key head", "groups", "learned queries", "learned queries that are spread", "maps of heads",
    "maps of heads, first", "single maps", "maps by einsum", "maps by products",
]  # fmt: skip


@pytest.mark.parametrize("mix", WAYS)
@pytest.mark.parametrize("B", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_heads_that_share_or_have_maps_of_their_own(kind: str, B: int, mix: Callable[..., Tensor]) -> None:
    heads, x = 4, given(B)
    torch.manual_seed(1)
    model = Shared(kind, heads, mix)
    rec = recorded(model, x)
    with torch.no_grad():
        q, k, _ = zip(*(model.split(one[None]) for one in x), strict=True)
        q, k = (torch.stack([y.reshape(heads, -1, D) for y in z]).double() for z in (q, k))
    np.testing.assert_allclose(rec[""].weights, (q @ k.mT * SCALE).softmax(-1), atol=2e-6)


@pytest.mark.parametrize("mix", [softly, by_bmm, SDPA])
def test_where_nothing_tells_the_rows_are_as_they_are(mix: Callable[..., Tensor]) -> None:
    """Beams look at one memory, and cells that were added up are those of nobody."""

    class Beams(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.num_heads = nn.Linear(W, D), nn.Linear(W, D), nn.Linear(W, D), 2

        def forward(self, x: Tensor, memory: Tensor) -> Tensor:
            return mix(self.q(x), *(y(memory).repeat_interleave(2, 0) for y in (self.k, self.v)))

    torch.manual_seed(1)
    beams = Beams()
    rec = recorded(beams, given(4), given(2, seed=1))
    assert rec[""].weights.shape == (4, 1, T, T)

    class Summed(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return self.mix(*(self.split(y(x), self.h).cumsum(0) for y in (self.q, self.k, self.v)))

    summed = Summed(SPLITS["split and cat"], 2, mix, num_heads=2)
    rec = recorded(summed, given(3))
    assert rec[""].weights.shape == (6, 1, T, T)
    with torch.no_grad():
        q, k = (torch.cat(y(given(3)).split(D, 2)).cumsum(0).double() for y in (summed.q, summed.k))
    np.testing.assert_allclose(np.asarray(rec[""].weights)[:, 0], (q @ k.mT * SCALE).softmax(-1), atol=2e-6)


def test_values_of_queries_are_none_of_heads_by_their_number() -> None:
    """As many queries, or samples, as an attribute says that there are heads."""

    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.num_heads = nn.Linear(W, D), nn.Linear(W, D), nn.Linear(W, D), T

        def forward(self, x: Tensor) -> Tensor:
            k, v = (functional.pad(y(x), (0, 0, 2, 0)).unfold(1, 3, 1) for y in (self.k, self.v))
            w = torch.einsum("btd,btdw->btw", self.q(x), k).softmax(-1)
            return torch.einsum("btw,btdw->btd", w, v)

    torch.manual_seed(1)
    model = Windows()
    with torch.no_grad(), pytest.raises(RecordingError, match="after its softmax, einsum"), overt.record(model):
        model(given(2))

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.num_heads = nn.Linear(W, W), nn.Linear(W, W), 2

        def forward(self, x: Tensor) -> Tensor:
            w = torch.einsum("bd,bsd->bs", self.q(x[:, 0]), self.k(x)).softmax(-1)
            return torch.einsum("bs,bsd->bd", w, x)

    pooled = Pooled()
    rec = recorded(pooled, given(2))
    assert rec[""].weights.shape == (2, 1, 1, T)


@pytest.mark.parametrize("heads", [1, 2, T])
def test_the_letters_of_an_equation_are_told_apart_by_what_they_stand_for(heads: int) -> None:
    """One head of keys; the queries stand before the heads, or behind them, and may be as many."""

    class One(nn.Module):
        def __init__(self, axes: str) -> None:
            super().__init__()
            self.q, self.k, self.v = nn.Linear(W, heads * D), nn.Linear(W, D), nn.Linear(W, D)
            self.axes, self.num_heads = axes, heads

        def forward(self, x: Tensor) -> Tensor:
            q = self.q(x).unflatten(-1, (heads, D))
            w = torch.einsum(f"bthd,bsd->{self.axes}", q * SCALE, self.k(x)).softmax(self.axes.index("s"))
            return torch.einsum(f"{self.axes},bsd->bthd", w, self.v(x))

    x = given(2)
    for axes in ("bths", "bhts", "hbts", "tbhs"):
        torch.manual_seed(1)
        model = One(axes)
        rec = recorded(model, x)
        with torch.no_grad():
            q, k = model.q(x).unflatten(-1, (heads, D)).transpose(1, 2).double(), model.k(x)[:, None].double()
        np.testing.assert_allclose(rec[""].weights, (q @ k.mT * SCALE).softmax(-1), atol=2e-6)


def test_two_layers_that_are_alike_are_two() -> None:
    """What one layer told is not taken for another, whose heads lie elsewhere."""
    torch.manual_seed(1)
    names = "split and cat", "view, transpose, reshape", "split and cat"

    class Joined(Attention):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            if self.split is SPLITS["split and cat"]:
                return torch.cat(y.chunk(4), -1)
            return y.unflatten(0, (-1, 4)).transpose(1, 2).flatten(2)

    model = nn.Sequential(*(Joined(SPLITS[name], 4) for name in names))
    x = given(3)
    rec = recorded(model, x)
    for i, name in enumerate(names):
        with torch.no_grad():
            np.testing.assert_allclose(rec[str(i)].weights, exact(model[i], x, SPLITS[name], 4), atol=2e-6)
            x = model[i](x)


def test_no_tensor_is_kept_by_what_it_was_split_from() -> None:
    gone = []

    class Watched(Attention):
        def forward(self, x: Tensor) -> Tensor:
            y = self.q(x)
            gone.append(weakref.ref(y))
            z = self.split(y, self.h)
            del y
            assert gone[-1]() is None
            return self.mix(z, z, z)

    torch.manual_seed(1)
    recorded(Watched(SPLITS["split and cat"], 2), given(2))
    assert len(gone) == 2


def efficient(kind: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Linear attention of q, k and v (B, H, T, D): sums over the keys first, for each of their features."""

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if kind == "softmax over positions":
            return q.softmax(-1) @ (k.softmax(-2).mT @ v)
        if kind == "scaled, by einsum":
            context = torch.einsum("bhsd,bhse->bhde", k.softmax(dim=-2), v)
            return torch.einsum("bhtd,bhde->bhte", q.softmax(dim=-1) * SCALE, context)
        if kind == "softmax over features":
            return q.softmax(-1) @ (k.softmax(-1).mT @ v)
        if kind == "keys alone":
            return functional.elu(q) @ (k.softmax(-2).mT @ v)
        if kind == "queries alone":
            return q.softmax(-1) @ ((functional.elu(k) + 1).mT @ v)
        if kind == "features first":
            q, k, v = q.mT, k.mT, v.mT
            context = torch.einsum("bhds,bhes->bhde", k.softmax(-1), v)
            return torch.einsum("bhde,bhdt->bhet", context, q.softmax(-2)).mT
        if kind == "heads first":
            q, k, v = (x.transpose(0, 1).flatten(0, 1) for x in (q, k, v))
            y = torch.bmm(q.softmax(-1), torch.bmm(k.softmax(1).transpose(1, 2), v))
            return y.unflatten(0, (2, -1)).transpose(0, 1)
        raise AssertionError(kind)

    return mix


LINEAR = [
    "softmax over positions", "scaled, by einsum", "softmax over features", "keys alone", "queries alone",
    "features first", "heads first",
]  # fmt: skip


class Layers(nn.Module):
    def __init__(self, *mixes: Callable[..., Tensor]) -> None:
        super().__init__()
        split = SPLITS["four axes"]
        self.layers = nn.ModuleList(Attention(split, 2, mix) for mix in mixes)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x) for layer in self.layers])


@pytest.mark.parametrize("kind", LINEAR)
def test_a_softmax_over_features_is_no_attention(kind: str) -> None:
    torch.manual_seed(1)
    rec = recorded(Layers(softly, efficient(kind), softly), given(3))
    assert (rec.names, rec.without) == (["layers.0", "layers.2"], ["layers.1"])
    alone = Layers(efficient(kind))
    message = r"nothing was recorded: .* there mix layers\.0$"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(alone):
        alone(given(3))


class Pooled(nn.Module):
    """Attention of some queries that are learned: a softmax over positions, and nothing else is made of it."""

    def __init__(self, then: Callable[[Tensor], Tensor] = lambda y: y) -> None:
        super().__init__()
        self.one, self.two, self.then = nn.Linear(W, W), nn.Linear(W, 3), then

    def forward(self, x: Tensor) -> Tensor:
        w = self.two(torch.tanh(self.one(x))).softmax(1)
        return self.then(w.mT @ x)


@pytest.mark.parametrize("then", [lambda y: y, lambda y: y @ y.mT, lambda y: y.mean(1), lambda y: y.softmax(-1)])
def test_a_softmax_over_positions_that_pools_is_attention(then: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(1)
    pool = Pooled(then)

    class Two(nn.ModuleList):
        def forward(self, x: Tensor) -> Tensor:
            return self[0](x) + self[1](x).sum() + self[0](x)

    rec = recorded(Two([pool, Attention(SPLITS["four axes"], 2)]), given(2))
    assert rec.names == ["0", "1", "0#2"]
    with torch.no_grad():
        w = pool.two(torch.tanh(pool.one(given(2)))).softmax(1).mT
    np.testing.assert_allclose(rec["0"].weights, w[:, None], atol=1e-6)


def test_a_softmax_over_features_of_positions_is_attention() -> None:
    """Weights that no query and no key make, as in a synthesizer."""

    class Synthesizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.v = nn.Linear(W, T), nn.Linear(W, W)

        def forward(self, x: Tensor) -> Tensor:
            return self.w(x).softmax(-1) @ self.v(x)

    torch.manual_seed(1)
    rec = recorded(Synthesizer(), given(2))
    assert rec[""].weights.shape == (2, 1, T, T)
