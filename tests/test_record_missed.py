"""overt.record on attention that no product tells, that is spelled out, used by several, or did not run."""

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
from test_record_own import AT, SCALE, B, D, H, Model, Own, T, W, X, build, plain, scores

pytestmark = pytest.mark.filterwarnings("ignore")
EYE = torch.eye(H) + 0.1
SRC, DST = AT.repeat(3), torch.cat([AT, AT.roll(1), AT.roll(2)])


def added(q: Tensor, k: Tensor) -> Tensor:
    """Additive scores, which no product makes."""
    return torch.tanh(q[:, :, :, None] + k[:, :, None]).sum(-1)


def largest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    top = added(q, k).softmax(-1).topk(2)
    w = torch.zeros(B, H, T, T).scatter(-1, top.indices, top.values)
    return w / w.sum(-1, keepdim=True) @ v


def looped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w, y = added(q, k).softmax(-1), 0
    for s in range(T):
        y = y + w[..., s : s + 1] * v[:, :, s : s + 1]
    return y


def in_bags(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w, at = added(q, k).softmax(-1).topk(2)
    at = (at + torch.arange(B * H).view(B, H, 1, 1) * T).flatten(0, 2)
    y = functional.embedding_bag(at, v.flatten(0, 2), per_sample_weights=w.flatten(0, 2), mode="sum")
    return y.view(B, H, T, D)


def expanded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = (q + k).sum(-1, keepdim=True).softmax(2)
    return (w.expand_as(v) * v).sum(2, keepdim=True).expand_as(v)


def by_edges(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = (q[:, :, DST] * k[:, :, SRC]).sum(-1, keepdim=True).mul(SCALE).exp()
    w = e / torch.zeros(B, H, T, 1).index_add_(2, DST, e)[:, :, DST]
    return torch.zeros(B, H, T, D).index_add_(2, DST, w * v[:, :, SRC])


def divided(e: Tensor) -> Tensor:
    return e / e.sum(-1, keepdim=True)


def less(x: Tensor) -> Tensor:
    return x - x.logsumexp(-1, keepdim=True)


DOUBTFUL: dict[str, tuple[Callable[..., Tensor], str]] = {
    "heads that talk": (
        lambda q, k, v: torch.einsum("bhts,hg->bgts", added(q, k).softmax(-1), nn.Parameter(EYE)) @ v,
        ", with einsum on the way",
    ),
    "the largest, normalised again": (largest, ", with topk on the way"),
    "sharpened": (lambda q, k, v: divided(added(q, k).softmax(-1) ** 2) @ v, ", with pow on the way"),
    "a mean of heads": (lambda q, k, v: added(q, k).softmax(-1).mean(1, True) @ v, ", with mean on the way"),
    "a slight shift": (lambda q, k, v: divided(added(q, k).softmax(-1) + 1e-8) @ v, ", with add on the way"),
    "backwards": (lambda q, k, v: added(q, k).softmax(-1).flip(-1) @ v.flip(2), ", with flip on the way"),
    "value by value": (looped, ""),
    "in bags": (in_bags, ", with topk on the way"),
    "expanded": (expanded, ""),
    "by exp": (lambda q, k, v: divided(added(q, k).exp()) @ v, ", with exp on the way"),
    "by exp, divided later": (
        lambda q, k, v: (lambda e: e @ v / e.sum(-1, keepdim=True))(added(q, k).exp()),
        ", with exp on the way",
    ),
    "by powers of two": (lambda q, k, v: divided(2 ** added(q, k)) @ v, ", with __rpow__ on the way"),
    "by exp, along edges": (by_edges, ", with exp on the way"),
    "by logarithms": (lambda q, k, v: less(added(q, k)).exp() @ v, ", with logsumexp on the way"),
    "log_softmax": (lambda q, k, v: added(q, k).log_softmax(-1).exp() @ v, ", with log_softmax on the way"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_softmax_of_no_product_that_weighs_a_sum_is_told(name: str) -> None:
    mix, changed = DOUBTFUL[name]
    model = build(plain, mix)
    with torch.no_grad():
        y = model(X)
        with overt.record(model) as rec:
            assert torch.equal(model(X), y)
    assert (rec.names, rec.without) == (["layers.0"], [])
    assert rec.unseen == {"layers.1": f"a softmax of no product weighs a sum{changed}"}


def test_scores_of_three_factors_and_of_heads_that_talk_are_scores() -> None:
    weight, heads = nn.Parameter(torch.eye(D).expand(H, D, D)), nn.Parameter(EYE)

    def bilinear(q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhtd,hde,bhse->bhts", q, weight, k)

    def talking(q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhts,hg->bgts", scores(q, k), heads)

    for told in (bilinear, talking):
        model = build(plain, lambda q, k, v, told=told: told(q, k).softmax(-1) @ v)
        with torch.no_grad(), overt.record(model) as rec:
            y = model.layers[0](X) + X
            model(X)
            q, k, _ = model.layers[1].split(y)
            expected = told(q, k).softmax(-1)
        np.testing.assert_allclose(rec["layers.1"].weights, expected, atol=1e-6)
        model = build(plain, lambda q, k, v, told=told: divided(told(q, k).softmax(-1) ** 2) @ v)
        message = r"recorded 1: layers\.1: after its softmax, pow changes its weights"
        with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
            model(X)


class Other(nn.Module):
    """What chooses, gates, spreads or costs, and attends to nothing."""

    def __init__(self, run: Callable[..., Tensor]) -> None:
        super().__init__()
        self.run, self.gate, self.one, self.two = run, nn.Linear(W, 4), nn.Linear(W, W), nn.Linear(W, W)
        self.experts, self.codes = nn.ModuleList(nn.Linear(W, W) for _ in range(4)), nn.Parameter(torch.randn(6, W))

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def routed(own: Other, x: Tensor, first: bool) -> Tensor:
    found = own.gate(x).flatten(0, 1)
    w, at = found.topk(2) if first else found.softmax(-1).topk(2)
    w, y = w.softmax(-1) if first else divided(w), torch.zeros(B * T, W)
    for i, expert in enumerate(own.experts):
        row, place = torch.where(at == i)
        y.index_add_(0, row, expert(x.flatten(0, 1)[row]) * w[row, place, None])
    return y.view_as(x)


def chosen(own: Other, x: Tensor) -> Tensor:
    w, at = own.gate(x).softmax(-1).topk(2)
    each = torch.stack([expert(x) for expert in own.experts], 2).gather(2, at[..., None].expand(B, T, 2, W))
    return torch.einsum("btk,btkd->btd", divided(w), each)


def coded(own: Other, x: Tensor) -> Tensor:
    p = (-torch.cdist(x, own.codes.expand(B, -1, -1))).softmax(-1)
    mean = p.mean((0, 1))
    return x - (p * p.log()).sum(-1, keepdim=True) - (mean * mean.log()).sum()


def gated(own: Other, x: Tensor) -> Tensor:
    x = x * own.one(x.mean(1)).softmax(-1)[:, None] + x
    return x * (x @ x.mT).mean(-1, keepdim=True)


def drawn(own: Other, x: Tensor) -> Tensor:
    z = own.one(x) + torch.exp(0.5 * own.two(x))
    z = z / z.pow(2).mean(-1, keepdim=True).sqrt()
    return z * (z @ z.mT).mean(-1, keepdim=True)


def cost(own: Other, x: Tensor) -> Tensor:
    return x + functional.nll_loss(x.flatten(0, 1).log_softmax(-1), AT.repeat(B)) + x.logsumexp(-1).square().mean()


OTHERS: dict[str, Callable[..., Tensor]] = {
    "a router": lambda own, x: routed(own, x, False),
    "a router that chooses first": lambda own, x: routed(own, x, True),
    "a router by a product": chosen,
    "all experts": lambda own, x: sum(
        w * expert(x) for w, expert in zip(own.gate(x).softmax(-1).split(1, -1), own.experts, strict=True)
    ),
    "codes": coded,
    "channels": gated,
    "a variance": drawn,
    "a loss": cost,
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_chooses_or_gates_is_not_told(name: str) -> None:
    torch.manual_seed(0)
    model = Model(Own(plain), Other(OTHERS[name])).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.unseen) == (["layers.0"], {})


class Sharing(nn.Module):
    """Layers of which the first attends, and the others use its weights."""

    def __init__(self, use: Callable[[Tensor], Tensor], n: int = 3) -> None:
        super().__init__()
        self.use, self.layers = use, nn.ModuleList(Shared() for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        w = None
        for layer in self.layers:
            y, w = layer(x, None if w is None else self.use(w))
            x = x + y
        return x


class Shared(Own):
    def __init__(self) -> None:
        super().__init__(plain)

    def forward(self, x: Tensor, w: Tensor | None = None) -> Any:
        q, k, v = self.split(x)
        w = functional.dropout(scores(q, k).softmax(-1), 0.5, self.training) if w is None else w
        return self.out((w @ v).transpose(1, 2).flatten(2)), w


@pytest.mark.parametrize("keep", ["qk", "statistics"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "use", [lambda w: w, lambda w: w * 0.5, lambda w: w.transpose(0, 1).contiguous().transpose(0, 1)]
)
def test_weights_that_other_layers_use_again_are_theirs(
    use: Callable[[Tensor], Tensor], training: bool, keep: Any
) -> None:
    torch.manual_seed(0)
    model = Sharing(use).train(training)
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        model(X)
    q, k, _ = model.layers[0].split(X)
    expected = scores(q, k).softmax(-1).detach()
    assert (rec.names, rec.without, rec.unseen) == ([f"layers.{i}" for i in range(3)], [], {})
    for name in rec:
        np.testing.assert_allclose(rec[name].received(), expected.sum(-2), atol=1e-5)
        expected = use(expected)


def test_weights_that_other_layers_change_and_use_are_told() -> None:
    torch.manual_seed(0)
    model = Sharing(lambda w: w.mean(1, keepdim=True), 2).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["layers.0"], [])
    assert rec.unseen == {"layers.1": "weights that were used before weigh a sum"}


def test_weights_that_are_looked_at_or_used_twice_are_one_attention() -> None:
    def twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        x = torch.cat([scores(q, k), torch.zeros(B, H, T, 1)], -1)
        w = x.softmax(-1)[..., :-1]
        y = w @ v
        _seen = w.mean(1), w.topk(2), (w * w.log()).sum(-1), w.mean(1) @ v[:, 0]
        return y + w @ torch.ones(T, D) + w.mT @ v

    model = build(twice)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.unseen) == (["layers.0"], {})


SPARSE: dict[str, Callable[..., Tensor]] = {
    "mm": torch.sparse.mm,
    "matmul": lambda w, v: w @ v,
    "halved": lambda w, v: torch.sparse.mm(w * 0.5, v),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_weights_are_recorded(name: str) -> None:
    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = torch.sparse.softmax((q @ k.mT * SCALE).tril().to_sparse(), 1)
        return SPARSE[name](w, v)

    model = build(lambda q, k, v: torch.stack([one(*x) for x in zip(q[0], k[0], v[0], strict=True)])[None])
    x = X[:1]
    with torch.no_grad(), overt.record(model) as rec:
        model(x)
        q, k, _ = model.layers[0].split(x)
    expected = scores(q, k)[0].masked_fill(AT[:, None] < AT, -torch.inf).softmax(-1)
    assert len(rec.names) == H
    for each, w in zip(rec, expected, strict=True):
        np.testing.assert_allclose(rec[each].weights[0, 0], w * (0.5 if name == "halved" else 1), atol=1e-6)


def test_an_expert_that_did_not_run_is_not_said_to_have_no_attention() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList([Own(plain), Own(plain), nn.Sequential(nn.Linear(W, W)), nn.Linear(W, W)])

        def forward(self, x: Tensor) -> Tensor:
            return self.experts[3](self.experts[2](self.experts[1](x)))

    model = Experts()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["experts.1"], ["experts.2", "experts.3"])
