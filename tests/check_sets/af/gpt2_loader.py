"""Minimal GPT-2 that reads the OpenAI/HF weights.

In the checkpoint ``attn.c_attn`` is a Conv1D with weight (n_embd, 3 * n_embd): the first n_embd
output columns are the queries, then the keys, then the values, and inside each of the three the heads
lie one after the other.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class Attention(nn.Module):
    def __init__(self, nx, n_head, n_ctx=1024):
        super().__init__()
        self.n_head = n_head
        self.c_attn = Conv1D(nx * 3, nx)
        self.c_proj = Conv1D(nx, nx)
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx, dtype=torch.bool)), persistent=False)

    def forward(self, x, layer_past=None):
        b, t, nx = x.shape
        dh = nx // self.n_head
        qkv = self.c_attn(x).view(b, t, self.n_head, 3 * dh).permute(0, 2, 1, 3)   # b, h, t, 3*dh
        query, key, value = qkv.chunk(3, dim=-1)
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=-2)
            value = torch.cat((layer_past[1], value), dim=-2)
        present = torch.stack((key, value))

        w = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(dh)
        nd, ns = w.size(-2), w.size(-1)
        w = w.masked_fill(~self.bias[ns - nd:ns, :ns], float("-inf"))
        w = F.softmax(w, dim=-1)
        a = torch.matmul(w, value).permute(0, 2, 1, 3).reshape(b, t, nx)
        return self.c_proj(a), present


class Block(nn.Module):
    def __init__(self, nx, n_head, eps=1e-5):
        super().__init__()
        self.ln_1 = nn.LayerNorm(nx, eps=eps)
        self.attn = Attention(nx, n_head)
        self.ln_2 = nn.LayerNorm(nx, eps=eps)
        self.c_fc, self.c_proj = Conv1D(4 * nx, nx), Conv1D(nx, 4 * nx)

    def forward(self, x, layer_past=None):
        a, present = self.attn(self.ln_1(x), layer_past)
        x = x + a
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")), present


RENAME = {"mlp.c_fc": "c_fc", "mlp.c_proj": "c_proj"}


def load_block(block, state, i):
    """Copies ``h.{i}.*`` of a checkpoint into a Block."""
    prefix = f"h.{i}."
    own = {}
    for name, t in state.items():
        if not name.startswith(prefix) or name.endswith(("attn.bias", "attn.masked_bias")):
            continue
        name = name[len(prefix):]
        for old, new in RENAME.items():
            name = name.replace(old, new)
        own[name] = t
    return block.load_state_dict(own, strict=False)
