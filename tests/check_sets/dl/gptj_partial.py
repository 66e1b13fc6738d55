"""GPT-J attention (partial, interleaved rotary), with past and left padding for generate().

Only the first `rot` of the d dimensions of every head are rotated, in pairs (2i, 2i+1) with
angle pos * 10000**(-2i / rot).  Positions count the real tokens of a row, so left padding
does not shift the text.
"""
import torch
from torch import nn


def positions_of(attention_mask):
    """(B, N) 0/1 -> (B, N): rank of each real token in its row (pads get 0)."""
    return (attention_mask.long().cumsum(-1) - 1).clamp_min(0)


def rotate(x, pos, rot):
    """x (B, T, H, d), pos (B, T)."""
    head, rest = x[..., :rot], x[..., rot:]
    inv = 10000 ** (-torch.arange(0, rot, 2, dtype=torch.float) / rot)
    ang = (pos[..., None].float() * inv)[:, :, None, :].to(x.dtype)
    sin, cos = ang.sin(), ang.cos()
    even, odd = head[..., 0::2], head[..., 1::2]
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
    return torch.cat((turned.flatten(-2), rest), dim=-1)


class JAttention(nn.Module):
    def __init__(self, n_embd, n_head, rot):
        super().__init__()
        self.n_head, self.rot = n_head, rot
        self.q_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.k_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.v_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.out_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x, attention_mask, past=None):
        """x (B, T, n_embd): the newest T columns.  attention_mask (B, N): 1 = real token,
        0 = (left) padding, for ALL columns, cached ones included; N = cached + T.
        past: (k, v) each (B, N - T, H, d) or None.
        Returns (B, T, n_embd) and the new past.  Causal; what comes out in padded columns
        means nothing."""
        b, t, e = x.shape
        n = attention_mask.shape[1]
        pos = positions_of(attention_mask)[:, n - t:]
        q, k, v = (f(x).view(b, t, self.n_head, -1) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, pos, self.rot), rotate(k, pos, self.rot)
        if past is not None:
            k = torch.cat((past[0], k), dim=1)
            v = torch.cat((past[1], v), dim=1)
        w = torch.einsum("bthd,bnhd->bhtn", q, k) / (e // self.n_head) ** 0.5
        causal = torch.ones(t, n, dtype=torch.bool).tril(n - t)
        keep = causal & attention_mask.bool()[:, None, None, :]
        w = w.masked_fill(~keep, torch.finfo(w.dtype).min).softmax(-1)
        y = torch.einsum("bhtn,bnhd->bthd", w, v).reshape(b, t, e)
        return self.out_proj(y), (k, v)
