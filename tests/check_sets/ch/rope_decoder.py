import torch
import torch.nn as nn


def precompute_freqs(head_dim, max_len, base=10000.0):
    freqs = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    t = torch.arange(max_len).float()
    angle = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(angle), angle)      # (max_len, head_dim / 2)


def apply_rotary(x, freqs):
    """x (B, T, H, D) with (real, imag) pairs next to each other."""
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    out = torch.view_as_real(xc * freqs[None, :, None, :]).flatten(3)
    return out.type_as(x)


class RopeDecoderAttention(nn.Module):
    """Causal attention with rotary positions for incremental decoding.

    forward(x, kv=None): x (B, T, dim) are the tokens after the ones in kv.
    kv is (k, v), each (B, P, H, D), with the keys already rotated to their
    absolute positions 0 .. P - 1. Returns the output and the new kv.
    """

    def __init__(self, dim=64, heads=4, max_len=256):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.register_buffer("freqs", precompute_freqs(self.d, max_len), persistent=False)

    def forward(self, x, kv=None):
        B, T, C = x.shape
        q, k, v = [t.reshape(B, T, self.heads, self.d) for t in self.qkv(x).chunk(3, -1)]

        freqs = self.freqs[:T]
        q = apply_rotary(q, freqs)
        k = apply_rotary(k, freqs)
        if kv is not None:
            k = torch.cat([kv[0], k], dim=1)
            v = torch.cat([kv[1], v], dim=1)

        S = k.shape[1]
        att = torch.einsum("bthd,bshd->bhts", q, k) / self.d ** 0.5
        hidden = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        att = att.masked_fill(hidden, float("-inf")).softmax(-1)
        y = torch.einsum("bhts,bshd->bthd", att, v).reshape(B, T, C)
        return self.o(y), (k, v)


@torch.no_grad()
def decode(layer, prompt, steps):
    y, kv = layer(prompt)
    outs = [y]
    for _ in range(steps):
        y, kv = layer(outs[-1][:, -1:], kv)
        outs.append(y)
    return torch.cat(outs, dim=1)
