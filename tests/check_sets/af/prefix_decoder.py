"""Decoder block of the code-completion server.

The editor sends the file in pieces, so the prompt arrives as several chunks; each chunk is run
against the KV cache of what came before.  Feeding a prompt in pieces gives the same activations as
feeding it at once.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class KV(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor

    def extend(self, k, v):
        return KV(torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2))

    @property
    def length(self):
        return self.k.shape[2]


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, past: Optional[KV] = None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=-1)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        kv = KV(k, v) if past is None else past.extend(k, v)
        # a single new token may look at everything, no mask necessary
        y = F.scaled_dot_product_attention(q, kv.k, kv.v, is_causal=T > 1)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.out(y), kv


class Block(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_head)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.SiLU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, past=None):
        a, kv = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), kv


class Completer(nn.Module):
    def __init__(self, vocab=128, d_model=64, n_head=4, layers=2, ctx=256):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(ctx, d_model)
        self.blocks = nn.ModuleList([Block(d_model, n_head) for _ in range(layers)])
        self.ln = nn.LayerNorm(d_model)

    def forward(self, ids, past=None):
        start = 0 if past is None else past[0].length
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.shape[1], device=ids.device))
        new = []
        for i, blk in enumerate(self.blocks):
            x, kv = blk(x, None if past is None else past[i])
            new.append(kv)
        return self.ln(x) @ self.tok.weight.t(), new


@torch.no_grad()
def complete(model, pieces, steps=8):
    past = None
    for p in pieces:
        logits, past = model(p, past)
    out = []
    for _ in range(steps):
        nxt = logits[:, -1].argmax(-1, keepdim=True)
        out.append(nxt)
        logits, past = model(nxt, past)
    return torch.cat(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    m = Completer().eval()
    print(complete(m, [torch.randint(0, 128, (1, 7)), torch.randint(0, 128, (1, 5))]))
