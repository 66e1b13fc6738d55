"""chitchat: inference part of my chat bot (llama-ish, reads weights from a .pt file).

`Mouth` is one attention layer with a pre-allocated key/value memory.

    x          (B, T, dim)   the new tokens, any T >= 1
    start_pos  int           how many tokens are already in the memory

New token number t of this call has the absolute position start_pos + t and may look at
all positions up to and including its own.  Rotary embedding as in llama.cpp "neox"
style: the first half of the head is paired with the second half,

    rot(x)[i]       = x[i] cos(p w_i) - x[i + d/2] sin(p w_i)
    rot(x)[i + d/2] = x[i + d/2] cos(p w_i) + x[i] sin(p w_i),   w_i = 10000^(-2 i / d).

Output (B, T, dim).
"""
import torch
import torch.nn as nn


def rot(x, p):
    d = x.shape[-1]
    w = 10000.0 ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = p[:, None].float() * w
    c, s = ang.cos(), ang.sin()
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class Mouth(nn.Module):
    def __init__(self, dim, heads, max_b, max_t):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("mem_k", torch.zeros(max_b, heads, max_t, self.hd), persistent=False)
        self.register_buffer("mem_v", torch.zeros(max_b, heads, max_t, self.hd), persistent=False)

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        B, T, _ = x.shape
        end = start_pos + T
        here = torch.arange(start_pos, end, device=x.device)

        def heads(z):
            return z.view(B, T, self.heads, self.hd).transpose(1, 2)

        q = rot(heads(self.wq(x)), here)
        self.mem_k[:B, :, start_pos:end] = rot(heads(self.wk(x)), here)
        self.mem_v[:B, :, start_pos:end] = heads(self.wv(x))
        k, v = self.mem_k[:B, :, :end], self.mem_v[:B, :, :end]

        s = torch.matmul(q, k.transpose(-2, -1)) * self.hd**-0.5
        future = torch.arange(end, device=x.device)[None, :] > here[:, None]
        s = s.masked_fill(future, torch.finfo(s.dtype).min)
        o = s.softmax(-1) @ v
        return self.wo(o.transpose(1, 2).reshape(B, T, -1))
