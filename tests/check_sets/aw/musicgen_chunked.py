"""Symbolic music transformer with chunked prefill.

generate() feeds a long prompt chunk by chunk; `Memory` keeps what has been read.  A note may hear
all notes read before it and itself.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Memory:
    def __init__(self):
        self.keys = None
        self.values = None

    def push(self, k, v):
        self.keys = k if self.keys is None else torch.cat((self.keys, k), -2)
        self.values = v if self.values is None else torch.cat((self.values, v), -2)
        return self.keys, self.values

    @property
    def length(self):
        return 0 if self.keys is None else self.keys.shape[-2]


class NoteAttention(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.fused = nn.Linear(width, 3 * width)
        self.back = nn.Linear(width, width)

    def forward(self, x, memory=None):
        b, n, w = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.fused(x).chunk(3, -1))
        if memory is not None:
            k, v = memory.push(k, v)
        visible = torch.ones(n, k.shape[-2], dtype=torch.bool, device=x.device).tril()
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, dropout_p=self.dropout if self.training else 0.0)
        return self.back(y.transpose(1, 2).reshape(b, n, w))


class Composer(nn.Module):
    def __init__(self, events=128, width=32, heads=4, depth=2, max_len=256):
        super().__init__()
        self.ev, self.pos = nn.Embedding(events, width), nn.Embedding(max_len, width)
        self.att = nn.ModuleList(NoteAttention(width, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, events)

    def forward(self, ids, memories=None):
        start = memories[0].length if memories else 0
        x = self.ev(ids) + self.pos.weight[start : start + ids.shape[1]]
        for i, (a, n) in enumerate(zip(self.att, self.ln)):
            x = x + a(n(x), memories[i] if memories else None)
        return self.head(x)

    @torch.no_grad()
    def generate(self, prompt, steps, chunk=16):
        mems = [Memory() for _ in self.att]
        for part in prompt.split(chunk, dim=1):
            logits = self(part, mems)
        out = prompt
        for _ in range(steps):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            out = torch.cat((out, nxt), 1)
            logits = self(nxt, mems)
        return out
