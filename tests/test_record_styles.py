"""overt.record on attention in odd spellings: what multiplied the values is what is recorded, or a name is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import RecordingError
from test_record_own import SCALE, SDPA, B, D, H, Model, Own, T, W, X, build, plain, scores


def pieces(mix: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of samples and heads one by one."""
    return lambda q, k, v: torch.stack(
        [torch.stack([mix(*x) for x in zip(*y, strict=True)]) for y in zip(q, k, v, strict=True)]
    )


def changed(change: Callable[[Tensor], Any]) -> Callable[..., Tensor]:
    """Weights that are cast, and then changed in place."""

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = scores(q, k).softmax(-1).double()
        change(w)
        return (w @ v.double()).float()

    return mix


def slots(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = scores(q, k).softmax(-2) + 1e-8
    return torch.einsum("bhsd,bhts->bhtd", v, w / w.sum(-1, keepdim=True))


def drawn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    torch.manual_seed(0)
    return functional.gumbel_softmax(scores(q, k), dim=-1) @ v


def into(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w, y = torch.empty(B, H, T, T), torch.empty(B, H, T, D)
    torch.softmax(torch.matmul(q, k.mT, out=w).mul_(SCALE), -1, out=w)
    return torch.matmul(torch.empty(B, H, T, T).copy_(w), v, out=y)


# What multiplied the values, whatever had become of it.
WHOLE: dict[str, Callable[..., Tensor]] = {
    "a cell after a cast": changed(lambda w: w[:, :, 1, 5].zero_()),
    "rows after a cast": changed(lambda w: w.index_fill_(2, torch.tensor([1, 3]), 0)),
    "cells of a view after a cast": changed(lambda w: w.view(-1)[5:9].zero_()),
    "a cast there and back": lambda q, k, v: scores(q, k).softmax(-1).half().float() @ v,
    "gumbel": drawn,
    "triangle": lambda q, k, v: torch.tril(scores(q, k).softmax(-1)) @ v,
    "clamped": lambda q, k, v: scores(q, k).softmax(-1).clamp(max=0.5) @ v,
    "slots": slots,
    "memory that is given": into,
    "torch.linalg": lambda q, k, v: torch.linalg.matmul(torch.linalg.matmul(q, k.mT).mul(SCALE).softmax(-1), v),
    "grouped": lambda q, k, v: (
        (q.unflatten(1, (2, 2)) @ k[:, ::2, None].mT * SCALE).softmax(-1) @ v[:, ::2, None]
    ).flatten(1, 2),
    "grouped einsum": lambda q, k, v: torch.einsum(
        "bkgts,bskd->bkgtd",
        torch.einsum("bkgtd,bkds->bkgts", q.unflatten(1, (2, 2)) * SCALE, k[:, ::2].mT).softmax(-1),
        v[:, ::2].transpose(1, 2),
    ).flatten(1, 2),
    "one key head": lambda q, k, v: torch.einsum("b h i j, b j d -> b h i d", scores(q, k[:, :1]).softmax(-1), v[:, 0]),
    "heads behind queries": lambda q, k, v: torch.einsum(
        "bths,bsd->bthd", torch.einsum("bhtd,bsd->bths", q * SCALE, k[:, 0]).softmax(-1), v[:, 0]
    ).transpose(1, 2),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_multiplied_the_values_is_recorded(name: str, mode: Any) -> None:
    model = build(WHOLE[name])
    model.layers[0].n_heads = H
    with mode():
        y = model(X)
        with overt.record(model) as rec:
            assert torch.equal(model(X), y)
        q, k, v = model.layers[0].split(X)
        if name.startswith("grouped"):
            v = v[:, ::2].repeat_interleave(2, 1)
        elif "head" in name:
            v = v[:, :1]
        w = torch.from_numpy(np.asarray(rec["layers.0"].weights)).float()
        assert w.shape == (B, H, T, T)
        np.testing.assert_allclose(w @ v, WHOLE[name](q, k, model.layers[0].split(X)[2]), atol=1e-6)


PIECES: dict[str, tuple[Callable[..., Tensor], tuple[int, ...]]] = {
    "linear maps by activations": (
        pieces(lambda q, k, v: functional.linear(functional.linear(q, k).mul(SCALE).softmax(-1), v.T)),
        (1, 1, T, T),
    ),
    "beside a sum": (
        pieces(lambda q, k, v: torch.addmm(torch.zeros(D), torch.mm(q, k.T).mul(SCALE).softmax(-1), v)),
        (1, 1, T, T),
    ),
    "inner products": (
        pieces(lambda q, k, v: torch.inner(torch.inner(q, k).mul(SCALE).softmax(-1), v.T)),
        (1, 1, T, T),
    ),
    "a vector": (
        pieces(lambda q, k, v: torch.stack([(k @ x * SCALE).softmax(0) @ v for x in q])),
        (1, 1, 1, T),
    ),
    "a vector on the other side": (
        pieces(lambda q, k, v: torch.stack([torch.mv(v.T, torch.mv(k, x).mul(SCALE).softmax(0)) for x in q])),
        (1, 1, 1, T),
    ),
    "a query at a time": (
        lambda q, k, v: torch.stack(
            [
                torch.einsum("bhs,bhsd->bhd", torch.einsum("bhd,bhsd->bhs", x * SCALE, k).softmax(-1), v)
                for x in q.unbind(2)
            ],
            2,
        ),
        (B, H, 1, T),
    ),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_recorded_one_by_one(name: str) -> None:
    mix, shape = PIECES[name]
    model = build(plain, mix)
    model.layers[1].n_heads = H
    with torch.no_grad():
        with overt.record(model) as rec:
            model(X)
        q, k, _ = model.layers[1].split(X + model.layers[0](X))
        expected = scores(q, k).softmax(-1)
    names = rec.names[1:]
    assert len(names) * np.prod(shape) == expected.numel()
    assert {rec[each].weights.shape for each in names} == {shape}
    found = np.concatenate([np.asarray(rec[each].weights).reshape(-1, T) for each in names])
    if shape[0] > 1:
        expected = expected.permute(2, 0, 1, 3)
    np.testing.assert_allclose(found, expected.reshape(-1, T), atol=1e-6)


def largest(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    x, at = scores(q, k).topk(4)
    return x.softmax(-1), at


def bag(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w, at = largest(q, k)
    at = (at + torch.arange(B * H).view(B, H, 1, 1) * T).flatten(0, 2)
    y = functional.embedding_bag(at, v.flatten(0, 2), per_sample_weights=w.flatten(0, 2), mode="sum")
    return y.view(B, H, T, D)


NAMED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "the largest, scattered": (
        lambda q, k, v: (lambda w, at: torch.zeros(B, H, T, T).scatter(-1, at, w) @ v)(*largest(q, k)),
        "after its softmax, scatter changes its weights",
    ),
    "the largest, in bags": (bag, "after its softmax, embedding_bag changes its weights"),
    "three factors": (
        lambda q, k, v: torch.einsum("bhts,bhsd,de->bhte", scores(q, k).softmax(-1), v, torch.eye(D)),
        "after its softmax, einsum changes its weights",
    ),
    "pieces that are added": (
        lambda q, k, v: sum(scores(q[:, [h]], k[:, [h]]).softmax(-1) for h in range(H)) / H @ v,
        "after its softmax, add changes its weights",
    ),
    "vmap by keywords": (
        lambda q, k, v: torch.vmap(lambda q, k, v: SDPA(query=q, key=k, value=v))(q, k, v),
        r"it runs inside torch\.func",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_not_followed_is_named(name: str) -> None:
    mix, why = NAMED[name]
    model = build(plain, mix)
    with torch.no_grad():
        model(X)
        with pytest.raises(RecordingError, match=rf"could not follow 1 .*: layers\.1: {why}"), overt.record(model):
            model(X)


def test_heads_by_themselves_are_no_axis_of_heads() -> None:
    """Three axes, of which the first holds samples, in a module that says how many heads it has."""
    model = build(lambda q, k, v: torch.stack([plain(q[:, h], k[:, h], v[:, h]) for h in range(H)], 1))
    model.layers[0].n_heads = 2
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert [rec[name].weights.shape for name in rec] == [(B, 1, T, T)] * H


class Pool(nn.Module):
    """Additive attention of one query that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(W, W), nn.Linear(W, 1)

    def forward(self, x: Tensor) -> Tensor:
        w = self.two(torch.tanh(self.one(x))).softmax(1)
        return (w * x).sum(1, keepdim=True).expand_as(x)


def test_a_sum_that_a_softmax_weighs_is_told() -> None:
    model = Model(Own(plain), Pool()).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert rec.unseen == {"layers.1": "a softmax of no product weighs a sum"}
    assert rec.without == []


class Streams(nn.Module):
    """A layer that attends, and mixes streams beside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Own(plain)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return torch.sigmoid(x @ x.mT) @ y


def test_a_layer_that_attends_and_mixes_is_none_without_attention() -> None:
    model = Model(Streams(), Streams()).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["layers.0.inner", "layers.1.inner"], [])
    why = "beside its attentions it mixes by something else than a softmax"
    assert str(rec).endswith(f"not seen into: layers.0, layers.1 ({why})")
    # Alone it is what the error names.
    model = build(lambda q, k, v: torch.relu(scores(q, k)) @ v)
    message = r"without a softmax there mix layers\.0$"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)


class Copies(nn.Module):
    """A layer that attends, and mixes copies of the state beside, at each position by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.mix = Own(plain), nn.Linear(W, 4)

    def forward(self, x: Tensor) -> Tensor:
        copies = x if x.ndim == 4 else x[..., None].expand(*x.shape, 2)
        copies = copies + copies @ self.mix(copies[..., 0]).unflatten(-1, (2, 2))
        return copies + self.inner(copies[..., 0])[..., None]


class Each(nn.Module):
    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("together", [lambda *layers: Each(nn.ModuleList(layers)), nn.Sequential])
def test_a_layer_that_mixes_copies_of_the_state_mixes_no_positions(together: Callable[..., nn.Module]) -> None:
    model = together(Copies(), Copies(), Copies()).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.without, rec.unseen) == ([], {})


class Drawn(nn.Module):
    """Noise of a variance that a product spreads, as where sounds are drawn for aligned letters."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = Own(plain), nn.Linear(W, W)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        spread = torch.eye(T).expand(B, T, T) @ y
        return self.out(spread + torch.ones_like(y) * torch.exp(spread) * 0.1)


def test_what_exp_gives_is_a_softmax_only_where_it_mixes() -> None:
    model = Drawn()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert rec.names == ["inner"]

    class Spelled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            w = torch.exp(x @ x.mT * SCALE)
            return (w @ x) / w.sum(-1, keepdim=True)

    spelled = Spelled()
    message = r"recorded 0: \(model\): it spells out its softmax by exp,"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(spelled):
        spelled(X)
