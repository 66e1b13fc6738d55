"""rbw - ring buffer w/ window, one decoder attn, one tok at a time.

Token at absolute position p reads positions p-W+1 .. p (W tokens, itself
included), never earlier ones.  RoPE: the pair (c, c + d/2) of a head is turned by
p * 1e4 ** (-2c/d), c = 0 .. d/2-1; keys are stored turned, at slot p mod W.

``Rbw(E, H, W)``; ``.new(B)`` -> empty state; ``step(x, st)``
    x  : (B, E), the next token of every sequence
    st : dict from ``new`` (kb, vb: (B, H, W, d); p: int, tokens so far)
returns (y (B, E), st) with st for the next token.  Logits / sqrt(d).
"""
import torch
import torch.nn as nn


def trn(z, p):
    d = z.size(-1)
    f = 1e4 ** (-torch.arange(0, d, 2, dtype=z.dtype, device=z.device) / d)
    c, s = torch.cos(p * f), torch.sin(p * f)
    a, b = z[..., : d // 2], z[..., d // 2:]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class Rbw(nn.Module):
    def __init__(self, E, H, W):
        super().__init__()
        self.H, self.W, self.d = H, W, E // H
        self.i = nn.Linear(E, 3 * E, bias=False)
        self.o = nn.Linear(E, E, bias=False)

    def new(self, B):
        z = self.i.weight.new_zeros(B, self.H, self.W, self.d)
        return {"kb": z, "vb": z.clone(), "p": 0}

    def step(self, x, st):
        B = x.size(0)
        p = st["p"]
        q, k, v = self.i(x).view(B, 3, self.H, self.d).unbind(1)
        q, k = trn(q, p), trn(k, p)
        j = torch.tensor([p % self.W], device=x.device)
        kb = st["kb"].index_copy(2, j, k.unsqueeze(2))
        vb = st["vb"].index_copy(2, j, v.unsqueeze(2))
        n = min(p + 1, self.W)          # filled slots; their order does not matter
        l = torch.einsum("bhd,bhwd->bhw", q, kb[:, :, :n]) / self.d ** 0.5
        y = torch.einsum("bhw,bhwd->bhd", l.softmax(-1), vb[:, :, :n])
        return self.o(y.reshape(B, -1)), {"kb": kb, "vb": vb, "p": p + 1}
