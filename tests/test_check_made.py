"""Calls of what is given more than arrays: what its module makes, what lies in lists, what is called or made first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import EndedError, Session
from overt.check.text.reading import read

NUMPY = '''
import os
import numpy as np
from dataclasses import dataclass
from typing import NamedTuple

def soft(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)

def mix(q, k, v):
    return soft(q @ k.swapaxes(-1, -2) * FACTOR) @ v

@dataclass
class Held:
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    much: int
    little: float = 0.5

def fields(held, x):
    B, T, C = x.shape
    q, k, v = ((x @ w).reshape(B, T, held.much, -1).swapaxes(1, 2) for w in (held.a, held.b, held.c))
    return mix(q, k, v).swapaxes(1, 2).reshape(B, T, C)

class Three(NamedTuple):
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray

def named(w, x):
    return mix(x @ w.q, x @ w.k, x @ w.v)

def unpacked(these, x):
    a, b, c = these
    return mix(x @ a, x @ b, x @ c)

def line(pair, x):
    w, b = pair
    return x @ w + b

def pairs(p, x):
    q, k, v = (line(p[name], x) for name in ("q", "k", "v"))
    return mix(q, k, v)

def layered(layers, x):
    for layer in layers:
        x = x + mix(x @ layer["p"], x @ layer["r"], x @ layer["s"])
    return x

def rows(ids, table, places, blocks):
    x = table[ids] + places[range(len(ids))]
    for block in blocks:
        x = x + mix(x @ block["in"]["p"], x @ block["in"]["r"], x @ block["in"]["s"])
    return x

class Matrices:
    def __init__(self, a, b, c):
        self.a, self.b, self.c = a, b, c

    def __call__(self, x):
        return mix(x @ self.a, x @ self.b, x @ self.c)

class Drawn:
    def __init__(self, width, rng):
        self.a, self.b, self.c = (rng.normal(size=(width, width)) for _ in range(3))

    def __call__(self, x):
        return mix(x @ self.a, x @ self.b, x @ self.c)

class Told:
    def __init__(self, width):
        self.given = None

    def tell(self, memory):
        self.given = memory

    def __call__(self, query):
        return mix(query, self.given, self.given)

def block(x, mix_in, mix_out):
    q, k, v = np.split(affine(x, **mix_in), 3, axis=-1)
    return x + affine(mix(q, k, v), **mix_out)

def affine(x, w, b, unused=1):
    return x @ w + b

def spread(x, blocks, *, heads=1):
    for one in blocks:
        x = block(x, **one)
    return x

def stated(state, prefix, x):
    q, k, v = (x @ state[prefix + f".{n}_proj"] for n in "qkv")
    return mix(q, k, v) @ state[f"{prefix}.out.weight"]

def segments(q, k, v, ends):
    return np.concatenate([mix(q[a:b], k[a:b], v[a:b]) for a, b in zip(ends[:-1], ends[1:])])

def maker(width, seed=0):
    a, b, c = np.random.default_rng(seed).normal(size=(3, width, width))
    def attend(x):
        return mix(x @ a, x @ b, x @ c)
    return attend

class Nested:
    def __init__(self, cfg):
        rng = np.random.default_rng(cfg.run.seed)
        self.heads = cfg.model.attention.heads
        self.w = rng.normal(size=(3, cfg.model.dim, cfg.model.dim))

    def __call__(self, x):
        B, T, W = x.shape
        q, k, v = ((x @ w).reshape(B, T, self.heads, -1).swapaxes(1, 2) for w in self.w)
        return mix(q, k, v).swapaxes(1, 2).reshape(B, T, W)

def drawn_layers(rng, width, count=2):
    return [dict(p=rng.normal(size=(width, width)), r=rng.normal(size=(width, width))) for _ in range(count)]

def empty(batch, width, count=2):
    return [dict(rows=np.zeros((batch, 0, width)), sums=np.zeros((batch, 0, width))) for _ in range(count)]

def zipped(layers, x, stores):
    """x (batch, t, width): embeddings of tokens."""
    for one, store in zip(layers, stores):
        k, v = np.concatenate([store["rows"], x @ one["r"]], 1), np.concatenate([store["sums"], x], 1)
        x = x + mix(x @ one["p"], k, v)
    return x

def counted(asking, rows, upto):
    q, there = asking, np.arange(rows.shape[1])[None] < upto[:, None]
    s = np.where(there[:, None], q @ rows.swapaxes(-1, -2) * FACTOR, -np.inf)
    return soft(s) @ np.where(there[..., None], rows, 0)

def drawing(width):
    def first(rng):
        return [rng.normal(size=(width, width)) for _ in range(3)]
    def second(weights, x):
        a, b, c = weights
        return mix(x @ a, x @ b, x @ c)
    return first, second

def staxed():
    def init(rng, given):
        return given, {name: rng.normal(size=(given, given)) for name in "abc"}
    def apply(weights, x):
        return mix(*(x @ weights[name] for name in "abc"))
    return init, apply

def begun(rng, width):
    def one():
        return rng.normal(size=(width, width))
    return {"table": one(), "stack": [Three(one(), one(), one()), dict(asks=one(), tells=one())]}

def part(p, x):
    return mix(x @ p["asks"], x @ p["tells"], x)

class Dying:
    def __init__(self, end):
        self.end = end

    def __call__(self, x):
        if x == self.end:
            os.abort()
        return x

class Wide:
    def __init__(self, width, count, size):
        rng = np.random.default_rng(0)
        # As layers beside attention are, far wider than it.
        self.w = [rng.normal(size=(width, count * size)) for _ in range(3)] + [rng.normal(size=(count * size, width))]
        self.beside = np.zeros((count * size, 8 * width))
        self.heads = count

    def __call__(self, x):
        B, T, W = x.shape
        q, k, v = ((x @ w).reshape(B, T, self.heads, -1).swapaxes(1, 2) for w in self.w[:3])
        return mix(q, k, v).swapaxes(1, 2).reshape(B, T, -1) @ self.w[3]

def turned(x, angle, past=None):
    cos, sin = angle
    k = x.reshape(len(x), 3, -1).swapaxes(0, 1)
    a, b = np.split(k, 2, axis=-1)
    q = np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    keys, values = (q, k) if past is None else (np.concatenate(both, 1) for both in zip(past, (q, k)))
    hidden = np.arange(keys.shape[1]) > np.arange(len(x))[:, None] + keys.shape[1] - len(x)
    s = np.where(hidden, -np.inf, q @ keys.swapaxes(-1, -2) * FACTOR)
    return (soft(s) @ values).swapaxes(0, 1).reshape(x.shape), (keys, values)

def one_by_one(q, k, v):
    for start in range(0, len(q), 2):
        yield mix(q[start : start + 2], k, v)
'''
JAX = """
import jax
import jax.numpy as jnp
from dataclasses import dataclass

@dataclass(frozen=True)
class Sizes:
    n_q: int
    n_kv: int
    d: int
    unused: float = 2.0

def draw(key, width, sizes):
    a, b = jax.random.split(key)
    rows = (width, sizes.d)
    first = {"w": jax.random.normal(a, (sizes.n_q, *rows))}
    return {"first": first, "rest": jax.random.normal(b, (2, sizes.n_kv, *rows))}

def grouped(params, sizes, x):
    q = jnp.einsum("btd,hdk->bthk", x, params["first"]["w"])
    k, v = jnp.einsum("bsd,chdk->cbshk", x, params["rest"])
    q = q.reshape(*q.shape[:2], sizes.n_kv, sizes.n_q // sizes.n_kv, sizes.d)
    w = jax.nn.softmax(jnp.einsum("btgrk,bsgk->bgrts", q, k) FACTOR, axis=-1)
    return jnp.einsum("bgrts,bsgk->btgrk", w, v)

def scanned(q, k, v):
    def one(carry, row):
        w = jax.nn.softmax(k @ row FACTOR)
        return carry, w @ v
    return jax.lax.scan(one, 0, q)[1]
"""

LINEN = """
import flax.linen as nn
import jax.numpy as jnp

class Layer(nn.Module):
    heads: int
    features: int

    @nn.compact
    def __call__(self, x):
        shape = (self.heads, self.features // self.heads)
        q, k, v = (nn.DenseGeneral(shape)(x) for _ in range(3))
        w = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) FACTOR)
        return nn.DenseGeneral(self.features, axis=(-2, -1))(jnp.einsum("bhqk,bkhd->bqhd", w, v))
"""

CACHED = """
import numpy as np

class Rows:
    def __init__(self, width):
        self.k = self.v = np.zeros((0, width))

class Streamed:
    def __init__(self, width):
        self.w, self.width = np.random.default_rng(0).normal(size=(3, width, width)), width

    def new_past(self):
        return Rows(self.width)

    def __call__(self, x, past):
        q, k, v = x @ self.w
        past.k = k = np.concatenate([past.k, k])
        past.v = v = np.concatenate([past.v, v])
        s = q @ k.T / np.sqrt(self.width)
        s = np.where(np.tri(*s.shape, OFFSET, dtype=bool), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

class Served(Streamed):
    def __call__(self, x, past=None):
        return super().__call__(x, self.new_past() if past is None else past)
"""
NAMED = """
import numpy as np

class Shelf:
    def __init__(self):
        self.rows = None

    def keep(self, k, v):
        self.rows = (k, v) if self.rows is None else tuple(np.concatenate(x, -2) for x in zip(self.rows, (k, v)))
        return self.rows

def line(x, weights, prefix, name):
    return x @ weights[prefix + f"{name}.weight"].T

def mix(q, k, v):
    s = q @ k.swapaxes(-1, -2) FACTOR
    s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v

def shelved(x, weights, prefix, shelf):
    'x [n, width]: new tokens'
    def mine(name):
        return line(x, weights, prefix, name)

    return mix(mine("q"), *shelf.keep(mine("k"), mine("v")))

class Layers:
    def __init__(self, weights, config, layer):
        self.w, self.config, self.layer = weights, config, layer

    def _line(self, x, place, name):
        return x @ self.w[f"{place}.{name}.weight"].T

    def _attend(self, x, place, shelf):
        (T, _), c = x.shape, self.config
        q = self._line(x, place, "q_proj").reshape(T, c["n_heads"], -1).swapaxes(0, 1)
        k = self._line(x, place, "k_proj").reshape(T, c["n_kv_heads"], -1).swapaxes(0, 1)
        v = self._line(x, place, "v_proj").reshape(T, c["n_kv_heads"], -1).swapaxes(0, 1)
        several = c["n_heads"] // c["n_kv_heads"]
        y = mix(q, *(np.REPEATED for z in shelf.keep(k, v)))
        return y.swapaxes(0, 1).reshape(x.shape)

    def __call__(self, ids, shelf):
        base = "layers.%d.attn" % self.layer
        return self._attend(self.w["table"][ids], base, shelf)
"""

HANDED = """
import numpy as np

WIDTH = 14

def mix(q, k, v, seen):
    s = np.where(seen, q @ k.T / np.sqrt(WIDTH), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v

def attend(w, x, store, already):
    'x [n, WIDTH]; store {"k", "v"}: [MOST, WIDTH]'
    n = len(x)
    q, k, v = (x @ w[name] for name in "qkv")
    k = np.concatenate([store["k"][:already], k, store["k"][already + n :]])
    v = np.concatenate([store["v"][:already], v, store["v"][already + n :]])
    at = already + np.arange(n)
    return mix(q, k, v, np.arange(len(k)) <= at[:, None] SHIFT), {"k": k, "v": v}

def drawn(rng, depth=2):
    q, k, v = rng.normal(size=(3, WIDTH, WIDTH))
    return {"layers": [{"q": q, "k": k, "v": v} for _ in range(depth)]}

def new_stores(depth, most):
    return [{"k": np.zeros((most, WIDTH)), "v": np.zeros((most, WIDTH))} for _ in range(depth)]
"""

CONFIGURED = """
from dataclasses import dataclass
import numpy as np

def mix(q, k, v, factor):
    s = q @ k.swapaxes(-1, -2) * factor
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v

@dataclass
class Config:
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 6

def attend(w, x, cfg=Config()):
    '''w: {"q": [D, N, H], "kv": [2, D, K, H], "o": [N, H, D]};  x: [B, T, D]'''
    q = np.einsum("btd,dnh->bnth", x, w["q"])
    k, v = np.repeat(np.einsum("bsd,cdkh->cbksh", x, w["kv"]), cfg.num_heads // cfg.num_kv_heads, 2)
    return np.einsum("bnth,nhd->btd", mix(q, k, v, cfg.head_dim ** -0.5), w["o"])

class Plain:
    def __init__(self, dim=16):
        self.factor = dim ** -0.5

    def __call__(self, q, k, v):
        return mix(q, k, v, self.factor)

class Wide:
    def __init__(self, dim, heads):
        self.factor, self.heads = dim ** -0.5, heads

    def __call__(self, q, k, v):
        '''q, k, v: (B, T, dim)'''
        q, k, v = (x.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2) for x in (q, k, v))
        return mix(q, k, v, self.factor).swapaxes(1, 2)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for name, factor in (("right", "q.shape[-1] ** -0.5"), ("wrong", "q.shape[-1] ** -1.0")):
        (folder / f"{name}.py").write_text(NUMPY.replace("FACTOR", factor))
        (folder / f"jax_{name}.py").write_text(JAX.replace("FACTOR", "/ k.shape[-1] ** 0.5" if name == "right" else ""))
    return folder


NAMES = ("fields", "named", "unpacked", "pairs", "layered", "rows", "Matrices", "Drawn", "Told", "one_by_one",
         "spread", "stated", "segments", "maker", "Nested", "turned", "zipped",
         "drawing", "staxed", "counted")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_is_found_and_judged(session: Session, files: Path, name: str) -> None:
    right = examine(session, f"{files / 'right.py'}:{name}")
    wrong = examine(session, f"{files / 'wrong.py'}:{name}")
    assert not [f.id for f in right.findings if f.kind in ("mistake", "unknown")], right.findings
    assert [f.id for f in wrong.findings if f.kind == "mistake"] == ["scale_d"], wrong.convention


def test_of_what_is_made_the_part_is_given_that_is_asked_for(session: Session, files: Path) -> None:
    report = examine(session, f"{files / 'right.py'}:part")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], report.findings
    assert "p: by begun" in report.convention["called with"]


def test_a_process_that_dies_of_one_call_makes_others(session: Session, files: Path) -> None:
    session.ask({"op": "load", "target": f"{files / 'right.py'}:Dying"})
    made, _ = session.ask({"op": "build", "kwargs": {"end": {"value": 4}}, "seed": 1})
    call = {"args": [{"value": 4}], "kwargs": {}, "backend": "numpy", "method": "__call__"}
    request = {"op": "call", "handle": made["handle"], "calls": [call]}
    for _ in range(2):
        assert session.ask(request)[0]["error"]["type"] == "DiedError"
        alive, _ = session.ask({**request, "calls": [{**call, "args": [{"value": 3}]}]})
        assert "error" not in alive["replies"][0]
    # What dies again and again does so by itself.
    with pytest.raises(EndedError, match="SIGABRT"):
        session.ask(request)


@pytest.mark.parametrize("name", ["Streamed", "Served"])
@pytest.mark.parametrize("offset", ["k.shape[-2] - q.shape[-2]", "0"])
def test_caches_are_what_a_method_of_its_own_makes(session: Session, tmp_path: Path, name: str, offset: str) -> None:
    (tmp_path / f"cached_{offset[0]}.py").write_text(CACHED.replace("OFFSET", offset))
    report = examine(session, f"{tmp_path}/cached_{offset[0]}.py:{name}")
    mistakes = [f.id for f in report.findings if f.kind in ("mistake", "unknown")]
    assert mistakes == ([] if offset != "0" else ["causal_top_left"]), report.convention
    assert any(entry.step == "cache" for entry in report.ledger) or mistakes


@pytest.mark.parametrize(
    ("name", "factor", "repeated", "found"),
    [
        ("shelved", "/ q.shape[-1] ** 0.5", "abs(z)", []),
        ("shelved", "/ q.shape[-1]", "abs(z)", ["scale_d"]),
        ("Layers", "/ q.shape[-1] ** 0.5", "repeat(z, several, 0)", []),
        ("Layers", "/ q.shape[-1] ** 0.5", "concatenate([z] * several)", ["gqa_tile"]),
    ],
)
def test_weights_by_names_that_are_put_together(
    session: Session, tmp_path: Path, name: str, factor: str, repeated: str, found: list[str]
) -> None:
    (tmp_path / "shelf.py").write_text(NAMED.replace("FACTOR", factor).replace("REPEATED", repeated))
    report = examine(session, f"{tmp_path / 'shelf.py'}:{name}")
    told = [f.id for f in report.findings if f.kind in ("mistake", "unknown") or f.id == "gqa_tile"]
    assert told == found, str(report)
    assert "shelf: by Shelf" in report.convention["called with"]


@pytest.mark.parametrize(("shift", "found"), [("", []), ("- already", ["causal_top_left"])])
def test_a_store_comes_back_with_what_was_added(session: Session, tmp_path: Path, shift: str, found: list[str]) -> None:
    (tmp_path / "handed.py").write_text(HANDED.replace("SHIFT", shift))
    report = examine(session, f"{tmp_path / 'handed.py'}:attend")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)
    assert "store: by new_stores, already: 0" in report.convention["called with"]
    assert any(entry.step == "cache" for entry in report.ledger) or found


def test_widths_are_those_of_the_configuration(session: Session, tmp_path: Path) -> None:
    (tmp_path / "configured.py").write_text(CONFIGURED)
    for name in ("attend", "Plain"):
        report = examine(session, f"{tmp_path}/configured.py:{name}")
        assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], report.findings
    wrong = examine(session, f"{tmp_path}/configured.py:Wide")
    assert [f.id for f in wrong.findings if f.kind == "mistake"] == ["scale_dmodel"]


def test_what_is_made_far_too_wide_is_no_part_and_no_fault(session: Session, files: Path) -> None:
    # As a part of attention, three numbers are given all widths in turn.
    report = examine(session, f"{files / 'right.py'}:Wide")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], report.findings
    assert "x" in report.convention["called with"]


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_jax_is_given_what_its_module_draws(session: Session, files: Path) -> None:
    right = examine(session, f"{files / 'jax_right.py'}:grouped")
    assert "by draw" in right.convention["called with"]
    assert not [f.id for f in right.findings if f.kind in ("mistake", "unknown")], right.findings
    wrong = examine(session, f"{files / 'jax_wrong.py'}:grouped")
    assert [f.id for f in wrong.findings if f.kind == "mistake"] == ["scale_missing"]


@pytest.mark.skipif(find_spec("flax") is None, reason="Flax is not installed")
@pytest.mark.parametrize(("name", "found"), [("right", []), ("wrong", ["scale_missing"])])
def test_modules_of_flax_are_given_weights(session: Session, tmp_path: Path, name: str, found: list[str]) -> None:
    factor = "" if found else "/ q.shape[-1] ** 0.5"
    (tmp_path / f"linen_{name}.py").write_text(LINEN.replace("FACTOR", factor))
    report = examine(session, f"{tmp_path}/linen_{name}.py:Layer")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, report.convention


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_rounds_of_a_scan_are_recorded(session: Session, files: Path) -> None:
    report = examine(session, f"{files / 'jax_right.py'}:scanned")
    assert not [f.id for f in report.findings if f.kind in ("mistake", "unknown")], report.findings


def test_what_code_asks_of_its_arguments_is_read() -> None:
    source = """
def f(layers, p, ids):
    x = p["table"][ids]
    for layer in layers:
        w, b = layer["line"]
        x = x @ w + b
    return x
"""
    found = read(source, ["layers", "p", "ids"])
    assert found.of(("layers",)) == "1 of them"
    assert found.of(("layers", "0")) == "dictionary"
    assert found.of(("layers", "0", "line")) == "2 of them"
    assert found.weights == {("layers", "0", "line", "0")}
    assert found.called["layers", "0", "line", "1"] == "b"
    assert found.tables == {("p", "table")}
    assert found.indices == {("ids",)}


def test_texts_and_the_ends_of_slices_are_read() -> None:
    source = """
def f(sd, name, x, table, ends, sizes, place):
    x = x + place
    y = F.linear(x, sd[name + ".weight"], sd[f"{name}.{0}.bias"])
    for b, n in enumerate(sizes):
        y[b, :n] = 0
    return [y[start:stop] for start, stop in zip(ends[:-1], ends[1:])]
"""
    found = read(source, ["sd", "name", "x", "table", "ends", "sizes", "place"])
    assert {path[-1] for path in found.held} == {"name.weight", "name.0.bias"}
    assert found.linear == {("sd", "name.weight")}
    assert (found.texts, found.bounds, found.lengths) == ({("name",): "name"}, {("ends",)}, {("sizes",)})
    assert found.added == {"place": "x"}
    source = """
class A:
    def __init__(self, w):
        self.w = w

    def one(self, x, name):
        place = "layer.%d.%s" % (self.number, name)
        return x @ self.w[place + ".weight"].T

    def two(self, x):
        return self.one(x, "a") + self.one(x, "b")
"""
    found = read(source, ["w"])
    names = {("w", f"layer.0.{one}.weight") for one in "ab"}
    assert ({*found.held}, found.linear, found.behind) == (names, names, names)
    assert read("def f(x, cache):\n    return cache.keep(x), x.sum()", ["x", "cache"]).methods == {("cache",): {"keep"}}
    source = """
def f(x, until, index, widest):
    y = x[:, : int(widest.max())]
    return np.where(np.arange(9)[None] < until[:, None], y, np.arange(9) <= index)
"""
    assert read(source, ["x", "until", "index", "widest"]).lengths == {("until",), ("widest",)}


SIZES = '''
class Settings:
    """A configuration as models have it: sizes of a large one, and choices."""

    def __init__(self, hidden_size=4096, num_attention_heads=32, kernel="plain", dropout=None, groups=1):
        self.hidden_size, self.num_attention_heads, self.groups = hidden_size, num_attention_heads, groups
        self.kernel, self.dropout = kernel, dropout
'''
ANNOTATED = """
import torch
from torch import nn
from settings import Settings

KERNELS = {"plain": lambda q, k, v, scale: (q @ k.mT * scale).softmax(-1) @ v}

class Attention(nn.Module):
    def __init__(self, config: Settings | None = None, layer: int = 0):
        super().__init__()
        self.config, self.heads = config, config.num_attention_heads
        self.width = config.hidden_size // self.heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)
        assert config.groups == 1 and config.dropout is None

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = KERNELS[self.config.kernel](q, k, v, SCALE)
        return self.out(y.transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(
    ("scale", "found"), [("self.width ** -0.5", set()), ("self.config.hidden_size ** -0.5", {"scale_dmodel"})]
)
def test_a_configuration_is_of_the_class_that_is_annotated(tmp_path: Path, scale: str, found: set[str]) -> None:
    if find_spec("torch") is None:
        return
    (tmp_path / "settings.py").write_text(SIZES)
    (tmp_path / "model.py").write_text(ANNOTATED.replace("SCALE", scale))
    with Session() as session:
        report = examine(session, f"{tmp_path / 'model.py'}:Attention")
    assert {f.id for f in report.findings if f.kind == "mistake"} == found
