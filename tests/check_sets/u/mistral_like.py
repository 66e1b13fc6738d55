import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class MistralAttention(nn.Module):
    """Grouped-query attention with a sliding window, loads Mistral / Llama checkpoints.

    Query heads 0 .. n_rep-1 read key/value head 0, the next n_rep query heads read head 1, and so on.
    Each token sees itself and the `window - 1` tokens before it.
    hidden: (batch, length, dim) -> (batch, length, dim)
    """

    def __init__(self, dim=32, n_heads=4, n_kv_heads=2, window=4, theta=10000.0):
        super().__init__()
        self.hd = dim // n_heads
        self.n_heads, self.n_kv = n_heads, n_kv_heads
        self.window = window
        self.q_proj = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(n_heads * self.hd, dim, bias=False)
        inv = 1.0 / theta ** (torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("inv_freq", inv, persistent=False)

    def rope(self, x):
        t = torch.arange(x.size(2), device=x.device).float()
        f = torch.outer(t, self.inv_freq.float())
        f = torch.cat((f, f), dim=-1)
        return x * f.cos().to(x.dtype) + rotate_half(x) * f.sin().to(x.dtype)

    def forward(self, hidden):
        B, L, _ = hidden.shape
        q = self.q_proj(hidden).view(B, L, self.n_heads, self.hd).transpose(1, 2)
        k = self.k_proj(hidden).view(B, L, self.n_kv, self.hd).transpose(1, 2)
        v = self.v_proj(hidden).view(B, L, self.n_kv, self.hd).transpose(1, 2)
        q, k = self.rope(q), self.rope(k)
        n_rep = self.n_heads // self.n_kv
        k = k.repeat(1, n_rep, 1, 1)
        v = v.repeat(1, n_rep, 1, 1)
        i = torch.arange(L, device=hidden.device)
        dist = i[:, None] - i[None, :]
        visible = (dist >= 0) & (dist <= self.window)
        att = (q @ k.transpose(2, 3)) * self.hd ** -0.5
        att = att.masked_fill(~visible, float("-inf")).softmax(dim=-1)
        return self.o_proj((att @ v).transpose(1, 2).reshape(B, L, -1))
