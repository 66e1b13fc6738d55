"""Calls of what is given several kinds of things at once: tokens, numbers of rows, drawn weights, edges, pages."""

from __future__ import annotations

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import overt
from overt.check.checking import examine
from overt.check.process.arrays import alike
from overt.check.process.held import held, restored
from overt.check.process.session import Session
from overt.check.text.shapes import shapes
from overt.recorder.flow import close

NUMPY = '''
import numpy as np

def soft(z):
    z = np.exp(z - z.max(AXIS, keepdims=True))
    return z / z.sum(AXIS, keepdims=True)

def mix(q, k, v):
    return soft(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v

class Trail:
    def __init__(self, width=24):
        draw = np.random.default_rng(0).normal
        self.seen, self.done, self.won = (draw(size=(n, width)) * 0.4 for n in (6, 2, 1))
        self.when, self.a, self.b, self.c = draw(size=(30, width)), *draw(size=(3, width, width)) * 0.2

    def __call__(self, sights, moves, prizes, moments):
        t = self.when[moments]
        x = np.stack([prizes @ self.won + t, sights @ self.seen + t, moves @ self.done + t], axis=2)
        x = x.reshape(len(x), -1, x.shape[-1])
        return mix(x @ self.a, x @ self.b, x @ self.c)

class Letters:
    def __init__(self, many=9, wide=16, deep=2):
        self.many, self.wide, self.deep = many, wide, deep

    def begin(self, seed):
        draw = np.random.default_rng(seed).normal
        layer = lambda: {n: {"m": draw(size=(self.wide, self.wide)) / 4, "s": np.zeros(self.wide)} for n in "abc"}
        return {"rows": draw(size=(self.many, self.wide)), "deep": [layer() for _ in range(self.deep)]}

    def __call__(self, held, written):
        x = held["rows"][written]
        for one in held["deep"]:
            a, b, c = (x @ one[n]["m"] + one[n]["s"] for n in "abc")
            x = x + mix(a, b, c)
        return x @ held["rows"].T

class Shelf:
    def __init__(self, n_pages, page_size, groups, wide):
        self.keys, self.said = np.zeros((2, n_pages, page_size, groups, wide))
        self.page_size = page_size

def paged(q, shelf, page_table, seq_lens):
    """q (B, H, D); page_table (B, n); one query for each of B sequences"""
    found = np.empty_like(q)
    for b, (some, many) in enumerate(zip(page_table, seq_lens)):
        k, v = (x[some].reshape(-1, *x.shape[2:])[:many].swapaxes(0, 1) for x in (shelf.keys, shelf.said))
        found[b] = mix(q[b][:, None], k, v)[:, 0]
    return found
'''
POINTED = '''
import numpy as np

def likeness(key, slots):
    norms = np.linalg.norm(key, axis=1)[:, None] * np.linalg.norm(slots, axis=2)
    return np.einsum("bm,bnm->bn", key, slots) / (norms + 1e-8)

class Pointed:
    """params (B, M + 1): a key (M), and how sharp"""

    def __init__(self, many, m):
        self.many, self.M = many, m

    def __call__(self, params, slots, before):
        s = np.exp(params[:, self.M])[:, None] * likeness(params[:, :self.M], slots)
        w = np.exp(s - s.max(1, keepdims=True))
        w = (w / w.sum(1, keepdims=True) + before) ** 2
        w = w / w.sum(1, keepdims=True)
        return np.einsum("bn,bnm->bm", w, slots), w

def cut(q, k, v, used):
    """q (B, H, D); k, v (B, S, H, D); used (B,)"""
    out = np.empty_like(q)
    for b in range(len(q)):
        n = int(used[b])
        s = np.einsum("hd,shd->hs", q[b], k[b][list(range(0, n, 1))]) * q.shape[-1] ** -0.5
        w = np.exp(s - s.max(1, keepdims=True))
        out[b] = np.einsum("hs,shd->hd", w / w.sum(1, keepdims=True), v[b][:n])
    return out
'''
TRACED = """
import jax
import jax.numpy as jnp
from typing import NamedTuple

class Weights(NamedTuple):
    asks: jax.Array  # (C, H, D)
    asked: jax.Array  # (C, K, D)
    said: jax.Array  # (C, K, D)

@jax.jit
def grouped(held, x):
    q, k, v = (jnp.einsum("btc,chd->bthd", x, w) for w in (held.asks, held.asked, held.said))
    B, T, K, D = k.shape
    q = q.reshape(B, T, K, q.shape[2] // K, D) * D ** -0.5
    w = jax.nn.softmax(jnp.einsum("btkgd,bskd->bkgts", q, k), axis=-1)
    return jnp.einsum("bkgts,bskd->btkgd", w, v).reshape(B, T, -1)
"""
GRAPH = """
import numpy as np

class Graph:
    def __init__(self, wide=8, heads=2):
        draw = np.random.default_rng(0).normal
        self.heads, self.w, self.a, self.b = heads, draw(size=(wide, wide)), *draw(size=(2, heads, wide // heads))

    def __call__(self, nodes, links):
        begin, end = links
        h = (nodes @ self.w).reshape(len(nodes), self.heads, -1)
        e = (h * self.a).sum(-1)[begin] + (h * self.b).sum(-1)[end]
        e = np.where(e > 0, e, 0.2 * e)
        e = np.exp(e - e.max())
        total = np.zeros((len(nodes), self.heads))
        np.add.at(total, end, e)
        out = np.zeros(h.shape)
        np.add.at(out, end, (e / total[end])[..., None] * h[begin])
        return out.reshape(len(nodes), -1)
"""
TORCH = """
import numpy as np
import torch
from torch import nn

class Shop(nn.Module):
    def __init__(self, many, wide=24):
        super().__init__()
        self.rows = nn.Embedding(many + 1, wide)
        self.inside = nn.MultiheadAttention(wide, 2, batch_first=True)

    def forward(self, bought, liked, hated):
        x = self.rows(torch.as_tensor(np.asarray(bought), dtype=torch.long))
        x = x + self.inside(x, x, x, need_weights=False)[0]
        return (x * self.rows(liked)).sum(-1), (x * self.rows(hated)).sum(-1)

class Turned(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h, self.all = num_heads, nn.Linear(dim, 3 * dim)

    def forward(self, hidden_states, position_embeddings=None):
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(-3, -2) for x in self.all(hidden_states).chunk(3, -1))
        cos, sin = position_embeddings
        q, k = (x * cos + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * sin for x in (q, k))
        return self.mixed(q, k, v).transpose(-3, -2).flatten(-2)

    def mixed(self, q, k, v):
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v

class Covered(nn.Module):
    '''a_i = v tanh(A h_i + B state + C c_i)

    enc_mask: float (B, n), 1 for words and 0 for padding
    '''

    def __init__(self, size):
        super().__init__()
        self.B, self.C, self.v = nn.Linear(2 * size, 2 * size), nn.Linear(1, 2 * size), nn.Linear(2 * size, 1)

    def forward(self, s_t, enc_out, enc_feat, enc_mask, coverage):
        a = enc_feat + self.B(s_t).unsqueeze(1)
        a = a + self.C(coverage.unsqueeze(-1))
        a = torch.softmax(self.v(torch.tanh(a)).squeeze(-1), dim=1) * enc_mask
        a = a / a.sum(1, keepdim=True)
        return torch.bmm(a.unsqueeze(1), enc_out).squeeze(1), coverage + a

class Packed(Turned):
    def forward(self, hidden_states, cu_seqlens):
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(0, 1) for x in self.all(hidden_states).chunk(3, -1))
        sizes = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
        parts = zip(*(x.split(sizes, 1) for x in (q, k, v)))
        return torch.cat([self.mixed(*some) for some in parts], 1).transpose(0, 1).flatten(1)
"""


@pytest.mark.parametrize(
    ("name", "axis", "found"),
    [
        ("Trail", "-1", []),
        ("Trail", "-2", ["softmax_axis_q"]),
        ("Letters", "-1", []),
        ("Letters", "-2", ["softmax_axis_q"]),
        ("paged", "-1", []),
    ],
)
def test_what_is_given_together_fits(session: Session, tmp_path: Path, name: str, axis: str, found: list[str]) -> None:
    (tmp_path / "given.py").write_text(NUMPY.replace("AXIS", axis))
    report = examine(session, f"{tmp_path / 'given.py'}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)
    assert any(e.step.endswith("softmax") and e.outcome != "not tried" for e in report.ledger)


def test_an_array_that_is_taken_apart_and_picks_nodes_has_edges(session: Session, tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text(GRAPH)
    report = examine(session, f"{tmp_path / 'graph.py'}:Graph")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert "links: edges" in report.convention["called with"]


@pytest.mark.parametrize(("name", "given"), [("Pointed", "slots: BTW"), ("cut", "used: lengths")])
def test_what_equations_and_whole_numbers_say_of_arguments(
    session: Session, tmp_path: Path, name: str, given: str
) -> None:
    (tmp_path / "pointed.py").write_text(POINTED)
    report = examine(session, f"{tmp_path / 'pointed.py'}:{name}")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert given in report.convention["called with"]


def test_heads_that_others_are_divided_by_are_key_heads(session: Session, tmp_path: Path) -> None:
    if find_spec("jax") is None:
        return
    (tmp_path / "traced.py").write_text(TRACED)
    report = examine(session, f"{tmp_path / 'traced.py'}:grouped")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert any(e.step.endswith("softmax") and e.outcome == "held" for e in report.ledger)


STATES = """
import torch
from torch import nn

class Joined(nn.Module):
    'features [B, L, F], hidden [B, H], embedded [B, E] -> [B, F]'
    def __init__(self, feat_dim, hidden_dim, emb_dim):
        super().__init__()
        self.ask, self.score = nn.Linear(emb_dim + hidden_dim, hidden_dim), nn.Linear(hidden_dim, 1)
        self.key = nn.Linear(feat_dim, hidden_dim)

    def forward(self, features, hidden, embedded):
        asking = self.ask(torch.cat((embedded, hidden), dim=1))
        e = self.score(torch.tanh(asking[:, None] + self.key(features))).squeeze(2)
        return (e.softmax(1)[..., None] * features).sum(1)

class Maps(nn.Module):
    def __init__(self, query_dim: int, memory_dim: int, hidden: int, heads: int, first: int = 3):
        super().__init__()
        self.heads, self.first = heads, first
        self.ask, self.key = nn.Linear(query_dim, hidden), nn.Linear(memory_dim, hidden)

    def forward(self, queries, memory):
        'queries [B, N, C], memory [B, C, h, w] -> [B, N, heads, h, w]'
        q = self.ask(queries).unflatten(2, (self.heads, -1))
        k = self.key(memory.movedim(1, 3)).movedim(3, 1).unflatten(1, (self.heads, -1))
        s = torch.einsum("bnhc,bhcij->bnhij", q, k) / q.shape[-1] ** 0.5
        return s.flatten(self.first).softmax(-1).view(s.shape)

class MapsOfAll(Maps):
    def __init__(self, query_dim: int, memory_dim: int, hidden: int, heads: int):
        super().__init__(query_dim, memory_dim, hidden, heads, 2)

class Located(nn.Module):
    def __init__(self, state_dim=128, memory_dim=64, width=32, filters=8):
        super().__init__()
        self.ask, self.score = nn.Linear(state_dim, width), nn.Linear(width, 1)
        self.seen, self.place = nn.Conv1d(2, filters, 3, padding=1), nn.Linear(filters, width)

    def forward(self, state, memory, done_memory, before, mask):
        asking = self.ask(state.unsqueeze(1))
        place = self.place(self.seen(before).transpose(1, 2))
        e = self.score(torch.tanh(asking + place + done_memory)).squeeze(-1)
        return torch.bmm(e.masked_fill(mask, -torch.inf).softmax(1)[:, None], memory).squeeze(1)
"""


@pytest.mark.parametrize(
    ("name", "given"),
    [("Joined", "hidden: BU, embedded: Bi (batch 2, heads 3, 5 queries, 5 keys, width 12, i 12"),
     ("Located", "state: BW, memory: BSW, done_memory: BSj, before: BiW")],
)  # fmt: skip
def test_a_state_asks_for_what_is_remembered(session: Session, tmp_path: Path, name: str, given: str) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "states.py").write_text(STATES)
    report = examine(session, f"{tmp_path / 'states.py'}:{name}")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert given in " ".join(report.convention["called with"].split()), report.convention


@pytest.mark.parametrize(("name", "found"), [("Maps", []), ("MapsOfAll", ["softmax_heads_and_keys"])])
def test_weights_of_pixels_are_normalised_over_both_sides(
    session: Session, tmp_path: Path, name: str, found: list[str]
) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "states.py").write_text(STATES)
    report = examine(session, f"{tmp_path / 'states.py'}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)


@pytest.mark.parametrize("name", ["Turned", "Packed"])
def test_what_may_be_left_out_or_bounds_what_is_packed_is_given(session: Session, tmp_path: Path, name: str) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "shop.py").write_text(TORCH)
    report = examine(session, f"{tmp_path / 'shop.py'}:{name}")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    given = {"Turned": "position_embeddings.0: cosines", "Packed": "cu_seqlens: bounds in T"}[name]
    assert given in report.convention["called with"]


def test_a_number_for_each_key_has_no_width(session: Session, tmp_path: Path) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "shop.py").write_text(TORCH)
    report = examine(session, f"{tmp_path / 'shop.py'}:Covered")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert "enc_out: BSW, enc_feat: BSW, enc_mask: 0 and 1 (B, S), coverage: BS " in report.convention["called with"]


def test_all_may_be_tokens_and_come_back_from_numpy(session: Session, tmp_path: Path) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "shop.py").write_text(TORCH)
    report = examine(session, f"{tmp_path / 'shop.py'}:Shop")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
    assert any(e.step.endswith("softmax") and e.outcome == "held" for e in report.ledger)


def test_shapes_are_those_of_the_arguments_in_their_order() -> None:
    told = shapes("(B, T, p), (B, T, 1), (B, T) -> what comes next (B, T, p)", ["one", "two", "three"])
    assert [s.axes for s in told.values()] == [("B", "T", "p"), ("B", "T", "1"), ("B", "T")]
    assert not shapes("(B, T, p), (B, T, 1) -> what comes next", ["one", "two", "three"])


def test_arrays_in_an_object_that_is_given_are_arguments() -> None:
    class Held:
        def __init__(self) -> None:
            self.k = np.ones((3, 2))

    held = Held()
    own = held.k
    steps = overt.trace(lambda q, held: q @ held.k.T, np.ones((4, 2)), held)
    assert [step.array.shape for step in steps][-1] == (4, 3)
    assert held.k is own


def test_a_word_within_brackets_is_no_argument() -> None:
    text = 'x (H, W, C)\np: {"all": (C, 3, heads, d), "table": ((2w-1)^2, heads), "out": (heads, d, C)}'
    told = shapes(text, ["p", "x", "heads"], [("p", "all"), ("p", "table"), ("p", "out")])
    assert told["p", "out"].axes == ("heads", "d", "C")
    assert ("heads",) not in told


def test_a_call_that_changes_a_module_is_seen_and_what_it_was_given_is_put_back() -> None:
    if find_spec("torch") is None:
        return
    import torch

    class Keeping(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.kept = torch.nn.Linear(2, 2), {"all": [torch.zeros(2)]}
            self.register_buffer("seen", torch.zeros(2))

    one = Keeping()
    before = held(one) or []
    one.train()
    assert restored(before)
    assert one.training
    one.weights, one.seen = torch.ones(2), torch.ones(2)
    one.inner.register_forward_hook(lambda *_: None)
    assert restored(before)
    assert not hasattr(one, "weights")
    assert not one.seen.any()
    assert not one.inner._forward_hooks
    one.kept["all"][0] += 1
    assert not restored(before)
    before = held(one) or []
    one.kept["all"].append(torch.ones(1))
    assert not restored(before)
    before = held(one) or []
    with torch.no_grad():
        one.inner.weight.mul_(2)
    assert not restored(before)
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(2))
    found = held(lazy)
    lazy(torch.ones(1, 2))
    assert found is None or not restored(found)
    one.queue = iter([1])  # type: ignore[assignment]
    assert held(one) is None


def test_a_copy_that_a_call_changed_is_not_alike() -> None:
    class Keeping:
        def __init__(self) -> None:
            self.w, self.seen = np.ones(3), [SimpleNamespace(n=0, k=np.zeros(2))]

    one = Keeping()
    assert alike(one, deepcopy(one))
    for change in ("two.w = two.w + 1", "two.seen[0].n += 1", "two.seen[0].k += 1", "two.seen.append(3)", "two.x = 1"):
        two = deepcopy(one)
        exec(change)
        assert not alike(one, two), change


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_close_says_what_numpy_says(dtype: str) -> None:
    drawn = np.random.default_rng(0)
    some = np.array([0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1 + 1e-7, 1 + 1e-4, 1e-9, 1e5, 1e5 + 0.5])
    for _ in range(300):
        with np.errstate(invalid="ignore"):
            x, y = (drawn.choice(some, 2).astype(dtype) for _ in range(2))
        assert close(x, y, 1e-5, 1e-8) == np.allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=True), (x, y)
