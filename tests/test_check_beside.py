"""What stands beside a call: arguments that may be left out, what the file passes, blocks, heads that are summed."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

SOURCE = '''
import dataclasses
import math
import numpy as np
import torch
from torch import nn

def ahead(n):
    return torch.ones(n, n).triu(1).bool()

def behind(n):
    return torch.ones(n, n).tril().bool()

def low(n):
    return torch.full((n, n), float("-inf")).triu(1)

class Base(nn.Module):
    def __init__(self, width, heads, drop=0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def split(self, x):
        return self.inner(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def join(self, s, v):
        return self.outer((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

@dataclasses.dataclass
class Numbers:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 12
    query_pre_attn_scalar: int = 16

class Scaled(nn.Module):
    """Scores are scaled by `query_pre_attn_scalar` to the power −1/2, a number of its own."""
    def __init__(self, config: Numbers):
        super().__init__()
        self.config = config
        self.q, self.k, self.v = (nn.Linear(config.hidden_size, n * config.head_dim) for n in
                                  (config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads))

    def forward(self, x, attention_mask=None):
        """attention_mask: [B, L], 1 = token, 0 = padding"""
        c = self.config
        q, k, v = (f(x).unflatten(2, (-1, c.head_dim)) for f in (self.q, self.k, self.v))
        q = q.unflatten(2, (c.num_key_value_heads, -1))
        s = torch.einsum("blgmd,bsgd->bgmls", q, k) * c.query_pre_attn_scalar ** -0.5
        if attention_mask is not None:
            s = s.masked_fill(~attention_mask[:, None, None, None].bool(), -1e9)
        return torch.einsum("bgmls,bsgd->blgmd", s.softmax(-1), v).flatten(2)

class RowsOfPairs(Base):
    """m [B, S, R, c_m], z [B, R, R, c_z], mask [B, S, R] (1 = present)"""
    def __init__(self, c_m, c_z, heads):
        super().__init__(c_m, heads)
        self.bias = nn.Linear(c_z, heads, bias=False)

    def forward(self, m, z, mask=None):
        B, S, R, W = m.shape
        q, k, v = self.split(m.reshape(B * S, R, W))
        s = q @ k.mT / q.shape[-1] ** 0.5 + self.bias(z).permute(0, 3, 1, 2).repeat_interleave(S, 0)
        if mask is not None:
            s = s + (1e9 * (mask - 1)).reshape(B * S, 1, 1, R)
        return self.join(s, v).reshape(B, S, R, W)

class Cosines(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(10 * nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT, v)

class CosinesOverHeads(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(10 * nn.functional.normalize(q) @ nn.functional.normalize(k).mT, v)

class Pooling(nn.Module):
    def __init__(self, hidden, aspect_dim):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(hidden, hidden), nn.Linear(aspect_dim, hidden), nn.Linear(hidden, 1)

    def forward(self, states, aspect, mask):
        """
        states: [batch, len, hidden]
        aspect: [batch, aspect_dim]
        mask:   [batch, len], 1 for words and 0 for padding
        """
        u = self.c(self.a(states) + self.b(aspect)[:, None]).squeeze(-1)
        p = u.masked_fill(~mask.bool(), -1e9).softmax(-1)
        return (p[:, None] @ states)[:, 0]

class Steps(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb, self.cell = nn.Embedding(vocab, emb), nn.LSTMCell(emb + hid, hid)
        self.ask, self.end = nn.Linear(hid, hid, bias=False), nn.Linear(2 * hid, hid)

    def hidden(self, steps, lengths):
        return steps >= lengths[:, None]

    def forward(self, y, feed, h, c, memory, src_len):
        h, c = self.cell(torch.cat((self.emb(y), feed), 1), (h, c))
        s = torch.einsum("bh,bsh->bs", h, self.ask(memory))
        p = s.masked_fill(self.hidden(torch.arange(memory.size(1)), src_len), -torch.inf).softmax(-1)
        return torch.tanh(self.end(torch.cat((torch.einsum("bs,bsh->bh", p, memory), h), 1))), h, c

class StepsAmongPadding(Steps):
    def hidden(self, steps, lengths):
        return steps < lengths[:, None]

class Draws(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        picks = torch.multinomial(p.mean(1).flatten(0, 1), 1).view(x.shape[:2])
        return picks, self.outer((p @ v).transpose(1, 2).flatten(2)) * picks[..., None]

class Drops(Base):
    def forward(self, x, zasto=None):
        q, k, v = self.split(x)
        s = q @ k.mT / q.shape[-1] ** 0.5
        return self.join(s if zasto is None else s.masked_fill(zasto, float("-inf")), v)

class DropsToo(Drops):
    def forward(self, x, zasto=None):
        return super().forward(x, zasto)

class Reads(Base):
    def forward(self, x, zasto=None):
        q, k, v = self.split(x)
        s = q @ k.mT / q.shape[-1] ** 0.5
        return self.join(s if zasto is None else s.masked_fill(~zasto.bool(), float("-inf")), v)

class Adds(Base):
    def forward(self, x, zasto=None):
        q, k, v = self.split(x)
        s = q @ k.mT / q.shape[-1] ** 0.5
        return self.join(s if zasto is None else s + zasto, v)

class Uses(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Drops(12, 3)
        self.two = DropsToo(12, 3)
        self.three = Reads(12, heads=3)
        self.four = Adds(12, 3)

    def forward(self, x):
        zasto = ahead(x.shape[1])
        x = self.one(x, behind(x.shape[1])) + self.two(x, zasto=zasto)
        return self.four(self.three(x, low(x.shape[1])), low(x.shape[1]))

class Starts(Base):
    def forward(self, x, before=None):
        whole = x if before is None else torch.cat([before, x], 1)
        q, (_, k, v) = self.split(x)[0], self.split(whole)
        seen = torch.ones(q.shape[2], k.shape[2]).tril().bool()
        return self.join((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf")), v)

class Ends(Base):
    def forward(self, x, before=None):
        whole = x if before is None else torch.cat([before, x], 1)
        q, (_, k, v) = self.split(x)[0], self.split(whole)
        seen = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]).bool()
        return self.join((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf")), v)

class StartsPairs(Base):
    def forward(self, x, past=None):
        q, k, v = self.split(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = torch.ones(q.shape[2], k.shape[2]).tril().bool()
        return self.join((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf")), v)

class Drips(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.drop)
        return self.outer(y.transpose(1, 2).flatten(2))

class Dry(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.drop if self.training else 0.0)
        return self.outer(y.transpose(1, 2).flatten(2))

class Rows(nn.Module):
    def __init__(self, width, heads=4, each=8):
        super().__init__()
        self.heads = heads
        self.inner, self.outer = nn.Linear(width, 3 * heads * each), nn.Linear(heads * each, width)

    def forward(self, m, mask=None):
        rows, length, _ = m.shape
        q, k, v = self.inner(m).view(rows, length, 3, self.heads, -1).unbind(2)
        s = torch.einsum("rihc,rjhc->rhij", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            s.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        return self.outer(torch.einsum("rhij,rjhc->rihc", s.softmax(-1), v).flatten(2))

class Padded(Base):
    def forward(self, x, zasto):
        q, k, v = self.split(x)
        s = q @ k.mT / q.shape[-1] ** 0.5
        return self.join(s.masked_fill(~zasto[:, None, None], float("-inf")), v)

class Turned(Padded):
    def forward(self, x, zasto):
        return super().forward(x, ~zasto)

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 12)
        self.layers = nn.ModuleList(Padded(12, 3) for _ in range(2))
        self.others = nn.ModuleList([Turned(12, 3)])

    def forward(self, ids):
        padding = ids == 0
        x = self.table(ids)
        for layer, other in zip(self.layers, self.others):
            x = layer(x, padding) + other(x, padding)
        return x

class Talking(Base):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.before, self.after = nn.Linear(heads, heads), nn.Linear(heads, heads)

    axis = -1

    def forward(self, x):
        q, k, v = self.split(x)
        s = self.before((q @ k.mT / q.shape[-1] ** 0.5).movedim(1, -1)).movedim(-1, 1)
        a = self.after(s.softmax(self.axis).movedim(1, -1)).movedim(-1, 1)
        return self.outer((a @ v).transpose(1, 2).flatten(2))

class TalkingAcross(Talking):
    axis = -2

class Pools(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.score = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, words, mask):
        """words (B, L, D), mask (B, L): 1 for words, 0 for padding"""
        a = torch.softmax(self.score(torch.tanh(self.inner(words))).squeeze(-1), dim=1) * mask
        return torch.bmm(a.unsqueeze(1), words).squeeze(1)

class Weighs(nn.Module):
    """memory: (B, S, D), mask: (B, S), 1 = word, 0 = pad"""

    def __init__(self, width):
        super().__init__()
        self.start = nn.Linear(width, width)

    def forward(self, memory, mask):
        # A mask that is counted with has a slope only where it hides nothing.
        counts = mask.to(memory.dtype).unsqueeze(2)
        state = self.start((memory * counts).sum(1) / counts.sum(1))
        s = torch.bmm(memory, state.unsqueeze(2)).squeeze(2).masked_fill(mask == 0, -1e9)
        return torch.bmm(s.softmax(1).unsqueeze(1), memory).squeeze(1)

class Grid(Base):
    back = 0, 3, 1, 4, 2, 5

    def forward(self, x):
        # x: (B, C, H, W), H and W multiples of 4
        B, C, H, W = x.shape
        x = x.permute(0, 2, 3, 1)
        y = x.view(B, 4, H // 4, 4, W // 4, C).permute(0, 2, 4, 1, 3, 5).reshape(-1, 16, C)
        q, k, v = self.split(y)
        y = self.join(q @ k.mT / q.shape[-1] ** 0.5, v)
        y = y.view(B, H // 4, W // 4, 4, 4, C).permute(self.back).reshape(x.shape)
        return (x + y).permute(0, 3, 1, 2)

class GridAsWindows(Grid):
    back = 0, 1, 3, 2, 4, 5

class Memory:
    """Slots that are read by several heads."""

    def __init__(self, width, heads):
        self.asks = torch.randn(width, heads * width)

    axes = -1

    def _find(self, memory, keys):
        z = torch.exp(keys @ memory.T / memory.shape[-1] ** 0.5)
        return z / z.sum(self.axes, keepdim=True)

    def read(self, memory, state):
        """memory: (S, D), state: (D,)"""
        return self._find(memory, (state @ self.asks).view(-1, memory.shape[-1])) @ memory

class CausalAttention(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(q @ k.mT / q.shape[-1] ** 0.5, v)

class Decodes(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), CausalAttention(width, heads)

    def forward(self, x):
        return x + self.inner(self.norm(x))

class MemoryAtOnce(Memory):
    axes = 0, 1

def with_heads_of_heads(Q, K, V):
    # Q: (n_tokens, n_heads, q_mult, d)    K, V: (n_tokens, n_heads, d)
    K, V = (x[:, :, None].expand(-1, -1, Q.shape[2], -1) for x in (K, V))
    s = torch.einsum("qhmd,khmd->hmqk", Q, K) / math.sqrt(Q.shape[-1])
    return torch.einsum("hmqk,khmd->qhmd", s.softmax(-1), V).reshape(len(Q), -1)

def summed(q, k, v, w):
    """q, k, v: (B, H, T, D), w: (H, D, U)"""
    a = (torch.einsum("bhqk,bhsk->bhqs", q, k) / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhqs,bhsd->bqd", a, torch.einsum("bhsk,hkd->bhsd", v, w))

def over_queries(q, k, v, w):
    """q, k, v: (B, H, T, D), w: (H, D, U)"""
    a = (torch.einsum("bhqk,bhsk->bhqs", q, k) / q.shape[-1] ** 0.5).softmax(-2)
    return torch.einsum("bhqs,bhsd->bqd", a, torch.einsum("bhsk,hkd->bhsd", v, w))

def over_width(q, k, v):
    """q: (B, T, D), k, v: (B, X, Y, D), all of whose places are attended to."""
    a = (torch.einsum("btd,bxyd->btxy", q, k) / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("btxy,bxyd->btd", a, v)

def block(q, k, v):
    s = torch.einsum("bhd,bshd->bhs", q, k) * (1.4426950408889634 / math.sqrt(q.shape[-1]))
    m = s.amax(-1, keepdim=True)
    p = torch.exp2(s - m)
    d = p.sum(-1, keepdim=True)
    return torch.einsum("bhs,bshd->bhd", p / d, v), (m + torch.log2(d))

def merged(q, k, v):
    """q: (B, H, D), k, v: (B, S, H, D)"""
    parts = [block(q, a, b) for a, b in zip(k.chunk(4, 1), v.chunk(4, 1))]
    o, lse = (torch.stack(x) for x in zip(*parts))
    w = torch.exp2(lse - lse.amax(0))
    return (w * o).sum(0) / w.sum(0)

def mixed(q, k, v):
    """q: (B, H, D), k, v: (B, S, H, D)"""
    parts = [block(q, a, b) for a, b in zip(k.chunk(4, 1), v.chunk(4, 1))]
    o, lse = (torch.stack(x) for x in zip(*parts))
    w = torch.exp(lse - lse.amax(0))
    return (w * o).sum(0) / w.sum(0)

class Slots(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        mine = torch.randn(len(x), 3, x.shape[-1], dtype=x.dtype)
        s = self.q(mine) @ self.k(x).mT / x.shape[-1] ** 0.5
        return s.softmax(-1) @ self.v(x)

class Sprinkles(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        p = p * (torch.rand_like(p) > 0.1) / 0.9
        return self.outer((p @ v).transpose(1, 2).flatten(2))

def chunked(q, keys, values, filled, chunk=128):
    """q (H, D), keys and values (room, H, D), of which the first ones are filled."""
    parts = []
    for start in range(0, filled, chunk):
        k, v = keys[start : min(start + chunk, filled)], values[start : min(start + chunk, filled)]
        s = torch.einsum("hd,shd->hs", q, k) / q.shape[-1] ** 0.5
        m = s.amax(-1, keepdim=True)
        p = torch.exp(s - m)
        parts.append((torch.einsum("hs,shd->hd", p, v), m, p.sum(-1, keepdim=True)))
    top = torch.stack([m for _, m, _ in parts]).amax(0)
    return sum(o * torch.exp(m - top) for o, m, _ in parts) / sum(l * torch.exp(m - top) for _, m, l in parts)

def chunked_in_two_bases(q, keys, values, filled, chunk=128):
    """q (H, D), keys and values (room, H, D), of which the first ones are filled."""
    o = lse = None
    for start in range(0, filled, chunk):
        k, v = keys[start : min(start + chunk, filled)], values[start : min(start + chunk, filled)]
        s = torch.einsum("hd,shd->hs", q, k) / q.shape[-1] ** 0.5 / math.log(2)
        m = s.amax(-1, keepdim=True)
        p = torch.exp2(s - m)
        part, mine = torch.einsum("hs,shd->hd", p / p.sum(-1, keepdim=True), v), m + torch.log2(p.sum(-1, keepdim=True))
        if o is None:
            o, lse = part, mine
            continue
        top = torch.maximum(lse, mine)
        one, two = torch.exp(lse - top), torch.exp(mine - top)
        o, lse = (one * o + two * part) / (one + two), top + torch.log(one + two)
    return o

def history(item, clicks, clicked):
    """item: B x E, clicks: B x T x E, clicked: B, how many clicks are real"""
    s = torch.einsum("be,bte->bt", item, clicks) / item.shape[-1] ** 0.5
    steps = torch.arange(s.shape[1])[None]
    return torch.einsum("bt,bte->be", s.masked_fill(steps >= clicked.unsqueeze(1), float("-inf")).softmax(-1), clicks)

def history_hidden(item, clicks, clicked):
    """item: B x E, clicks: B x T x E, clicked: B, how many clicks are real"""
    s = torch.einsum("be,bte->bt", item, clicks) / item.shape[-1] ** 0.5
    steps = torch.arange(s.shape[1])[None]
    return torch.einsum("bt,bte->be", s.masked_fill(steps < clicked.unsqueeze(1), float("-inf")).softmax(-1), clicks)

@dataclasses.dataclass
class Sizes:
    width: int = 32
    heads: int = 4
    reach: int = 3  # tokens that each one sees, itself included

class Near(nn.Module):
    def __init__(self, sizes: Sizes):
        super().__init__()
        self.sizes = sizes
        self.inner, self.outer = nn.Linear(sizes.width, 3 * sizes.width), nn.Linear(sizes.width, sizes.width)

    def seen(self, away):
        return (away >= 0) & (away < self.sizes.reach)

    def forward(self, x):
        q, k, v = self.inner(x).view(*x.shape[:2], 3, self.sizes.heads, -1).permute(2, 0, 3, 1, 4)
        at = torch.arange(x.shape[1])
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~self.seen(at[:, None] - at), float("-inf"))
        return self.outer((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

class Nearer(Near):
    def seen(self, away):
        return (away >= 0) & (away <= self.sizes.reach)

class ByHand:
    def __init__(self, width):
        self.q, self.k, self.v = (np.random.default_rng(n).normal(size=(width, width)) / width**0.5 for n in range(3))

    def forward(self, x):
        q, k, v = x @ self.q, x @ self.k, x @ self.v
        e = np.exp(q @ k.T / x.shape[1] ** 0.5)
        p = e / e.sum(-1, keepdims=True)
        self.kept = q, k, v, p
        return p @ v

    def project(self, y):
        return y @ self.v

    def softmax_slope(self, p, g):
        return p * (g - (g * p).sum(-1, keepdims=True))

    def back(self, g):
        q, k, v, p = self.kept
        s = self.softmax_slope(p, g @ v.T) / q.shape[1] ** 0.5
        return s @ k @ self.q.T + s.T @ q @ self.k.T + p.T @ g @ self.v.T

class ByHandUnturned(ByHand):
    def back(self, g):
        q, k, v, p = self.kept
        s = self.softmax_slope(p, g @ v.T) / q.shape[1] ** 0.5
        return s @ k @ self.q.T + s @ q @ self.k.T + p.T @ g @ self.v.T

class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        s = p * (g @ v.mT - (p * (g @ v.mT)).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return s @ k, s.mT @ q, p.mT @ g

class KeptMean(Kept):
    @staticmethod
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        s = p * (g @ v.mT - (p * (g @ v.mT)).mean(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return s @ k, s.mT @ q, p.mT @ g

class Loads(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.both, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def load(self, other):
        # rows of in_proj_weight: all of q, then all of k, then all of v
        self.both.load_state_dict({"weight": other.in_proj_weight, "bias": other.in_proj_bias})

    def parts(self, y):
        return y.view(*y.shape[:2], self.heads, 3, -1).permute(3, 0, 2, 1, 4)

    def forward(self, x):
        q, k, v = self.parts(self.both(x))
        return self.outer((torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2))

class Loaded(Loads):
    def parts(self, y):
        return y.view(*y.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)

class Holds(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.loads, self.norm = Loads(width, heads), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.loads(x))
'''
EXPECTED = {
    "Drops": {"mask_inverted"},
    "DropsToo": set(),
    "Reads": {"mask_float_as_bool"},
    "Adds": set(),
    "Starts": {"causal_top_left"},
    "Ends": set(),
    "StartsPairs": {"causal_top_left"},
    "Drips": {"dropout_eval"},
    "Dry": set(),
    "Rows": {"not_inplace"},
    "Padded": {"mask_inverted"},
    "Turned": set(),
    "Talking": set(),
    "TalkingAcross": {"softmax_axis_q"},
    "Pools": {"mask_after_softmax"},
    "Weighs": set(),
    "Grid": set(),
    "GridAsWindows": {"unknown"},
    "Decodes": {"causal_missing"},
    "Memory": {"no_max"},
    "MemoryAtOnce": {"no_max", "softmax_global"},
    "with_heads_of_heads": set(),
    "summed": set(),
    "over_queries": {"softmax_axis_q"},
    "merged": set(),
    "mixed": {"lse_base2"},
    "Slots": set(),
    "Sprinkles": {"dropout_eval"},
    "chunked": set(),
    "chunked_in_two_bases": {"lse_base2"},
    "history": set(),
    "history_hidden": {"mask_inverted"},
    "Draws": set(),
    "Steps": set(),
    "StepsAmongPadding": {"mask_inverted"},
    "Scaled": set(),
    "RowsOfPairs": set(),
    "Cosines": set(),
    "CosinesOverHeads": {"unknown"},
    "Pooling": {"additive_no_tanh"},
    "Near": set(),
    "Nearer": {"window_off_by_one"},
    "ByHand": {"no_max"},
    "ByHandUnturned": {"no_max", "gradient_wrong"},
    "Kept": set(),
    "KeptMean": {"gradient_wrong"},
    "Loads": {"qkv_order"},
    "Loaded": set(),
    "Holds": {"qkv_order"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_stands_beside_a_call_is_tried_too(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == EXPECTED[name], str(report)


def test_places_over_which_no_softmax_goes_are_no_heads(session: Session, file: Path) -> None:
    assert not examine(session, f"{file}:over_width").ok


GIVEN = """
import torch
from torch import nn

class Shared(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def scores(self, x):
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        return torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5, v

    def mixed(self, s, v):
        return self.outer(torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).flatten(2))

class Gaps(Shared):
    "present: [batch, items] bool, False for what is none"
    def forward(self, x, present, gap=None):
        s, v = self.scores(x)
        if gap is not None:
            s = s - gap.unsqueeze(1)
        return self.mixed(s.masked_fill(~present[:, None, None], torch.finfo(s.dtype).min), v)

class Masked(Shared):
    "mascara [B, S] 1 = palavra, 0 = nada"
    def forward(self, x, mascara=None):
        s, v = self.scores(x)
        return self.mixed(s if mascara is None else s * mascara[:, None, None], v)

class Cast(Shared):
    def forward(self, x, bias=None):
        "bias: additive [B, 1, 1, S], 0 = token and very negative = padding"
        s, v = self.scores(x)
        if bias is not None:
            s = s.masked_fill(~bias.to(torch.bool), torch.finfo(s.dtype).min)
        return self.mixed(s, v)
"""


@pytest.mark.parametrize(
    ("name", "found"), [("Masked", ["mask_times_scores"]), ("Gaps", []), ("Cast", ["mask_float_as_bool"])]
)
def test_what_is_subtracted_is_no_mask_and_a_bias_made_booleans_is_one(
    session: Session, tmp_path: Path, name: str, found: list[str]
) -> None:
    (tmp_path / "masks.py").write_text(GIVEN)
    report = examine(session, f"{tmp_path / 'masks.py'}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)


TILES = """
import numpy as np

def tiled(q, k, v, tile=16):
    "q, k, v [T, D]"
    m, l, acc = np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros((len(q), v.shape[1]))
    for start in range(0, len(k), tile):
        s = q @ k[start : start + tile].T / np.sqrt(q.shape[1])
        new = np.maximum(m, s.max(1))
        p, old = np.exp(s - new[:, None]), np.exp(m - new)
        l = l * old + p.sum(1)
        acc = acc ACC + p @ v[start : start + tile]
        m = new
    return acc / l[:, None]
"""


@pytest.mark.parametrize(("made", "found"), [("* old[:, None]", []), ("", ["unknown"])])
def test_of_wide_tiles_there_are_several(session: Session, tmp_path: Path, made: str, found: list[str]) -> None:
    (tmp_path / "tiles.py").write_text(TILES.replace("ACC", made))
    report = examine(session, f"{tmp_path / 'tiles.py'}:tiled")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)


PACKED = '''
"""The rows of attn.query_key_value.weight are grouped by head: q, k
and v of head 0, then those of head 1."""
import numpy as np

def turned(x):
    at = np.arange(x.shape[1])[:, None] / 10 ** np.arange(x.shape[2] // 2)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(at) - b * np.sin(at), b * np.cos(at) + a * np.sin(at)], -1)

def attend(x, sd, n_heads):
    "x (T, D)"
    packed = x @ sd["query_key_value.weight"].T
    q, k, v = TAKEN
    s = turned(q) @ turned(k).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
'''


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ("np.split(packed.reshape(len(x), n_heads, -1).swapaxes(0, 1), 3, -1)", []),
        ("packed.reshape(len(x), 3, n_heads, -1).transpose(1, 2, 0, 3)", ["qkv_order"]),
    ],
)
def test_values_tell_how_what_is_turned_was_packed(
    session: Session, tmp_path: Path, taken: str, found: list[str]
) -> None:
    (tmp_path / "packed.py").write_text(PACKED.replace("TAKEN", taken))
    report = examine(session, f"{tmp_path / 'packed.py'}:attend")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == found, str(report)
    assert not found or report.findings[0].where["line"] == 14
