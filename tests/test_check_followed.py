"""What code says of itself beside its numbers, and what is learnt of a call that fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.checking import examine
from overt.check.process.giving import is_written
from overt.check.process.session import Session
from overt.check.report import CallError
from overt.check.text.reading import read

SOURCE = '''
import numpy as np

def soft(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)

def flat(weights, prefix, x):
    lin = lambda name, t: t @ weights[f"{prefix}.{name}.weight"].T
    q, k, v = lin("q_proj", x), lin("k_proj", x), lin("v_proj", x)
    return lin("o_proj", soft(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v)

def staged(q, k, v, stage=0):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    w = soft(s)
    return w @ v, (s, np.tanh(s), w)[stage]

def flagged(q, k, v, before=True):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    w = soft(s)
    return w @ v, s if before else w

def worded(q, k, v, what="raw"):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    w = soft(s)
    return w @ v, w if what == "soft" else s

class Built:
    def __init__(self, raw=True):
        self.raw = raw

    def __call__(self, q, k, v):
        return flagged(q, k, v, self.raw)

def stacked(q, k, v, prev=None):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    s = s if prev is None else s + prev
    return soft(s) @ v, s

def always(q, k, v, stage=0):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return soft(s) @ v, (s, s, s)[stage]

class Tiles:
    def __init__(self, width=32):
        self.width = width

    def of(self, n):
        return [slice(a, a + self.width) for a in range(0, n, self.width)]

def tiled(q, k, v, tiles=Tiles(), rescaled=True):
    """q (T, D), k (S, D), v (S, D)"""
    top, below, above = np.full((len(q), 1), -np.inf), 0, 0
    for tile in tiles.of(len(k)):
        s = q @ k[tile].T / q.shape[-1] ** 0.5
        more = np.maximum(top, s.max(-1, keepdims=True))
        p, keep = np.exp(s - more), np.exp(top - more)
        below = below * keep + p.sum(-1, keepdims=True)
        above = above * (keep if rescaled else 1) + p @ v[tile]
        top = more
    return above / below

def tiled_unscaled(q, k, v, tiles=Tiles()):
    """q (T, D), k (S, D), v (S, D)"""
    return tiled(q, k, v, tiles, False)

def capped(q, k, v, mask=None, late=5.0):
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        s = s + mask
    return soft(np.tanh(s / late) * late) @ v

def turned(x, both):
    """x (B, H, T, D)"""
    cos, sin = (t[:, None] for t in both)
    return x * cos + np.concatenate([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1) * sin

def samples_turned(q, k, v, embeddings):
    """q, k, v: (B, H, T, D) each"""
    cos, sin = embeddings
    q, k = turned(q, embeddings), turned(k, embeddings)
    assert cos.ndim == sin.ndim == 3
    return soft(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v

def partly(x, w, how):
    """x (L, W)"""
    q, k, v = (x @ w[n] for n in ("wq", "wk", "wv"))
    turned = int(q.shape[-1] * how["part"])
    rates = 0.1 ** (np.arange(0, turned, 2) / max(turned, 1))
    turns = np.exp(1j * np.arange(len(x))[:, None] * rates)

    def turn(y):
        z = (y[:, 0:turned:2] + 1j * y[:, 1:turned:2]) * turns
        return np.concatenate([np.stack([z.real, z.imag], -1).reshape(len(y), -1), y[:, turned:]], -1)

    return soft(turn(q) @ turn(k).T / q.shape[-1] ** 0.5) @ v

SINKS = np.array([0.3, -0.2])

def beside(q, k, v, last=True, cut=slice(0, -2)):
    """(H, T, D) each"""
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    sinks = np.broadcast_to(SINKS, (*s.shape[:-1], 2))
    return soft(np.concatenate([s, sinks] if last else [sinks, s], -1))[..., cut] @ v

def beside_first(q, k, v):
    """(H, T, D) each"""
    return beside(q, k, v, False, slice(2, None))

def beside_other_end(q, k, v):
    """(H, T, D) each"""
    return beside(q, k, v, True, slice(2, None))

def beside_one_of_two(q, k, v):
    """(H, T, D) each"""
    return beside(q, k, v, False, slice(1, -1))
'''

TORCH = '''
import torch
from torch import nn
import torch.nn.functional as F

def turned(x, freqs):
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * freqs[None, :, None, :]
    return torch.view_as_real(z).flatten(3).type_as(x)

class Stored(nn.Module):
    """start_pos: tokens that are stored already"""

    def __init__(self, dim=24, n_heads=3):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("k", torch.zeros(4, 64, n_heads, dim // n_heads))
        self.register_buffer("v", torch.zeros(4, 64, n_heads, dim // n_heads))

    def rows(self, freqs, first, T):
        return freqs.narrow(0, first, T)

    def forward(self, x, start_pos, freqs):
        B, T, _ = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1) for t in self.qkv(x).chunk(3, -1))
        rows = self.rows(freqs, start_pos, T)
        self.k[:B, start_pos : start_pos + T], self.v[:B, start_pos : start_pos + T] = turned(k, rows), v
        k, v = self.k[:B, : start_pos + T], self.v[:B, : start_pos + T]
        mask = torch.ones(T, start_pos + T, dtype=torch.bool).tril(start_pos)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (turned(q, rows), k, v)), attn_mask=mask)
        return y.transpose(1, 2).reshape(B, T, -1)

class Scores(nn.Module):
    def forward(self, ids, lengths):
        return ids * lengths

class Dots(nn.Module):
    def __init__(self, drop=0.1):
        super().__init__()
        self.drop = nn.Dropout(drop)

    def forward(self, queries, keys, values):
        w = torch.softmax(queries @ keys.mT / queries.shape[-1] ** 0.5, -1)
        return self.drop(w) @ values, w

class Outer(nn.Module):
    def __init__(self, inside, dim, n_heads):
        super().__init__()
        self.within, self.n_heads = inside, n_heads
        self.inner = inside
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y, _ = self.inner(q, k, v)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))

class OuterMerged(Outer):
    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y, _ = self.inner(q, k, v)
        return self.out(y.reshape(B, T, -1))

class Rows(nn.Module):
    """Rows of qkv lie head by head: q, k, v of head 0, then q, k, v of head 1, ..."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Conv1d(channels, 3 * channels, 1), nn.Conv1d(channels, channels, 1)

    def parted(self, x):
        return x.reshape(len(x) * self.heads, -1, x.shape[-1]).chunk(3, 1)

    def forward(self, x):
        """x (B, C, L)"""
        q, k, v = (t.reshape(len(x), self.heads, -1, x.shape[-1]) for t in self.parted(self.qkv(x)))
        w = torch.softmax(q.mT @ k / q.shape[2] ** 0.5, -1)
        return self.out((v @ w.mT).reshape(x.shape))

class RowsInThirds(Rows):
    def parted(self, x):
        return x.chunk(3, 1)

class StoredFromFirst(Stored):
    def rows(self, freqs, first, T):
        return freqs.narrow(0, 0, T)
'''


def test_names_that_functions_of_one_line_put_together_are_known(session: Session, file: Path) -> None:
    assert read(SOURCE.partition("def flat")[2].join(["def flat", ""]), ["weights", "prefix", "x"]).texts
    report = examine(session, f"{file}:flat")
    assert report.ok
    assert "weights.prefix.q_proj.weight: WW" in report.convention["called with"]


@pytest.mark.parametrize("name", ["w", "model.layers.0.q.weight", "blocks[0]/q", "q, k", "gpt:{n}"])
def test_names_that_somebody_may_have_written_are_learnt(name: str) -> None:
    assert is_written(name)


@pytest.mark.parametrize("name", [f"{np.ones((2, 3))}.q", f"{np.ones(2)}.w", "Tracer(f4[2,64]).q", "a" * 200, 3])
def test_names_that_hold_an_array_are_not_learnt(name: object) -> None:
    assert not is_written(name)


def test_messages_of_calls_are_short() -> None:
    """Whatever was tried."""
    guess = Guess(tuple((("x", "\n".join("long" * 300) + str(n)), "BTW") for n in range(9)), Lengths())
    tried = Tried(guess, {"error": {"type": "ValueError", "message": "so\n" * 300}})
    assert len(str(tried)) < 500
    message = str(CallError(f"no call works: {tried}; {'x ' * 5000}.  Give a call with --example"))
    assert len(message) < 1000
    assert message.endswith("Give a call with --example")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["staged", "flagged", "worded", "Built", "stacked"])
def test_an_argument_may_choose_that_scores_are_returned(session: Session, file: Path, name: str) -> None:
    assert examine(session, f"{file}:{name}").ok


def test_scores_that_no_argument_turns_into_weights_are_in_their_place(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:always")
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["returns_scores"]


def test_a_mask_is_of_the_sort_that_is_not_wrong_by_itself(session: Session, file: Path) -> None:
    """Numbers are added to the scores: it was not meant for booleans, whatever else is wrong."""
    report = examine(session, f"{file}:capped")
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["softcap_after_mask"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modules") / "modules.py"
    path.write_text(TORCH)
    return path


@pytest.mark.parametrize(("name", "wrong"), [("Stored", []), ("StoredFromFirst", ["rope_offset"])])
def test_rows_of_a_table_are_those_of_the_tokens(session: Session, modules: Path, name: str, wrong: list[str]) -> None:
    """Which rows a later piece is turned by, the candidate says where it is given the table of all."""
    report = examine(session, f"{modules}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == wrong
    if not wrong:
        assert any((entry.step, entry.outcome) == ("cache", "held") for entry in report.ledger)


@pytest.mark.parametrize(
    ("name", "wrong"), [("beside_first", 0), ("beside", 0), ("beside_other_end", 1), ("beside_one_of_two", 1)]
)
def test_what_lies_beside_the_scores_is_cut_off_where_it_lies(
    session: Session, file: Path, name: str, wrong: int
) -> None:
    report = examine(session, f"{file}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == ["unknown"] * wrong
    assert not wrong or any("weight of a key is that of the key" in f.message for f in report.findings)


@pytest.mark.parametrize(("name", "ok"), [("tiled", True), ("tiled_unscaled", False)])
def test_blocks_may_be_those_of_what_an_argument_is_by_itself(
    session: Session, file: Path, name: str, ok: bool
) -> None:
    assert examine(session, f"{file}:{name}").ok == ok


def test_each_sample_may_have_turns_of_its_own(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:samples_turned")
    assert report.ok
    assert "embeddings.0: cosines (B, T), embeddings.1: sines (B, T)" in report.convention["called with"]


def test_what_is_made_one_number_is_no_array(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:partly")
    assert report.ok
    assert "how.part: 1.0" in report.convention["called with"]


@pytest.mark.parametrize(("name", "wrong"), [("Rows", []), ("RowsInThirds", ["qkv_order"])])
def test_channels_are_packed_as_is_said(session: Session, modules: Path, name: str, wrong: list[str]) -> None:
    report = examine(session, f"{modules}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == wrong


@pytest.mark.parametrize(("name", "wrong"), [("Outer", []), ("OuterMerged", ["merge_view"])])
def test_what_is_called_inside_is_a_class_of_the_module(
    session: Session, modules: Path, name: str, wrong: list[str]
) -> None:
    report = examine(session, f"{modules}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == wrong


@pytest.mark.parametrize(
    ("compared", "last"),
    [
        ("np.arange(5) <= n[:, None]", 1),
        ("n[:, None] < np.arange(5)", 1),
        ("np.arange(5) < n[:, None]", 0),
        ("np.arange(5) >= n[:, None]", 0),
    ],
)
def test_the_last_that_is_seen_is_a_position(compared: str, last: int) -> None:
    found = read(f"def f(x, n):\n    return x * ({compared})", ["x", "n"])
    assert len(found.lengths) == 1
    assert len(found.last) == last
