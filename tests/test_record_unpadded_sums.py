"""overt.record on softmaxes whose sums come late, on weights that are put together, and on those that come back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import RecordingError
from test_record_missed import Other, added, divided
from test_record_own import AT, CAUSAL, B, D, H, Model, Own, T, X, build, plain, scores

pytestmark = pytest.mark.filterwarnings("ignore")
ONES = torch.ones(T, 1)


def raised(q: Tensor, k: Tensor) -> Tensor:
    s = added(q, k)
    return (s - s.amax(-1, keepdim=True)).exp()


def in_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Blocks of keys, as flash attention takes them."""
    largest, total, y = torch.full((B, H, T, 1), -math.inf), torch.zeros(B, H, T, 1), torch.zeros(B, H, T, D)
    for keys, values in zip(k.split(4, 2), v.split(4, 2), strict=True):
        s = added(q, keys)
        more = torch.maximum(largest, s.amax(-1, keepdim=True))
        e, shrunk = (s - more).exp(), (largest - more).exp()
        total, y, largest = total * shrunk + e.sum(-1, keepdim=True), y * shrunk + e @ values, more
    return y / total


def by(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """What ``exp`` gave is changed before it is divided by its sum."""
    return lambda q, k, v: divided(change(raised(q, k)))[..., -T:] @ v


def into(e: Tensor) -> Tensor:
    found = torch.zeros(B, H, T, T + 2)
    found[..., 2:] = e
    return found


def one_by_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    total, y = 0, 0
    for key, value in zip(k.split(1, 2), v.split(1, 2), strict=True):
        e = added(q, key).exp()
        total, y = total + e, y + e * value
    return y / total


def by_edges(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Edges of one head each, whose scores are a vector."""
    src, dst, y = AT.repeat(2), torch.cat([AT, AT.roll(1)]), torch.zeros_like(v)
    for b, h in [(b, h) for b in range(B) for h in range(H)]:
        e = (q[b, h, dst] * k[b, h, src]).sum(-1).exp()
        e = e / torch.zeros(T).scatter_reduce(0, dst, e, "sum")[dst]
        y[b, h].index_add_(0, dst, e[:, None] * v[b, h, src])
    return y


LATE: dict[str, Callable[..., Tensor]] = {
    "key by key": one_by_one,
    "edges": by_edges,
    "a product with ones": lambda q, k, v: (lambda e: e @ v / (e @ ONES))(raised(q, k)),
    "ones and a mask": lambda q, k, v: (lambda e, m: e @ (v * m) / (e @ m))(raised(q, k), (AT < 9).float()[:, None]),
    "ones beside values": lambda q, k, v: (lambda y: y[..., :-1] / y[..., -1:])(
        raised(q, k) @ functional.pad(v, (0, 1), value=1.0)
    ),
    "a sum by einsum": lambda q, k, v: (lambda e: e @ v / torch.einsum("bhts->bht", e)[..., None])(raised(q, k)),
    "blocks": in_blocks,
    "a sink": by(lambda e: torch.cat([torch.ones(B, H, T, 1), e], -1)),
    "padded": by(lambda e: functional.pad(e, (1, 0), value=1.0)),
    "put into zeros": by(into),
    "gathered": by(lambda e: e.gather(-1, AT.flip(0).expand_as(e))),
    "shifted": by(lambda e: e + 1e-6),
    "a mean of heads": by(lambda e: e.mean(1, keepdim=True)),
    "pow": lambda q, k, v: divided(torch.pow(2, added(q, k))) @ v,
    "a power of a tensor": lambda q, k, v: divided(torch.tensor(math.e) ** added(q, k)) @ v,
    "special": lambda q, k, v: divided(torch.special.exp2(added(q, k))) @ v,
    "special log_softmax": lambda q, k, v: torch.special.log_softmax(added(q, k), -1).exp() @ v,
}


@pytest.mark.parametrize("name", LATE)
def test_sums_that_come_late_are_told(name: str) -> None:
    model = build(plain, LATE[name])
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without, list(rec.unseen)) == (["layers.0"], [], ["layers.1"])
    assert rec.unseen["layers.1"].startswith("a softmax of no product weighs a sum")


POWERS: dict[str, Callable[[Tensor], Tensor]] = {
    "pow": lambda s: torch.pow(2, s),
    "a tensor": lambda s: torch.tensor(2.0) ** s,
    "float_power": lambda s: torch.float_power(2, s).float(),
    "special": torch.special.exp2,
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_of_scores_are_a_softmax_spelled_out(name: str) -> None:
    model = build(plain, lambda q, k, v: divided(POWERS[name](scores(q, k))) @ v)
    message = r"layers\.1: it spells out its softmax by"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)


VECTORS: dict[str, Callable[[Other, Tensor], Tensor]] = {
    "a map": lambda own, x: own.gate(torch.tanh(own.one(x)))[:, 0],
    "a vector of parameters": lambda own, x: own.one(x) @ own.codes[0],
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_softmax_over_places_may_be_a_vector(name: str) -> None:
    def pooled(own: Other, x: Tensor) -> Tensor:
        return x + VECTORS[name](own, x[0]).softmax(0) @ x[0]

    def summed(own: Other, x: Tensor) -> Tensor:
        return x + (VECTORS[name](own, x[0]).softmax(0)[:, None] * x[0]).sum(0)

    torch.manual_seed(0)
    model = Model(Other(pooled), Other(summed))
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        expected = VECTORS[name](model.layers[0], X[0]).softmax(0)
    np.testing.assert_allclose(rec["layers.0"].weights[0, 0, 0], expected, atol=1e-6)
    assert (rec.names, rec.unseen) == (["layers.0"], {"layers.1": "a softmax of no product weighs a sum"})


def root(x: Tensor) -> Tensor:
    return x * x.pow(2).mean(-1, keepdim=True).rsqrt()


def decay() -> Tensor:
    return torch.exp(-0.1 * (AT[:, None] - AT)).tril()


PLAIN: dict[str, Callable[[Other, Tensor], Tensor]] = {
    "decay": lambda own, x: root(decay() @ own.one(x)),
    "decay, normalised": lambda own, x: functional.normalize(decay() @ own.one(x), dim=-1),
    "decay by powers": lambda own, x: root(torch.tensor(0.9) ** (AT[:, None] - AT).clamp(0).float() @ own.one(x)),
    "a generalised mean": lambda own, x: x + x.abs().pow(own.codes[0, :1]).mean(1, keepdim=True),
    "a sparse matrix": lambda own, x: torch.stack([torch.sparse.mm(decay().to_sparse() * 2, y) for y in own.one(x)]),
    "each sample": lambda own, x: torch.vmap(lambda y: y * (1 + torch.cat([y.exp(), y]).mean()))(own.one(x)),
    "parameters that choose": lambda own, x: (lambda w: w[0] * x + w[1] * own.one(x))(own.gate.bias[:2].softmax(0)),
    "gates": lambda own, x: (lambda y: (y @ y.mT).mean(-1, keepdim=True) * x)(root(x * own.one(x).exp())),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_exp_gave_is_no_softmax_without_its_sum(name: str) -> None:
    torch.manual_seed(0)
    model = Model(Own(plain), Other(PLAIN[name])).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.unseen) == (["layers.0"], {})


class Again(nn.Module):
    """A layer that runs several times, and uses its first weights each time."""

    def __init__(self, use: Callable[[Tensor], Tensor], score: Callable[..., Tensor] = scores, n: int = 3) -> None:
        super().__init__()
        self.layer, self.use, self.score, self.n = Given(), use, score, n

    def forward(self, x: Tensor, w: Tensor | None = None) -> tuple[Tensor, Tensor]:
        for _ in range(self.n):
            y, w = self.layer(x, self.score if w is None else self.use(w))
            x = x + y
        return x, w


class Given(Own):
    def __init__(self) -> None:
        super().__init__(plain)

    def forward(self, x: Tensor, w: Any) -> tuple[Tensor, Tensor]:
        q, k, v = self.split(x)
        w = w if isinstance(w, Tensor) else w(q, k).softmax(-1)
        return self.out((w @ v).transpose(1, 2).flatten(2)), w


@pytest.mark.parametrize("score", [scores, added])
@pytest.mark.parametrize("use", [lambda w: w, lambda w: w * 0.5, lambda w: w.detach().clone()])
def test_weights_that_the_same_module_uses_in_a_later_call_are_recorded(use: Any, score: Any) -> None:
    torch.manual_seed(0)
    model = Again(use, score)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    q, k, _ = model.layer.split(X)
    expected = score(q, k).softmax(-1).detach()
    assert (rec.names, rec.unseen) == (["layer", "layer#2", "layer#3"], {})
    for name in rec:
        np.testing.assert_allclose(rec[name].weights, expected, atol=1e-6)
        expected = use(expected)


def test_weights_that_a_later_run_is_given_are_recorded() -> None:
    torch.manual_seed(0)
    model = Again(lambda w: w, n=1)
    with torch.no_grad(), overt.record(model) as rec:
        x, w = model(X)
        model(x, w)
    first, second = rec.calls("layer")
    np.testing.assert_array_equal(np.asarray(first.weights), second.weights)
    np.testing.assert_allclose(first.weights, w, atol=1e-6)
    assert rec.unseen == {}


@pytest.mark.parametrize("score", [scores, added])
def test_weights_that_the_same_module_changes_and_uses_later_are_told(score: Any) -> None:
    torch.manual_seed(0)
    model = Again(lambda w: w.mean(1, keepdim=True), score, 2)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.unseen) == (["layer"], {"layer": "weights that were used before weigh a sum"})


class Talking(Own):
    """Weights that a map by parameters changes."""

    def __init__(self, score: Callable[..., Tensor], change: Callable[[Talking, Tensor], Tensor]) -> None:
        super().__init__(plain)
        self.score, self.change = score, change
        self.wide, self.narrow = nn.Conv2d(H, 2 * H, 1), nn.Conv2d(H, 1, 1)
        self.heads, self.keys = nn.Linear(H, 2 * H), nn.Linear(T, T)
        self.weight, self.square = nn.Parameter(torch.rand(H, H) / H), nn.Parameter(torch.rand(T, T))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        y = self.change(self, self.score(q, k).softmax(-1)) @ torch.cat([v, v], 1)
        return self.out(y[:, :H].transpose(1, 2).flatten(2))


def doubled(w: Tensor) -> Tensor:
    return torch.cat([w, w], 1)


def behind(w: Tensor) -> Tensor:
    """Heads behind keys, (B, T, S, H)."""
    return w.permute(0, 2, 3, 1)


MAPS: dict[str, Callable[[Talking, Tensor], Tensor]] = {
    "more heads": lambda own, w: own.wide(w),
    "one head": lambda own, w: own.narrow(w),
    "more heads, behind": lambda own, w: own.heads(behind(w)).permute(0, 3, 1, 2),
    "keys, flat": lambda own, w: doubled(own.keys(w.flatten(0, 2)).view(B, H, T, T)),
    "a product": lambda own, w: doubled((behind(w) @ own.weight).permute(0, 3, 1, 2)),
    "a product, scaled": lambda own, w: doubled((behind(w) @ (own.weight * 0.5)).permute(0, 3, 1, 2)),
    "a product on the left": lambda own, w: doubled((own.weight @ w.flatten(2)).view(B, H, T, T)),
}


@pytest.mark.parametrize("name", MAPS)
def test_weights_that_parameters_mix_are_refused_or_told(name: str) -> None:
    torch.manual_seed(0)
    model = Model(Own(plain), Talking(scores, MAPS[name])).eval()
    message = r"layers\.1: after its softmax, \w+ changes its weights"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)
    model = Model(Own(plain), Talking(added, MAPS[name])).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without, list(rec.unseen)) == (["layers.0"], [], ["layers.1"])


@pytest.mark.parametrize("score", [scores, added])
def test_weights_that_a_product_maps_to_as_many_keys_are_told(score: Any) -> None:
    torch.manual_seed(0)
    model = Model(Talking(score, lambda own, w: doubled(w @ own.square))).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert rec.unseen == {"layers.0": "weights that were used before weigh a sum"}


MEMORIES: dict[str, Callable[[Other, Tensor], Tensor]] = {
    "by products": lambda own, x: own.one(x) @ own.codes.mT,
    "by distances": lambda own, x: -torch.cdist(own.one(x), own.codes.expand(B, -1, -1)),
}


@pytest.mark.parametrize("change", [lambda w: w, lambda w: w * 0.5, lambda w: w.clamp(max=0.3)])
@pytest.mark.parametrize("name", MEMORIES)
def test_what_all_samples_look_at_is_recorded(name: str, change: Any) -> None:
    def run(own: Other, x: Tensor) -> Tensor:
        return change(MEMORIES[name](own, x).softmax(-1)) @ own.codes

    torch.manual_seed(0)
    model = Model(Other(run), Own(plain)).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        expected = change(MEMORIES[name](model.layers[0], X).softmax(-1))
    np.testing.assert_allclose(rec["layers.0"].weights, expected[:, None], atol=1e-6)


READ: dict[str, Callable[[Tensor], Tensor]] = {
    "item": lambda w: w / w.sum().item(),
    "float": lambda w: w * (0.5 / float(w.max())),
    "a list": lambda w: w / w.sum().tolist(),
    "whole": lambda w: w * (int(w.count_nonzero()) / w.numel()),
    "a tensor again": lambda w: w / torch.tensor(w.sum().item()),
}


def dropped(change: Callable[[Tensor], Tensor]) -> Model:
    return build(lambda q, k, v: change(functional.dropout(scores(q, k).softmax(-1), 0.5)) @ v)


@pytest.mark.parametrize("name", READ)
def test_numbers_that_are_read_after_dropout_and_used_are_refused(name: str) -> None:
    model = dropped(READ[name]).train()
    message = r"after its softmax, \w+ changes its weights"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)


def test_numbers_that_are_read_after_dropout_and_looked_at_do_no_harm() -> None:
    found = []

    def look(w: Tensor) -> Tensor:
        found.append(w.mean().item())
        return (w * 0.5).masked_fill(~CAUSAL, 0.0)

    model = dropped(look).train()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        q, k, _ = model.layers[0].split(X)
    np.testing.assert_allclose(rec["layers.0"].weights, scores(q, k).softmax(-1) * 0.5 * CAUSAL, atol=1e-6)


def soft(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k).softmax(-1)


def row_by_row(q: Tensor, k: Tensor) -> Tensor:
    """Each query with the keys up to its own, put into zeros."""
    w = torch.zeros(B, H, T, T)
    for t in range(T):
        w[:, :, t, : t + 1] = soft(q[:, :, t : t + 1], k[:, :, : t + 1])[:, :, 0]
    return w


def in_parts(q: Tensor, k: Tensor) -> Tensor:
    """Written to parts of memory with room to spare."""
    w = torch.zeros(B, H, T + 2, T)
    for t in range(0, T, 4):
        w[:, :, t : t + 4].copy_(soft(q[:, :, t : t + 4], k))
    return w[:, :, :T]


def in_order(w: Tensor) -> Tensor:
    return w


def swapped(w: Tensor) -> Tensor:
    return w.transpose(0, 1)


# What puts weights together, and how their axes stand there.
JOINED: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], Tensor]]] = {
    "heads": (lambda q, k: torch.cat([soft(q[:, [h]], k[:, [h]]) for h in range(H)], 1), in_order),
    "heads first": (lambda q, k: torch.stack([soft(q[:, h], k[:, h]) for h in range(H)]), swapped),
    "samples": (
        lambda q, k: torch.stack([torch.stack([soft(q[b, h], k[b, h]) for h in range(H)]) for b in range(B)]),
        in_order,
    ),
    "queries": (lambda q, k: torch.cat([soft(x, k) for x in q.split(5, 2)], 2), in_order),
    "rows in zeros": (row_by_row, in_order),
    "parts of memory": (in_parts, in_order),
    "keys, gated": (
        lambda q, k: torch.cat([soft(q, k[:, :, :5]) * 0.25, soft(q, k[:, :, 5:]) * 0.75], -1),
        in_order,
    ),
    "chosen": (lambda q, k: torch.where(CAUSAL, soft(q, k), 0) * soft(k, q), in_order),
}


@pytest.mark.parametrize("rate", [0, 0.5])
@pytest.mark.parametrize("name", JOINED)
def test_weights_that_are_put_together_are_one_attention(name: str, rate: float) -> None:
    join, turn = JOINED[name]

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return turn(functional.dropout(join(q, k), rate) @ turn(v))

    model = build(plain, mix)
    with torch.no_grad():
        with overt.record(model) as rec:
            x = model.layers[0](X) + X
            model(X)
        q, k, _ = model.layers[1].split(x)
        expected = turn(join(q, k))
    assert (rec.names, rec.unseen) == (["layers.0", "layers.1"], {})
    np.testing.assert_allclose(rec["layers.1"].weights, expected, atol=1e-6)


def test_dropout_before_weights_are_put_together() -> None:
    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.cat([functional.dropout(soft(q[:, [h]], k[:, [h]])) for h in range(H)], 1) @ v

    model = build(mix).train()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        q, k, _ = model.layers[0].split(X)
    np.testing.assert_allclose(rec["layers.0"].weights, soft(q, k), atol=1e-6)


def test_weights_that_are_kept_together_to_be_looked_at_are_not_missed() -> None:
    kept = torch.zeros(3, B, H, T, T)

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = [soft(q[:, [h]], k[:, [h]]) for h in range(H)]
        kept[1] = torch.cat(w, 1)
        return torch.cat([x @ v[:, [h]] for h, x in enumerate(w)], 1)

    model = build(mix)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (len(rec.names), rec.unseen) == (H, {})


def test_weights_of_several_softmaxes_over_all_keys_are_refused() -> None:
    model = build(plain, lambda q, k, v: torch.cat([soft(q, k), soft(k, q)], -1) @ torch.cat([v, -v], 2))
    message = r"recorded 1: layers\.1: after its softmax"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)


def test_weights_of_no_product_that_leave_torch_are_told() -> None:
    model = build(plain, lambda q, k, v: torch.tensor(added(q, k).softmax(-1).tolist()) @ v)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.unseen) == (["layers.0"], {"layers.1": "numbers of it leave torch by tolist"})
    looked = build(plain, lambda q, k, v: (lambda w: (w.tolist(), w @ v)[1])(added(q, k).softmax(-1)))
    with torch.no_grad(), overt.record(looked) as rec:
        looked(X)
    assert (rec.names, rec.unseen) == (["layers.0", "layers.1"], {})


def test_weights_that_meet_values_inside_a_transform_are_refused() -> None:
    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = soft(q, k)
        return torch.func.jvp(lambda x: w @ x, (v,), (v,))[0]

    model = build(plain, mix)
    with torch.no_grad(), pytest.raises(RecordingError, match=r"layers\.1: after its softmax"), overt.record(model):
        model(X)
