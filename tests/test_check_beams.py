"""Samples that change places between the steps of a decoder take their keys and their values with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

pytest.importorskip("torch")

KINDS = {
    # What is filled, and moved in its place.
    "Filled": '''
class Filled(nn.Module):
    """Causal; what is kept holds the keys and values of the tokens before."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, kept=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if kept is not None:
            if "k" in kept:
                k, v = torch.cat([kept["k"], k], 2), torch.cat([kept["v"], v], 2)
            kept["k"], kept["v"] = k, v
        ahead = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool).triu(k.shape[2] - x.shape[1] + 1)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(ahead, -torch.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def follow(self, kept, parents):
        for name in NAMES:
            kept[name] = kept[name][parents]
''',
    # What is returned and handed back; moving it returns what takes its place.
    "Handed": '''
class Handed(nn.Module):
    """Causal; past: keys and values of the tokens before."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, past=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        ahead = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool).triu(k.shape[2] - x.shape[1] + 1)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(ahead, -torch.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2), (k, v)

    def follow(self, past, parents):
        return tuple(y.index_select(0, parents) if name in NAMES else y for name, y in zip("kv", past))
''',
    # What the module keeps itself, a token at a time.
    "Step": '''
class Step(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.k, self.v = heads, nn.Linear(dim, 3 * dim), None, None

    def forward(self, x):
        """x (rows, 1, dim): one token"""
        q, k, v = (y.view(len(x), 1, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.k is not None:
            k, v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        self.k, self.v = k, v
        return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def follow(self, parents):
        for name in NAMES:
            setattr(self, name, getattr(self, name)[parents])
''',
    # What is trained on whole sequences by one method, and asked a token at a time by another.
    "Trained": '''
class Trained(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.k, self.v = heads, nn.Linear(dim, 3 * dim), None, None

    def step(self, x):
        """x (rows, dim): the newest token of each"""
        q, k, v = (y.view(len(x), self.heads, 1, -1) for y in self.qkv(x).chunk(3, -1))
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return ((q @ self.k.mT / q.shape[-1] ** 0.5).softmax(-1) @ self.v).flatten(1)

    def follow(self, parents):
        for name in NAMES:
            setattr(self, name, getattr(self, name)[parents])

    def forward(self, x):
        """x (B, T, dim), causal"""
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(ahead, -torch.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)
''',
}
# What an argument moves.
GOES_ON = '''
import torch
from torch import nn

class GoesOn(nn.Module):
    """x (rows, 1, dim); kept: a dictionary, empty at first; parents (rows,): whose keys each goes on with"""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, kept, parents=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if kept:
            for name in NAMES if parents is not None else ():
                kept[name] = kept[name].index_select(0, parents)
            k, v = torch.cat((kept["k"], k), 2), torch.cat((kept["v"], v), 2)
        kept["k"], kept["v"] = k, v
        return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
'''


@pytest.mark.parametrize(("names", "moved"), [("kv", None), ("k", "kept.k"), ("v", "kept.v")])
def test_an_argument_moves_both(session: Session, tmp_path: Path, names: str, moved: str | None) -> None:
    file = tmp_path / f"goes_on_{names}.py"
    file.write_text(GOES_ON.replace("NAMES", repr(names)))
    report = examine(session, f"{file}:GoesOn")
    wrong = [f.message for f in report.findings if f.kind in ("mistake", "unknown")]
    if moved is None:
        assert not wrong, str(report)
        assert any(e.step == "samples that change places" and e.outcome == "held" for e in report.ledger)
    else:
        assert wrong == [f"parents moves {moved} to other samples, and leaves what else was kept."]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", ["kv", "k", "v"])
def test_keys_and_values_move_together(session: Session, tmp_path: Path, kind: str, names: str) -> None:
    file = tmp_path / f"beams_{kind.lower()}_{names}.py"
    file.write_text(f"import torch\nfrom torch import nn\n\nNAMES = {names!r}\n{KINDS[kind]}")
    report = examine(session, f"{file}:{kind}")
    wrong = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    if names == "kv":
        assert not wrong, str(report)
        held = {e.step for e in report.ledger if e.outcome == "held"}
        assert held & {"samples that change places", "method step"}
    else:
        (found,) = wrong
        assert found.message.startswith("follow moves the " + {"k": "keys", "v": "values"}[names])
        assert found.where is not None
        assert "parents" in found.where["text"]
