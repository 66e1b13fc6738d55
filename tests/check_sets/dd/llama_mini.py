"""A very small Llama-like attention with grouped queries, rotary positions and a cache."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary_tables(dim, positions, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    ang = positions.float()[:, None] * inv[None, :]
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def apply_rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class GroupedRotaryAttention(nn.Module):
    def __init__(self, dim=64, n_q=8, n_kv=2):
        super().__init__()
        self.n_q, self.n_kv, self.hd = n_q, n_kv, dim // n_q
        self.wq = nn.Linear(dim, n_q * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(n_q * self.hd, dim, bias=False)

    def forward(self, x, cache=None):
        """x: (B, T, dim). cache: None or (k, v), each (B, n_kv, P, head_dim), k already rotated.
        Returns (B, T, dim) and the cache grown to P + T."""
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_q, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        past = 0 if cache is None else cache[0].size(2)
        where = torch.arange(past, past + T, device=x.device)
        cos, sin = rotary_tables(self.hd, where)
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        rep = self.n_q // self.n_kv
        keep = torch.arange(past + T, device=x.device)[None, :] <= where[:, None]
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1), attn_mask=keep)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1)), (k, v)


@torch.no_grad()
def roll_out(layer, prompt, steps):
    """Feeds the layer its own last output `steps` times; prompt is (B, P, dim)."""
    y, cache = layer(prompt)
    outs = [y[:, -1:]]
    for _ in range(steps):
        y, cache = layer(outs[-1], cache)
        outs.append(y)
    return torch.cat(outs, dim=1)
