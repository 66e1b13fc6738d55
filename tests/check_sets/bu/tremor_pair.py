"""Listening for tremors below the noise of the quarry.

Differential attention (Ye et al. 2024) as plain functions over a dict of
tensors, because the field loggers run TorchScript-free code only.

    out_h = (1 - L0) * rms( (softmax(q1 k1') - L * softmax(q2 k2')) v )
"""
import math
import torch


def lambda_init(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


def new_params(dim, heads, seed=0):
    g = torch.Generator().manual_seed(seed)
    half = dim // heads // 2
    r = lambda *s: torch.randn(*s, generator=g) / s[0] ** 0.5
    return {
        "wq": r(dim, dim), "wk": r(dim, dim), "wv": r(dim, dim), "wo": r(dim, dim),
        "lq1": 0.1 * r(half), "lk1": 0.1 * r(half), "lq2": 0.1 * r(half), "lk2": 0.1 * r(half),
        "gain": torch.ones(2 * half),
    }


def rms(t, gain, eps=1e-5):
    return t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + eps) * gain


def lam(p, depth):
    return torch.exp(p["lq1"] @ p["lk1"]) - torch.exp(p["lq2"] @ p["lk2"]) + lambda_init(depth)


def soft(q, k, dead):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if dead is not None:
        s = s.masked_fill(dead[:, None, None, :], -math.inf)
    return torch.softmax(s, dim=-1)


def differential_listen(p, x, heads, depth=1, dead=None):
    """
    x     [station set B, station N, dim]
    dead  [B, N] bool, True = station without power, ignore it
    """
    B, N, D = x.shape
    d = D // heads
    half = d // 2
    q = (x @ p["wq"]).view(B, N, heads, 2, half).permute(3, 0, 2, 1, 4)
    k = (x @ p["wk"]).view(B, N, heads, 2, half).permute(3, 0, 2, 1, 4)
    v = (x @ p["wv"]).view(B, N, heads, d).transpose(1, 2)
    weight = soft(q[0], k[0], dead) - lam(p, depth) * soft(q[1], k[1], dead)
    y = rms(weight @ v, p["gain"]) * (1.0 - lambda_init(depth))
    return y.transpose(1, 2).reshape(B, N, D) @ p["wo"]


def tremor_score(p, x, heads, dead=None):
    """One number per station set: energy of what is left after the noise."""
    y = differential_listen(p, x, heads, dead=dead)
    return y.pow(2).mean(dim=(1, 2)).sqrt()


def main():
    p = new_params(16, 2)
    x = torch.randn(3, 5, 16)
    dead = torch.zeros(3, 5, dtype=torch.bool)
    dead[1, 4] = True
    print(tremor_score(p, x, 2, dead))


if __name__ == "__main__":
    main()
