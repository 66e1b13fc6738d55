"""overt.record where keys lie in buffers, and where what was split into heads is changed before it attends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import RecordingError

D, H, L, W = 6, 4, 8, 24
SDPA = functional.scaled_dot_product_attention


def eager(q: Tensor, k: Tensor, seen: Tensor | None = None) -> np.ndarray:
    """Weights by the definition."""
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    return (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1).numpy()


class Cached(nn.Module):
    """Grouped keys that are written into a cache with room to spare."""

    def __init__(self, batch: int, written: str, mix: str) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(W, H * D), nn.Linear(W, H // 2 * D), nn.Linear(W, H // 2 * D)
        self.keys, self.values = (torch.zeros(batch, H // 2, L, D) for _ in "kv")
        self.written, self.mix, self.seen = written, mix, []  # type: ignore[var-annotated]

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, -1, D).transpose(1, 2) for f in (self.q, self.k, self.v))
        for cache, new in ((self.keys, k), (self.values, v)):
            if self.written == "index":
                cache[:, :, at] = new
            else:
                cache.index_copy_(2, at, new)
        k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for x in (self.keys, self.values))
        seen = torch.arange(L) <= at[:, None]
        self.seen.append((q.clone(), k.clone(), seen))
        if self.mix == "sdpa":
            return SDPA(q, k, v, attn_mask=seen)
        return (q @ k.mT / D**0.5).masked_fill(~seen, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("written", "mix"), [("index", "sdpa"), ("copy", "sdpa"), ("index", "softmax")])
def test_one_query_and_grouped_keys_of_a_cache(batch: int, written: str, mix: str) -> None:
    torch.manual_seed(0)
    model, x = Cached(batch, written, mix), torch.randn(batch, 5, W)
    with torch.no_grad(), overt.record(model) as rec:
        model(x[:, :3], torch.arange(3))
        for i in (3, 4):
            model(x[:, i : i + 1], torch.tensor([i]))
    for call, given in zip(rec.calls(""), model.seen, strict=True):
        got = np.asarray(call.weights)
        np.testing.assert_allclose(got, eager(*given)[..., : got.shape[-1]], atol=1e-6)
    if mix == "sdpa":
        assert rec[""].weights.shape == (batch, H, 5, 5)


SQUARE, CONSTANT = nn.Parameter(torch.randn(D, D)), torch.linalg.qr(torch.randn(D, D))[0]
# Weights that no parameter holds as they are.
NORMED = nn.utils.parametrizations.weight_norm(nn.Linear(D, D))
LINEAR, CONV, GRU = nn.Linear(D, D), nn.Conv1d(D, D, 3, padding=2, groups=D), nn.GRU(D, D, batch_first=True)
TURNS = torch.polar(torch.ones(L, D // 2), torch.arange(L * D // 2).view(L, -1) * 0.1)


def turned(x: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * TURNS).flatten(-2)


class Gated(nn.Module):
    """A module of somebody's own, without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


# What is done to heads that are folded into samples, (B·H, T, D).
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "a linear map": LINEAR,
    "two of them": nn.Sequential(LINEAR, nn.GELU(), LINEAR),
    "a normed map": NORMED,
    "a convolution": lambda x: CONV(x.mT)[..., :-2].mT,
    "a recurrent layer": lambda x: GRU(x)[0],
    "a product with a parameter": lambda x: torch.einsum("nti,io->nto", x, SQUARE),
    "a product with a constant": lambda x: x @ CONSTANT,
    "a linear map by a constant": lambda x: functional.linear(x, CONSTANT),
    "an alias": lambda x: torch.special.expit(torch.multiply(torch.negative(x), torch.full((), 2.0))),
    "several operators": functional.softsign,
    "one that is not marked": functional.hardswish,
    "sums along positions": lambda x: x.cumsum(1),
    "places by an index": lambda x: x.index_select(1, torch.arange(L - 1, -1, -1)),
    "heads before samples": lambda x: x[torch.arange(len(x)).view(-1, H).T.flatten()],
    "a gate": lambda x: functional.glu(torch.cat([x, x], -1)),
    "padding": lambda x: functional.pad(x, (0, 0, 1, -1)),
    "frequencies": lambda x: torch.fft.fft(x, dim=1).real,
    "a rotation": turned,
    "a module": Gated(),
}


class Folded(nn.Module):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(W, W) for _ in range(3))
        self.changes = change if isinstance(change, nn.Module) else None
        self.change, self.seen = change, []  # type: ignore[var-annotated]

    def forward(self, x: Tensor) -> Tensor:
        # Twice, as what is known of a module may be another thing when it runs again.
        for _ in range(2):
            split = (f(x).view(*x.shape[:2], H, D).transpose(1, 2).flatten(0, 1) for f in (self.q, self.k, self.v))
            q, k, v = map(self.change, split)
            self.seen.append((q.clone(), k.clone()))
            y = (q @ k.mT / D**0.5).softmax(-1) @ v
            x = x + y.reshape(-1, H, L, D).transpose(1, 2).flatten(2)
        return x


@pytest.mark.parametrize("name", CHANGES)
def test_heads_that_are_folded_into_samples_stay_heads(name: str) -> None:
    torch.manual_seed(0)
    model, x = Folded(CHANGES[name]), torch.randn(3, L, W)
    with torch.no_grad(), overt.record(model) as rec:
        model(x)
    for attention, given in zip(rec.names, model.seen, strict=True):
        weights = eager(*given)
        weights = weights.reshape(H, 3, L, L).swapaxes(0, 1) if "before" in name else weights.reshape(3, H, L, L)
        np.testing.assert_allclose(np.asarray(rec[attention].weights), weights, atol=1e-6)


class Mixing(nn.Module):
    """(B, …, T, W), which a function is given split into heads."""

    def __init__(self, mix: Callable[..., tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(W, W) for _ in range(3))
        self.mix, self.seen = mix, torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        y, self.seen = self.mix(*(f(x).unflatten(-1, (H, D)) for f in (self.q, self.k, self.v)))
        return y


def scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bihd,bjhd->bhij", q, k) / D


def mixes(w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return torch.einsum("bhij,bjhd->bihd", w, v), w.clone()


def tied(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of an alignment share what they attend to."""
    w = (torch.einsum("brihd,brjhd->bhij", q, k) / D).softmax(-1)
    return torch.einsum("bhij,brjhd->brihd", w, v), w


def halves(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    a = scores(q, k)
    a[1:] = a[1:].softmax(-1)
    a[:1] = a[:1].softmax(-1)
    return mixes(a, v)


def grouped(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Scores of grouped queries, changed before their softmax."""

    def mix(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        a = torch.einsum("btkgd,bskd->bkgts", q.unflatten(2, (2, 2)), k[:, :, :2])
        w = change(a).softmax(-1)
        return torch.einsum("bkgts,bskd->btkgd", w, v[:, :, :2]), w.flatten(1, 2)

    return mix


def rows(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    at = torch.tensor([[0, 2, 5], [0, 1, 3]])[:, None, :, None]
    return mixes(torch.take_along_dim(scores(q, k).softmax(-1), at, 2), v)


def normed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return mixes(functional.normalize(scores(q, k).softmax(2), p=1, dim=-1), v)


def logarithms(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    y, w = mixes(scores(q, k).softmax(-1), (v - v.amax(1, True)).exp())
    return y.log(), w


MIXES = {
    "tied": tied,
    "halves": halves,
    "rows": rows,
    "normed": normed,
    "logarithms": logarithms,
    "an alias of scores": grouped(lambda a: torch.negative(torch.subtract(a, torch.ones(())))),
    "several operators of scores": grouped(functional.softsign),
    "one of scores that is not marked": grouped(functional.logsigmoid),
}


@pytest.mark.parametrize("name", MIXES)
def test_what_attends_in_another_spelling(name: str) -> None:
    torch.manual_seed(0)
    model = Mixing(MIXES[name])
    with torch.no_grad(), overt.record(model) as rec:
        model(torch.randn(2, 3, L, W) if name == "tied" else torch.randn(2, L, W))
    np.testing.assert_allclose(np.asarray(rec[""].weights), model.seen, atol=1e-6)


def test_what_is_half_a_softmax_is_refused() -> None:
    def half(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        a = scores(q, k)
        a[1:] = a[1:].softmax(-1)
        a[:1] /= 100
        return mixes(a, v)

    def chosen(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        at = torch.arange(L - 1, -1, -1)
        return mixes(scores(q, k).softmax(-1).index_select(-1, at), v[:, at])

    for mix in (half, chosen):
        with pytest.raises(RecordingError, match=r"\(model\): after its softmax"), overt.record(model := Mixing(mix)):
            model(torch.randn(2, L, W))


def test_heads_that_are_one_in_a_cache_are_held_once() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = nn.Linear(W, H * W), nn.Linear(W, W), nn.Linear(W, W)
            self.keys, self.values = torch.zeros(2, 1, 2 * L, W), torch.zeros(2, 1, 2 * L, W)
            self.n = 0

        def forward(self, x: Tensor) -> Tensor:
            B, T, _ = x.shape
            q = self.q(x).view(B, T, H, W).transpose(1, 2)
            first, self.n = self.n, self.n + T
            self.keys[:, 0, first : self.n], self.values[:, 0, first : self.n] = self.k(x), self.v(x)
            k, v = (some[:, :, : self.n].expand(B, H, -1, -1) for some in (self.keys, self.values))
            return SDPA(q, k, v, is_causal=T > 1).transpose(1, 2)

    model, x = Shared(), torch.randn(2, L, W)
    with torch.no_grad(), overt.record(model) as rec:
        model(x[:, : L - 2])
        for t in (L - 2, L - 1):
            model(x[:, t : t + 1])
    with torch.no_grad():
        q = model.q(x).view(2, L, H, W).transpose(1, 2)
        s = q @ model.k(x)[:, None].mT / W**0.5
        right = s.masked_fill(~torch.ones(L, L, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    np.testing.assert_allclose(rec[""].weights, right, atol=1e-5)


def test_memory_that_was_written_over_names_the_model() -> None:
    class Over(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(W, W)

        def forward(self, x: Tensor) -> Tensor:
            q = self.q(x)[:, None].clone()
            y = SDPA(q, q, q)
            q.zero_()
            return y

    model = Over()
    with torch.no_grad(), overt.record(model) as rec:
        model(torch.randn(2, L, W))
    with pytest.raises(RecordingError, match=r"^\(model\): the model has written over"):
        np.asarray(rec[""].weights)
