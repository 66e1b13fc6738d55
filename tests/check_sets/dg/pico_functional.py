"""A GPT block as one function on a dictionary of tensors (no nn.Module)."""
import math

import torch
import torch.nn.functional as F


def weights(C=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * s[0] ** -0.5
    return {"wq": r(C, C), "wk": r(C, C), "wv": r(C, C), "wo": r(C, C),
            "fc": r(C, 4 * C), "pr": r(4 * C, C),
            "g1": torch.ones(C), "g2": torch.ones(C)}


def attn(x, w, n_head):
    """Decoder-only: token t reads the tokens 0..t. x (B, T, C), scores scaled per head."""
    B, T, C = x.shape
    packed = torch.cat([w["wq"], w["wk"], w["wv"]], dim=1)
    q, v, k = (x @ packed).chunk(3, dim=-1)
    q, k, v = (t.reshape(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
    s = q @ k.transpose(-2, -1) / math.sqrt(C)
    ok = torch.ones(T, T, dtype=torch.bool, device=x.device).tril(diagonal=1)
    s = s.masked_fill(~ok, float("-inf"))
    y = F.softmax(s, dim=-1) @ v
    return y.transpose(1, 2).reshape(B, T, C) @ w["wo"]


def block(x, w, n_head=4):
    C = x.shape[-1]
    x = x + attn(F.layer_norm(x, (C,), w["g1"]), w, n_head)
    return x + F.gelu(F.layer_norm(x, (C,), w["g2"]) @ w["fc"]) @ w["pr"]
