"""What stands in libraries: packages, helpers that others prepare arrays for, losses, pooling, masks left unread."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.loading import load
from overt.check.process.session import Session
from overt.check.report import CallError
from overt.check.text.syntax import used

SOURCE = '''
import torch
from torch import nn

def mixes(q, k, v, mask=None):
    """mask: True = may attend"""
    s = torch.einsum("b i d, b j d -> b i j", q, k)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.finfo(s.dtype).max)
    return torch.einsum("b i j, b j d -> b i d", s.softmax(-1), v)

class Scales(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.factor = nn.Linear(width, 3 * width), width ** -0.5

    def forward(self, x):
        q, k, v = self.inner(x).chunk(3, -1)
        return mixes(q * self.factor, k, v)

def asked_to_scale(q, k, v, scaling=False):
    s = q @ k.mT
    if scaling:
        s = s / q.shape[-1] ** 0.5
    return s.softmax(-1) @ v

def below(q, k, v, top=10):
    """Of cosines, which are never above 1."""
    s = q @ k.mT / q.shape[-1] ** 0.5
    p = torch.exp(s - top)
    return p @ v / p.sum(-1, keepdim=True)

def below_the_largest(q, k, v):
    s = q @ k.mT / q.shape[-1] ** 0.5
    p = torch.exp(s - s.max())
    return p @ v / p.sum(-1, keepdim=True)

def wants(q, k, v):
    import what_nobody_has_installed
    return what_nobody_has_installed.attention(q, k, v)

def after_weights(q, k, v, delta=None):
    p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    if delta is not None:
        p = p + delta
    return p @ v

def mixes_bare(q, k, v):
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v

class NeverScales(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, 3 * width)

    def forward(self, x):
        return mixes_bare(*self.inner(x).chunk(3, -1))

def columns(q, k, v):
    return (torch.matmul(q, k) / q.shape[-1] ** 0.5).softmax(-1) @ v

def beside_bias(q, k, v, mask=None, previous=None):
    """mask: booleans, True = may attend"""
    s = q @ k.mT / q.shape[-1] ** 0.5
    if previous is not None:
        s = s + previous
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    return s.softmax(-1) @ v

def gated(q, k, v, attention_weights=None):
    s = q @ k.mT / q.shape[-1] ** 0.5
    if attention_weights is not None:
        s = s * attention_weights
    return s.softmax(-1) @ v

class PooledByLogits(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = nn.Linear(width, 1)

    def forward(self, x, att_mask=None):
        s = self.w(x).squeeze(-1)
        if att_mask is not None:
            s = att_mask + s
        return (x * s.softmax(-1).unsqueeze(-1)).sum(1)

def elsewhere(q, k, v, mask=None, block_mask=None):
    """mask: True = may attend"""
    # kernels take q, k, v, mask, causal, scale
    if block_mask is not None and q.is_cuda:
        return torch.nn.attention.flex_attention.flex_attention(q, k, v, block_mask=block_mask)
    s = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    return s.softmax(-1) @ v

def _inner(q, k, v, mask):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

def nowhere(q, k, v, mask=None):
    if mask is not None:
        assert mask.ndim > 1
    return _inner(q, k, v, mask)

def distilled(student, teacher):
    """Cross-entropy of similarities with those of the teacher; student, teacher: [N, C]."""
    one, two = student @ student.mT, teacher @ teacher.mT
    return -(two.softmax(-1) * one.log_softmax(-1)).sum(-1).mean()

class Clusters(nn.Module):
    def __init__(self, width, clusters=4):
        super().__init__()
        self.assign = nn.Linear(width, clusters)

    def forward(self, x, mask=None):
        """x: [B, N, F]; mask: [B, N], True = a node"""
        s = self.assign(x).softmax(-1)
        if mask is not None:
            s = s * mask.unsqueeze(-1)
        return s.mT @ x

class OneHead(nn.Module):
    def __init__(self, width, n_heads=1):
        super().__init__()
        self.n_heads, self.inner, self.outer = n_heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        # query, key and value (concatenated) of shape [batch, seq, n_heads, 3 * d_k]
        q, k, v = self.inner(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2).chunk(3, -1)
        y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.outer(y.transpose(1, 2).flatten(2))

class Told(nn.Module):
    """Attention.  If True, it uses a bias for linear projections.

    Parameters
    ----------
    x : torch.Tensor
        Shape (batch_size, N, width).
    attn_mask : torch.Tensor, optional
        The mask of positions, where invalid positions are indicated by `True` values.
        Shape: (batch_size, N, N).
    """
    bad = False

    def __init__(self, width, bias=True):
        super().__init__()
        self.inner = nn.Linear(width, 3 * width, bias=bias)

    def forward(self, x, attn_mask=None):
        q, k, v = self.inner(x).chunk(3, -1)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if attn_mask is not None:
            s = s.masked_fill(~attn_mask if self.bad else attn_mask, float("-inf"))
        return s.softmax(-1) @ v

class ToldAndInverted(Told):
    __doc__ = Told.__doc__
    bad = True

class TimeFirst(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def split(self, x):
        """x: B X T X C"""
        return x

    def forward(self, query, key, value):
        """query, key, value: T X B X C"""
        q, k, v = self.q(query).transpose(0, 1), self.k(key).transpose(0, 1), self.v(value).transpose(0, 1)
        return ((self.split(q) @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(0, 1)

class Windows(nn.Module):
    """Attention in windows of four; positions that fill up the last are hidden."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, n, w = x.shape
        x = nn.functional.pad(x, (0, 0, 0, -n % 4))
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2).unflatten(2, (-1, 4)).flatten(0, 1)
                   for y in self.inner(x).chunk(3, -1))
        places = torch.where(torch.arange(x.shape[1]) < n, torch.arange(x.shape[1]), -1).view(1, -1, 1, 4)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(places == -1, float("-inf"))
        y = (s.softmax(-1) @ v).flatten(1, 2).unflatten(0, (b, self.heads)).transpose(1, 2).flatten(2)
        return self.outer(y)[:, :n]

class Apart(nn.Module):
    """A block, whose attention is a method of its own."""
    def __init__(self, width, heads):
        super().__init__()
        self.attn, self.norm = nn.MultiheadAttention(width, heads, batch_first=True), nn.LayerNorm(width)

    def attention(self, x):
        return self.attn(x, x, x, need_weights=False)[0]

    def forward(self, x):
        return x + self.attention(self.norm(x))


class Placed(nn.Module):
    """x (B, T, D); a gate of each head between what is found and where it stands (d'Ascoli et al. 2021)"""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)
        self.gate, self.places = nn.Parameter(torch.ones(heads, 1, 1)), nn.Parameter(torch.randn(heads, 64, 64))

    def placed(self, b):
        return torch.softmax(b, -1)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        a = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
        b, g = self.placed(self.places[:, : x.shape[1], : x.shape[1]]), torch.sigmoid(self.gate)
        return (((1 - g) * a + g * b) @ v).transpose(1, 2).flatten(2)

class PlacedBare(Placed):
    def placed(self, b):
        return b
'''
EXPECTED: dict[str, set[str]] = {
    "mixes": set(),
    "asked_to_scale": set(),
    "below": set(),
    "below_the_largest": {"global_max"},
    "after_weights": set(),
    "mixes_bare": {"scale_missing"},
    "columns": set(),
    "beside_bias": set(),
    "gated": set(),
    "PooledByLogits": set(),
    "elsewhere": set(),
    "nowhere": {"not_inplace"},
    "Clusters": set(),
    "OneHead": set(),
    "Told": set(),
    "ToldAndInverted": {"mask_inverted"},
    "TimeFirst": set(),
    "Windows": set(),
    "Apart": set(),
    "Placed": set(),
    "PlacedBare": {"unknown"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_libraries_hold_is_no_mistake_for_that(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == EXPECTED[name], str(report)


def test_what_nothing_reads_is_told_where_it_is_asked_for(session: Session, file: Path) -> None:
    (finding,) = (f for f in examine(session, f"{file}:nowhere").findings if f.id == "not_inplace")
    assert finding.where is not None
    assert finding.where["text"] == "def nowhere(q, k, v, mask=None):"
    assert "without the argument" in finding.mend


def test_a_loss_is_no_attention(session: Session, file: Path) -> None:
    with pytest.raises(CallError, match=r"no attention was found|not sure enough"):
        examine(session, f"{file}:distilled")


INNER = """
from . import parts
from .parts import scaled

class Attention:
    def __call__(self, q, k, v):
        return parts.softmax(scaled(q, k)) @ v
"""
PARTS = """
import numpy as np

def scaled(q, k):
    return q @ np.swapaxes(k, -2, -1) / np.sqrt(q.shape[-1])

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""


def package(folder: Path, init: str = "") -> Path:
    """A package with a module of its own name, which imports by its place; the file of that module."""
    inner = folder / "attending" / "inner"
    inner.mkdir(parents=True)
    (folder / "attending" / "__init__.py").write_text(init)
    (inner / "__init__.py").write_text("")
    (inner / "parts.py").write_text(PARTS)
    (inner / "attending.py").write_text(INNER)
    return inner / "attending.py"


@pytest.mark.parametrize("init", ["", "import what_nobody_has_installed"])
def test_a_file_is_the_module_that_it_is_of_its_package(tmp_path: Path, session: Session, init: str) -> None:
    # Whatever else the package wants.
    assert examine(session, f"{package(tmp_path, init)}:Attention").ok


def test_what_the_package_did_not_come_to_is_not_missing(tmp_path: Path) -> None:
    file = package(tmp_path, "import what_nobody_has_installed\nROOT = 0.5").with_name("other.py")
    file.write_text("import attending\n" + INNER.replace("scaled(q, k)", "scaled(q, k) * attending.ROOT"))
    with Session() as own, pytest.raises(CallError, match="has no attribute 'ROOT'"):
        examine(own, f"{file}:Attention")


def test_packages_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    one, two = package(tmp_path / "one"), package(tmp_path / "two")
    (two.parent / "parts.py").write_text(PARTS.replace("np.sqrt(q.shape[-1])", "1"))
    (first, _), (second, _) = load(f"{one}:parts"), load(f"{two}:parts")
    assert (first.__file__, second.__file__) == (str(one.parent / "parts.py"), str(two.parent / "parts.py"))
    assert load(f"{one}:parts")[0] is first
    assert load(f"{one.parent / '__init__.py'}:parts")[0] is first


def test_an_error_of_the_file_itself_is_told(tmp_path: Path) -> None:
    file = package(tmp_path)
    file.write_text("from .parts import what_it_has_not\n")
    with pytest.raises(ImportError, match="what_it_has_not"):
        load(f"{file}:Attention")


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("return q", False),
        ("if mask is not None:\n        q = q + 1\n    return q", False),
        ("assert mask.ndim == 2\n    return q", False),
        ("return inner(q, mask)", False),
        ("return inner(mask=q, q=mask)", True),
        ("if q is None:\n        return mask\n    return q", True),
        ("return somewhere(q, mask)", True),
        ("return self.inner(q, mask=mask)", False),
    ],
)
def test_what_is_handed_to_nobody_is_not_used(body: str, read: bool) -> None:
    source = f"def outer(q, mask=None):\n    {body}\n\ndef inner(q, mask):\n    return q if mask is None else q\n"
    assert used(source, "mask") is read


def test_what_is_drawn_is_no_dropout(tmp_path: Path, session: Session) -> None:
    file = tmp_path / "drawn.py"
    file.write_text(
        "import torch\n\ndef attend(q, k, v):\n    some = torch.randperm(k.shape[-2])[:-1]\n"
        "    s = q @ k[..., some, :].mT\n"
        "    return torch.softmax(s * q.shape[-1] ** -0.5, -1) @ v[..., some, :]\n"
    )
    report = examine(session, f"{file}:attend")
    assert not {f.id for f in report.findings if f.kind in ("mistake", "unknown")}, str(report)
