""" rhapsody: symbolic music with linear attention.

Two equal routes through the same layer:
  * parallel (training): prefix sums over the whole sequence,
  * recurrent (sampling): one event at a time, state (S, z).
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class State(NamedTuple):
    S: torch.Tensor   # [B, H, d, e]  sum of phi(k) v^T
    z: torch.Tensor   # [B, H, d]     sum of phi(k)


def phi(x):
    return F.elu(x) + 1.0


class CausalLinearAttention(nn.Module):
    """out_i = phi(q_i) . sum_{j<=i} phi(k_j) v_j^T  /  phi(q_i) . sum_{j<=i} phi(k_j)

    event_ok: bool [B, T], False for padding events, which must not be seen.
    """

    def __init__(self, dim, heads, eps=1e-6):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.eps = heads, eps
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim) for _ in range(3))
        self.wo = nn.Linear(dim, dim)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x, event_ok: Optional[torch.Tensor] = None):
        q, k, v = phi(self._split(self.wq(x))), phi(self._split(self.wk(x))), self._split(self.wv(x))
        if event_ok is not None:
            k = k * event_ok[:, None, :, None].to(k.dtype)
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        z = k.cumsum(2)
        num = torch.einsum("bhtd,bhtde->bhte", q, kv)
        den = torch.einsum("bhtd,bhtd->bht", q, z).clamp_min(self.eps)
        y = num / den.unsqueeze(-1)
        return self.wo(y.transpose(1, 2).flatten(2))

    def step(self, x, state: Optional[State] = None):
        """x: [B, dim], one event.  Returns ([B, dim], new state)."""
        B = x.size(0)
        h = lambda t: t.view(B, self.heads, -1)
        q, k, v = phi(h(self.wq(x))), phi(h(self.wk(x))), h(self.wv(x))
        if state is None:
            state = State(x.new_zeros(B, self.heads, k.size(-1), v.size(-1)), x.new_zeros(B, self.heads, k.size(-1)))
        S = state.S + k.unsqueeze(-1) * v.unsqueeze(-2)
        z = state.z + k
        den = (q * z).sum(-1, keepdim=True).clamp_min(self.eps)
        y = (q.unsqueeze(-2) @ S).squeeze(-2) / den
        return self.wo(y.flatten(1)), State(S, z)


class Phrase(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = CausalLinearAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, ok=None):
        x = x + self.att(self.ln1(x), ok)
        return x + self.ff(self.ln2(x))


@torch.no_grad()
def sample(embed, layer: CausalLinearAttention, head, start, n, temperature=1.0):
    tok, st, out = start, None, []
    for _ in range(n):
        y, st = layer.step(embed(tok), st)
        tok = torch.multinomial(torch.softmax(head(y) / temperature, -1), 1).squeeze(1)
        out.append(tok)
    return torch.stack(out, 1)
