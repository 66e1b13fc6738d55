"""One word at a time, edges in a graph's object, several widths, views of buffers, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from overt.check.checking import examine
from overt.check.process.parameters import own
from overt.check.process.session import Session
from overt.check.report import Report
from overt.recorder import record_operations

SOURCE = '''
"""Things that attend.

Of every class below the rows are samples. `missing` is a float array [rows, columns]
with 1.0 where nothing was measured; these columns are not attended to.  The fused `query_key_value` has its columns
grouped head by head: [head 0: q k v][head 1: q k v] ...
"""
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Graph(NamedTuple):
    x: torch.Tensor      # [N, F]
    edges: torch.Tensor  # [2, E], row 0 = source, row 1 = target
    slope: torch.Tensor  # [E, S] what is known of each edge


def over_edges(score, target, n):
    at = target[:, None].expand_as(score)
    top = torch.full((n, score.shape[1]), float("-inf"), dtype=score.dtype).scatter_reduce(0, at, score, "amax")
    e = (score - top[target]).exp()
    return e / torch.zeros_like(top).index_add(0, target, e)[target]


class Edges(nn.Module):
    """GATv2 with what is known of the edges."""

    turned = False

    def __init__(self, f_in, f_out, s_dim, heads=4):
        super().__init__()
        self.heads, self.f_out = heads, f_out
        self.left, self.right = nn.Linear(f_in, heads * f_out), nn.Linear(f_in, heads * f_out)
        self.known, self.att = nn.Linear(s_dim, heads * f_out), nn.Parameter(torch.randn(heads, f_out))

    def forward(self, g: Graph):
        n = len(g.x)
        up, down = g.edges
        a, b = (f(g.x).view(n, self.heads, self.f_out) for f in (self.left, self.right))
        z = a[up] + b[down] + self.known(g.slope).view(-1, self.heads, self.f_out)
        score = (F.leaky_relu(z, 0.2) * self.att).sum(-1)
        alpha = over_edges(score, up if self.turned else down, n)
        return a.new_zeros(n, self.heads, self.f_out).index_add(0, down, alpha[..., None] * a[up]).flatten(1)


class Turned(Edges):
    """GATv2 with what is known of the edges."""

    turned = True


class Summed:
    """Causal linear attention with weights in a dictionary: wq, wk, wv, wo, all [D, D]."""

    def __init__(self, weights, heads):
        self.w, self.heads = weights, heads
        self.d = weights["wq"].shape[1] // heads
        self.state = np.zeros((heads, self.d, self.d))
        self.norm = np.zeros((heads, self.d))

    def sequence(self, xs):
        """All of a sequence [T, D], from the state on that there is."""
        q, k, v = ((xs @ self.w[n]).reshape(len(xs), self.heads, self.d) for n in ("wq", "wk", "wv"))
        q, k = np.where(q > 0, q + 1, np.exp(np.minimum(q, 0))), np.where(k > 0, k + 1, np.exp(np.minimum(k, 0)))
        kv = self.state + np.cumsum(k[..., :, None] * v[..., None, :], axis=0)
        norm = self.norm + np.cumsum(k, axis=0)
        y = np.einsum("thd,thde->the", q, kv) / np.einsum("thd,thd->th", q, norm)[..., None]
        self.state, self.norm = kv[-1].copy(), norm[-1].copy()
        return y.reshape(len(xs), -1) @ self.w["wo"]


class Near(nn.Module):
    """x: [B, T, D]; loud: [T] bool, True = this position is no key."""

    def __init__(self, dim, heads, longest=64):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        t = torch.arange(longest)
        slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
        self.register_buffer("penalty", -slopes[:, None, None] * (t[:, None] - t).abs(), persistent=False)

    def hide(self, bias, loud):
        return bias.masked_fill(loud[None, None], float("-inf"))

    def forward(self, x, loud=None):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        bias = self.penalty[:, :T, :T]
        if loud is not None:
            bias = self.hide(bias, loud)
        s = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5 + bias
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


class Stained(Near):
    """x: [B, T, D]; loud: [T] bool, True = this position is no key."""

    def hide(self, bias, loud):
        return bias.masked_fill_(loud[None, None], float("-inf"))


def fused(x, w, n_heads, shape):
    n, hidden = x.shape
    qkv = x @ w["attention.query_key_value.weight"].T + w["attention.query_key_value.bias"]
    q, k, v = shape(qkv, n, n_heads)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(hidden // n_heads)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, hidden) @ w["attention.dense.weight"].T


def by_heads(qkv, n, n_heads):
    return qkv.reshape(n, n_heads, 3, -1).transpose(2, 1, 0, 3)


def by_thirds(qkv, n, n_heads):
    return qkv.reshape(n, 3, n_heads, -1).transpose(1, 2, 0, 3)


def packed(x, w, n_heads=4):
    """x: (n, hidden) of one sequence; w: a dictionary of the checkpoint's names."""
    return x + fused(x, w, n_heads, by_heads)


def misread(x, w, n_heads=4):
    """x: (n, hidden) of one sequence; w: a dictionary of the checkpoint's names."""
    return x + fused(x, w, n_heads, by_thirds)


class Shards:
    """Keys and values in several places, a few after the other in each."""

    def __init__(self, places, heads, dim):
        self.n = 0
        self.k, self.v = ([np.zeros((0, heads, dim)) for _ in range(places)] for _ in "kv")

    def push(self, k, v):
        at = self.n // 4 % len(self.k)
        self.k[at], self.v[at] = np.concatenate([self.k[at], k[None]]), np.concatenate([self.v[at], v[None]])
        self.n += 1


def part(q, k, v):
    """What one place comes to, and the logarithm of its sum to the base 2."""
    if len(k) == 0:
        return np.zeros(q.shape), np.full(len(q), -np.inf)
    t = np.einsum("hd,shd->hs", q, k) * (1.4426950408889634 / np.sqrt(q.shape[1]))
    m = t.max(1)
    p = np.exp2(t - m[:, None])
    return np.einsum("hs,shd->hd", p, v) / p.sum(1)[:, None], m + np.log2(p.sum(1))


def gathered(q, cache: Shards):
    """One query [H, d] over all that the places keep -> [H, d]."""
    outs, logs = map(np.stack, zip(*(part(q, k, v) for k, v in zip(cache.k, cache.v))))
    w = np.exp2(logs - logs.max(0))
    return np.einsum("wh,whd->hd", w / w.sum(0), outs)


def mingled(q, cache: Shards):
    """One query [H, d] over all that the places keep -> [H, d]."""
    outs, logs = map(np.stack, zip(*(part(q, k, v) for k, v in zip(cache.k, cache.v))))
    w = np.exp(logs - logs.max(0))
    return np.einsum("wh,whd->hd", w / w.sum(0), outs)


def played(ask=gathered, steps=11):
    drawn, cache = np.random.default_rng(0), Shards(3, 2, 8)
    for _ in range(steps):
        cache.push(drawn.normal(size=(2, 8)), drawn.normal(size=(2, 8)))
        out = gathered(drawn.normal(size=(2, 8)), cache), mingled(drawn.normal(size=(2, 8)), cache)
    return out


@dataclass
class Size:
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    vocab: int = 40
    seq_len: int = 16


class Speller:
    """One token at a time, with its place; keys and values are kept."""

    def __init__(self, size=None, seed=0):
        self.p = p = size or Size()
        r = np.random.default_rng(seed)
        self.tok = r.normal(size=(p.vocab, p.dim))
        self.w = {n: r.normal(size=(p.n_layers, p.dim, p.dim)) / p.dim ** 0.5 for n in ("q", "k", "v", "o")}
        self.kc, self.vc = (np.zeros((p.n_layers, p.seq_len, p.dim)) for _ in "kv")

    def weigh(self, s):
        e = np.exp(s - s.max())
        return e / e.sum()

    def forward(self, token, pos):
        p, x = self.p, self.tok[token].copy()
        wide = p.dim // p.n_heads
        for l in range(p.n_layers):
            q = self.w["q"][l] @ x
            self.kc[l, pos], self.vc[l, pos] = self.w["k"][l] @ x, self.w["v"][l] @ x
            out = np.empty(p.dim)
            for a in range(0, p.dim, wide):
                s = self.kc[l, :pos + 1, a:a + wide] @ q[a:a + wide] / wide ** 0.5
                out[a:a + wide] = self.weigh(s) @ self.vc[l, :pos + 1, a:a + wide]
            x = x + self.w["o"][l] @ out
        return self.tok @ x


class Shared(Speller):
    """One token at a time, with its place; keys and values are kept."""

    def weigh(self, s):
        return np.exp(s - s.max()) / np.exp(s).sum()


class Asking(nn.Module):
    """A step of a decoder: token [B]; returns (logits [B, V], state [B, D], weights [B, S])."""

    def __init__(self, vocab=40, emb=12, enc_dim=20, dec_hid=16):
        super().__init__()
        self.embedding, self.v = nn.Embedding(vocab, emb), nn.Linear(dec_hid, 1, bias=False)
        self.attn, self.rnn = nn.Linear(enc_dim + dec_hid, dec_hid), nn.GRUCell(enc_dim + emb, dec_hid)
        self.fc_out = nn.Linear(enc_dim + dec_hid, vocab)

    def hidden_ones(self, mask):
        return ~mask

    def forward(self, token, hidden, encoder_outputs, mask):
        # hidden [B, D], encoder_outputs [B, S, E], mask [B, S]: True = a word, False = <pad>
        several = hidden.unsqueeze(1).repeat(1, encoder_outputs.shape[1], 1)
        s = self.v(torch.tanh(self.attn(torch.cat((several, encoder_outputs), dim=2)))).squeeze(2)
        w = F.softmax(s.masked_fill(self.hidden_ones(mask), float("-inf")), dim=1)
        context = torch.bmm(w.unsqueeze(1), encoder_outputs).squeeze(1)
        hidden = self.rnn(torch.cat((self.embedding(token), context), dim=1), hidden)
        return self.fc_out(torch.cat((hidden, context), dim=1)), hidden, w


class Averse(Asking):
    """A step of a decoder: token [B]; returns (logits [B, V], state [B, D], weights [B, S])."""

    def hidden_ones(self, mask):
        return mask


class Both(nn.Module):
    """Self-attention where there is no memory, cross-attention otherwise."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def many(self, x, source):
        return x.shape[1]

    def forward(self, x, memory=None, mask=None):
        source = x if memory is None else memory
        q = self.q(x).view(len(x), self.many(x, source), self.heads, -1).transpose(1, 2)
        k, v = (f(source).view(*source.shape[:2], self.heads, -1).transpose(1, 2) for f in (self.k, self.v))
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        s = s if mask is None else s.masked_fill(~mask, float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Wrongly(Both):
    """Self-attention where there is no memory, cross-attention otherwise."""

    def many(self, x, source):
        return source.shape[1]


class Layer(nn.Module):
    """Reads its own prefix (causal), and what the encoder made of the article, which is longer."""

    inner: Any = Both

    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.own, self.other = self.inner(d_model, num_heads), self.inner(d_model, num_heads)

    def forward(self, hidden_states, encoder_hidden_states):
        n = hidden_states.shape[1]
        x = hidden_states + self.own(hidden_states, mask=torch.ones(n, n, dtype=torch.bool).tril())
        return x + self.other(x, encoder_hidden_states)


class Equal(Layer):
    """Reads its own prefix (causal), and what the encoder made of the article, which is longer."""

    inner = Wrongly


class Counted(nn.Module):
    """x [B, T, D]; lengths [B], which may be 0."""

    def __init__(self, dim=16):
        super().__init__()
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, lengths):
        s = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        seen = torch.arange(x.shape[1])[None, None] < lengths[:, None, None]
        return s.masked_fill(~seen, float("-inf")).softmax(-1) @ x


def columns(tokens, missing, w):
    """tokens: [rows, columns, dim] of numbers; w: (dim, dim)."""
    s = (tokens @ w) @ tokens.swapaxes(1, 2) / np.sqrt(tokens.shape[-1]) - 1e9 * missing[:, None, :]
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ tokens


@dataclass
class Narrow:
    width: int = 32
    heads: int = 4
    dtype: torch.dtype = torch.bfloat16


class Coarse(nn.Module):
    """x [B, T, width], with features of half as many bits."""

    def __init__(self, size: Narrow, heads_too: bool = True):
        super().__init__()
        self.size = size
        self.q, self.k, self.v = (nn.Linear(size.width, size.width) for _ in range(3))

    def factor(self, q):
        return q.shape[-1] ** -0.5

    def forward(self, x):
        c = self.size
        q, k, v = (f(x).unflatten(-1, (c.heads, -1)).transpose(1, 2).to(c.dtype) for f in (self.q, self.k, self.v))
        s = (q @ k.transpose(-1, -2)).float() * self.factor(q)
        return (s.softmax(-1).to(c.dtype) @ v).transpose(1, 2).flatten(2).to(x.dtype)


class Wider(Coarse):
    """x [B, T, width], with features of half as many bits."""

    def factor(self, q):
        return self.size.width ** -0.5
'''

RIGHT = (
    "Edges", "Summed", "Near", "packed", "gathered", "Speller", "Asking", "Layer", "Counted", "columns", "Coarse",
)  # fmt: skip
WRONG = {
    "Stained": "inplace",
    "misread": "qkv_order",
    "mingled": "lse_base2",
    "Shared": "softmax_partial_max",
    "Averse": "mask_inverted",
    "Equal": "cross_wrong_length",
    "Wider": "scale_dmodel",
}


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    file = tmp_path_factory.mktemp("words") / "words.py"
    file.write_text(SOURCE)

    return lambda name: examine(session, f"{file}:{name}")


@pytest.mark.parametrize("name", RIGHT)
def test_right(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == [WRONG[name]], str(report)


def test_a_buffer_that_is_seen_through_a_view_has_a_line(check: Callable[[str], Report]) -> None:
    where = check("Stained").findings[0].where
    assert where is not None
    assert "masked_fill_(" in where["text"]


def test_what_was_tried_is_not_said_to_be_untried(check: Callable[[str], Report]) -> None:
    steps = {e.step: e.outcome for e in check("Near").ledger}
    assert steps["mask"] == "held"
    assert not [e for e in check("Averse").ledger if e.step == "mask" and e.outcome == "not tried"]


def test_a_sample_of_no_length_is_asked_for(check: Callable[[str], Report]) -> None:
    assert "full_row_nan" in [f.id for f in check("Counted").findings if f.kind == "convention"]


def test_a_number_that_picks_a_row_is_an_argument() -> None:
    table = np.arange(12.0).reshape(4, 3)
    _, operations = record_operations(lambda number: table * 1.0 + 0 if number is None else table[number] * 2, 2)
    assert not [op for op in operations if op.name == "index"]
    _, operations = record_operations(lambda words, x: x[words] * 2, np.array(2), table)
    index = next(op for op in operations if op.name == "index")
    assert sorted(index.origins) == ["argument 0", "argument 1"]


def test_buffers_are_the_own_arrays_of_an_instance_unless_they_are_empty() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2)
    module.register_buffer("table", torch.ones(2, 2, 2))
    module.register_buffer("cache", torch.zeros(2))
    assert set(own(module)) == {"weight", "bias", "table"}
