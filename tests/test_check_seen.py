"""What is hidden, what a window counts, and what is added, of calls that could be read another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.calls.call import LADDER, Guess
from overt.check.calls.mending import mended
from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.text.counting import counted

SOURCE = '''
import math
import numpy as np
import torch
from torch import nn

def steps(heads):
    ratio = 2.0 ** (-8.0 / heads)
    return torch.tensor([ratio ** h for h in range(heads)]).double()  # slopes

class Tilted(nn.Module):
    """Linear biases (ALiBi), for a number of heads that is a power of two."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("slopes", steps(heads))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        at = torch.arange(x.shape[1])
        bias = -self.slopes[:, None, None] * (at[None] - at[:, None]).abs()
        return ((q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)

class Cast(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, given_mask=None):
        """given_mask: additive, 0 where visible and -inf where not, or None"""
        q, k, v = self.qkv(x).chunk(3, -1)
        if given_mask is not None:
            # the kernel takes boolean masks
            given_mask = given_mask.to(torch.bool)  # booleans
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given_mask)

def low(seen):
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)

class Told(Cast):
    def forward(self, x, given_mask=None):
        """given_mask: what `low` returns, or None"""
        return super().forward(x, given_mask)

class Added(nn.Module):
    """Additive attention of each token of x to those of y: v . tanh(W x_i + U y_j)"""

    def __init__(self, width):
        super().__init__()
        self.w, self.u, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x, y):
        """x, y [B, T, width] -> [B, T, width]"""
        h = torch.tanh(self.w(x) + self.u(y))  # added
        p = self.v(h).mT.softmax(-1).expand(-1, x.shape[1], -1)
        return p @ y

class Pooled(Added):
    """One vector of the whole sequence, for each of its tokens."""

    def forward(self, x):
        """x [B, T, width] -> [B, T, width]"""
        p = self.v(torch.tanh(self.w(x) + self.u(x))).mT.softmax(-1).expand(-1, x.shape[1], -1)
        return p @ x

class Near(nn.Module):
    """Points attend to the nearest ones of their sample."""

    def __init__(self, width, apart=False):
        super().__init__()
        self.apart, self.q, self.k, self.v = apart, *(nn.Linear(width, width) for _ in range(3))

    def forward(self, x, at):
        """x [B, T, width], at [B, T, 3] -> [B, T, width]"""
        near = torch.cdist(at, at).topk(3, largest=False).indices
        if self.apart:
            near = near + x.shape[1] * torch.arange(len(x))[:, None, None]
        k, v = (f(x).flatten(0, 1)[near] for f in (self.k, self.v))
        p = (self.q(x)[:, :, None] * k).sum(-1).div(math.sqrt(x.shape[-1])).softmax(-1)
        return (p[..., None] * v).sum(2)

class Apart(Near):
    def __init__(self, width):
        super().__init__(width, True)

def masked(x, w, mask):
    """x [B, T, D], w [D, 3 * D]; mask of booleans, True = may be read"""
    B, T, D = x.shape
    q, k, v = (y.reshape(B, T, 4, D // 4).swapaxes(1, 2) for y in np.split(x @ w, 3, axis=-1))
    s = np.where(mask[:, None], q @ k.swapaxes(-1, -2) / math.sqrt(D // 4), -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    return (s / s.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(B, T, D)
'''


def test_a_mask_that_does_not_fit_has_samples_before_it_has_no_keys() -> None:
    guess = Guess(((("x",), "BTW"), (("mask",), "mask (T, S)")), LADDER[1])
    message = "operands could not be broadcast together with shapes (5,1,5) (2,4,5,5)"
    error = {"type": "ValueError", "message": message, "arguments": ["mask"]}
    kinds = [dict(other.kinds)["mask",] for other in mended(guess, error, lambda path: True)]
    assert kinds[0] == "mask (B, T, S)"
    assert "mask (T)" not in kinds


@pytest.mark.parametrize("hidden", ["1, 3", "3, 4"])
def test_queries_that_see_nothing_do_not_hide_the_largest_scores(session: Session, file: Path, hidden: str) -> None:
    drawn = "np.random.default_rng(0).normal"
    call = f"({drawn}(size=(2, 5, 12)), {drawn}(size=(12, 36)) / 4, ~np.isin(np.arange(5), [{hidden}]))"
    assert examine(session, f"{file}:masked", example=("masked", call)).ok


def test_slopes_that_are_kept_are_wrong_where_they_are_made(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:Tilted")
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["alibi_slopes"], report
    assert (report.findings[0].where or {})["text"].endswith("# slopes")


@pytest.mark.parametrize("name", ["Cast", "Told"])
def test_a_mask_that_is_said_to_be_added_is_given_so(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["mask_float_as_bool"], report
    assert (report.findings[0].where or {})["text"].endswith("# booleans")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("window=1 reads only itself, window=60 itself and the 59 bars before", (True, False)),
        ("of 8, a token sees itself and 8 keys", (False, True)),
        ("a window of 0 is just itself", (False, True)),
        ("the current bar counted in", (True, False)),
        ("hours that take part, the current hour among them", (True, False)),
        ("width=1 means: only the hour itself", (True, False)),
        ("at most so many positions away on either side, itself included", (True, True)),
        ("itself is not counted in", (False, True)),
        ("w keys before the query", (False, False)),
    ],
)
def test_a_text_says_what_a_window_counts(text: str, expected: tuple[bool, bool]) -> None:
    assert counted(text) == expected


def test_the_weights_of_one_query_for_all_are_seen_to_be_so(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:Added")
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["additive_no_pairwise"], report
    assert (report.findings[0].where or {})["text"].endswith("# added")
    assert examine(session, f"{file}:Pooled").ok


def test_samples_that_read_the_first_one_are_wrong(session: Session, file: Path) -> None:
    assert [f.id for f in examine(session, f"{file}:Near").findings if f.kind == "unknown"] == ["unknown"]
    assert examine(session, f"{file}:Apart").ok
