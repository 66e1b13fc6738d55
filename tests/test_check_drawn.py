"""What stands beside ordinary attention in libraries: earlier rows of NaN, embeddings of pairs, gates over layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError
from swapped import Check, right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import math
import torch
from torch import nn

class Layer(nn.Module):
    """A decoder layer."""
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.itself = nn.MultiheadAttention(d_model, num_heads, dropout=dropout)
        self.cross = nn.MultiheadAttention(d_model, num_heads, dropout=dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None):
        x = tgt + self.itself(tgt, tgt, tgt, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask)[0]
        x = self.norm(x)
        return x + self.cross(x, memory, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask)[0]

class Boxes(nn.Module):
    """Attention to words, and to where their boxes lie."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, places):
        """x: (B, T, D); places: (T, T, B, D/H), embeddings of the distances of two boxes."""
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2)
        s = s + torch.einsum("bnid,bijd->bnij", q, places.permute(2, 0, 1, 3))
        p = (s / math.sqrt(d // self.heads)).softmax(-1)
        return (p @ v).transpose(1, 2).reshape(b, t, d)

class Columns(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        """qkv: an [N x (3 * H * C) x T] tensor of Qs, Ks, and Vs; gives [N x (H * C) x T]."""
        n, width, t = qkv.shape
        c = width // (3 * self.n_heads)
        q, k, v = (x.reshape(n * self.n_heads, c, t) for x in qkv.chunk(3, dim=1))
        p = torch.softmax(torch.einsum("bct,bcs->bts", q, k) / math.sqrt(c), dim=-1)
        return torch.einsum("bts,bcs->bct", p, v).reshape(n, -1, t)

class Layers(nn.Module):
    """Of the states of all layers (L, B, T, D), each position takes what it needs."""
    def __init__(self, dim, layers):
        super().__init__()
        self.layers, self.weigh = layers, nn.Linear(dim, layers)

    def forward(self, x, hiddens):
        assert len(hiddens) == self.layers
        return torch.einsum("lbtd,btl->btd", hiddens, self.weigh(x).softmax(-1))

def dense(q, k, v, attn_mask=None):
    """Attention.

    attn_mask: (T, S)
        NOTE: currently it has NO effect.
    """
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

class NonCausalAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.map(x).chunk(3, dim=-1)
        # causal self-attention
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=False)

class Permuted(nn.Module):
    """A generalized autoregressive layer, which learns contexts that are bidirectional."""
    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.map(x).chunk(3, dim=-1)
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

class Configured:
    width, direction = 12, "causal"

class Chosen(nn.Module):
    """Causal self-attention."""
    def __init__(self, cfg: Configured):
        super().__init__()
        self.map = nn.Linear(cfg.width, 3 * cfg.width)
        self.causal = cfg.direction == "causal"

    def forward(self, x, mask=None):
        """mask: padding (B, T) (1=keep, 0=mask), or boolean (B, 1, T, T) (True=mask)."""
        q, k, v = self.map(x).chunk(3, dim=-1)
        t = x.shape[1]
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1) if self.causal else torch.zeros(t, t, dtype=torch.bool)
        if mask is not None:
            hidden = hidden | (mask[:, 0] if mask.ndim == 4 else ~mask.bool()[:, None])
        s = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        return torch.nan_to_num(s.softmax(-1)) @ v

class OfColumns(nn.Module):
    """Each pixel of an image looks at those of its column."""
    def __init__(self, channels, inner):
        super().__init__()
        self.q, self.k = nn.Conv2d(channels, inner, 1), nn.Conv2d(channels, inner, 1)
        self.v = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (f(x).permute(0, 3, 2, 1).reshape(b * w, h, -1) for f in (self.q, self.k, self.v))
        p = torch.bmm(q, k.transpose(1, 2)).softmax(-1)
        return torch.bmm(p, v).view(b, w, h, c).permute(0, 3, 2, 1) + x

class Headed(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, attention_mask=None, head_mask=None):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        if attention_mask is not None:
            s = s + attention_mask
        p = s.softmax(-1)
        if head_mask is not None:
            p = p * head_mask
        return (p @ v).transpose(1, 2).reshape(b, t, d)

def given(q, k, v):
    """Attention of q, k, v (B, T, D).  q is a scaled q by sqrt(D)."""
    return torch.softmax(q @ k.mT, dim=-1) @ v

class Sampler(nn.Module):
    """Points (N, D) weighed by how near they are to a model of some drawn at random."""
    def forward(self, points):
        drawn = points[torch.randperm(len(points))[:3]].mean(0)
        w = (points @ drawn).softmax(0)
        return w @ points
'''

BOTH = [
    ("Layer", "memory, memory, attn_mask=memory_mask", "memory, memory", "not_inplace"),
    ("Boxes", "heads)).softmax(-1)", "heads)).softmax(-2)", "softmax_axis_q"),
    ("Columns", " / math.sqrt(c)", "", "scale_missing"),
    ("Permuted", ", which learns contexts that are bidirectional", "", "causal_missing"),
    ("OfColumns", "q, k.transpose(1, 2)).softmax(-1)", "q, k.transpose(1, 2)).softmax(1)", "softmax_axis_q"),
    ("Headed", "s = s + attention_mask", "s = s * attention_mask", "mask_times_scores"),
    ("dense", "NOTE: currently it has NO effect", "True hides a key", "not_inplace"),
]


def test_a_gate_over_layers_is_no_attention(check: Check) -> None:
    with pytest.raises(CallError, match=r"no attention was found|no step of it could be judged"):
        check("Layers", SOURCE)


def test_what_is_drawn_is_no_dropout(check: Check) -> None:
    assert "dropout_eval" not in {finding.id for finding in check("Sampler", SOURCE).findings}


test_right, test_wrong = right_and_wrong(SOURCE, BOTH, right=["NonCausalAttention", "Chosen", "given"])


def test_a_guess_that_hangs_is_not_the_candidates_fault(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(
        "import time\nfrom torch import nn\n\n"
        "class Slow(nn.Module):\n    made = 0\n\n"
        "    def __init__(self, n_feat, kernel_size):\n"
        "        super().__init__()\n        Slow.made += 1\n        self.number = Slow.made\n\n"
        "    def forward(self, x):\n"
        "        if self.number == 1:\n            raise RuntimeError('not of this size')\n"
        "        time.sleep(60)\n"
    )
    with Session(timeout=1) as session, pytest.raises(CallError, match=r"not understood in time|no call"):
        examine(session, f"{file}:Slow")
