"""Multi-head latent attention (DeepSeek-V2, section 2.1), study notes as code.

Only the compressed latent c_kv and the single shared rope key are cached. This is the
"absorbed" form: W_uk is folded into the query and W_uv into the output.
rope uses the half-split layout:  (x1, x2) = halves of the last axis.
"""
import math
import torch
from torch import nn


def rope(x, pos, base=10000.0):
    """x (..., T, d); pos (T,)"""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    ang = pos[:, None].float() * freq
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1)


class MLA(nn.Module):
    def __init__(self, d_model, n_heads, d_nope=16, d_rope=8, d_v=16, q_rank=24, kv_rank=20):
        super().__init__()
        self.n_heads, self.d_nope, self.d_rope, self.d_v = n_heads, d_nope, d_rope, d_v
        self.kv_rank = kv_rank
        self.q_down = nn.Linear(d_model, q_rank, bias=False)
        self.q_norm = nn.LayerNorm(q_rank)
        self.q_up = nn.Linear(q_rank, n_heads * (d_nope + d_rope), bias=False)
        self.kv_down = nn.Linear(d_model, kv_rank + d_rope, bias=False)
        self.kv_norm = nn.LayerNorm(kv_rank)
        # per head: first d_nope rows make k, the other d_v rows make v
        self.kv_up = nn.Linear(kv_rank, n_heads * (d_nope + d_v), bias=False)
        self.out = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.softmax_scale = 1.0 / math.sqrt(d_nope + d_rope)

    def forward(self, x, cache=None):
        """x (B, T, d_model) new tokens; cache = (latent, rope key) of everything before."""
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + T, device=x.device)

        q = self.q_up(self.q_norm(self.q_down(x))).view(B, T, self.n_heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.d_nope, self.d_rope], dim=-1)
        q_pe = rope(q_pe, pos)

        latent, k_pe = self.kv_down(x).split([self.kv_rank, self.d_rope], dim=-1)
        latent, k_pe = self.kv_norm(latent), rope(k_pe, pos)
        if cache is not None:
            latent = torch.cat([cache[0], latent], 1)
            k_pe = torch.cat([cache[1], k_pe], 1)

        w = self.kv_up.weight.view(self.n_heads, self.d_nope + self.d_v, self.kv_rank)
        w_uk, w_uv = w[:, :self.d_nope], w[:, self.d_nope:]
        q_lat = torch.einsum("bhtd,hdc->bhtc", q_nope, w_uk)
        scores = torch.einsum("bhtc,bsc->bhts", q_lat, latent)
        scores = scores + torch.einsum("bhtr,bsr->bhts", q_pe, k_pe)
        scores = scores * self.softmax_scale

        future = torch.arange(past + T, device=x.device)[None, :] > pos[:, None]
        scores = scores.masked_fill(future, float("-inf"))
        probs = scores.softmax(-1, dtype=torch.float32).type_as(x)
        ctx = torch.einsum("bhts,bsc->bhtc", probs, latent)
        o = torch.einsum("bhtc,hvc->bthv", ctx, w_uv).reshape(B, T, -1)
        return self.out(o), (latent, k_pe)


def cache_bytes_per_token(m: MLA, bytes_per=2):
    mha = 2 * m.n_heads * (m.d_nope + m.d_rope) * bytes_per
    return (m.kv_rank + m.d_rope) * bytes_per, mha


if __name__ == "__main__":
    net = MLA(32, 4)
    x = torch.randn(1, 7, 32)
    y, _ = net(x)
    c = None
    for t in range(7):
        o, c = net(x[:, t:t + 1], c)
    print((o[:, 0] - y[:, -1]).abs().max(), cache_bytes_per_token(net))
