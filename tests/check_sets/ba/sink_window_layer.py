"""gpt-oss flavoured layer: learned sink logits, alternate sliding window.

layer_types[i] == "sliding": a token sees itself and the window-1 tokens before
it (the HF convention, `window` keys in all). "full": plain causal.
"""
import torch
from torch import nn


CONFIG = {
    "hidden": 40, "heads": 4, "kv_heads": 2, "head_dim": 10, "window": 3,
    "layer_types": ["sliding", "full"],
}


def sink_softmax(scores: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """softmax over keys plus one virtual key per head which has no value.

    scores [b, h, q, k]; sinks [h]. Rows sum to less than one by design.
    """
    b, h, q, _ = scores.shape
    extra = sinks.view(1, h, 1, 1).expand(b, h, q, 1)
    joint = torch.cat([scores, extra], dim=-1)
    joint = joint - joint.amax(dim=-1, keepdim=True)
    return joint.softmax(dim=-1)[..., :-1]


class SinkAttention(nn.Module):
    def __init__(self, cfg=CONFIG, layer_idx=0):
        super().__init__()
        self.h, self.kv, self.d = cfg["heads"], cfg["kv_heads"], cfg["head_dim"]
        self.qkv = nn.Linear(cfg["hidden"], (self.h + 2 * self.kv) * self.d)
        self.out = nn.Linear(self.h * self.d, cfg["hidden"])
        self.sinks = nn.Parameter(torch.randn(self.h))
        sliding = cfg["layer_types"][layer_idx % len(cfg["layer_types"])] == "sliding"
        self.window = cfg["window"] if sliding else None

    def allowed(self, n, device):
        i = torch.arange(n, device=device)[:, None]
        j = torch.arange(n, device=device)[None, :]
        ok = j <= i
        if self.window is not None:
            ok &= (i - j) < self.window
        return ok

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).split([self.h * self.d, self.kv * self.d, self.kv * self.d], dim=-1)
        q = q.view(b, n, self.kv, self.h // self.kv, self.d)
        k = k.view(b, n, self.kv, self.d)
        v = v.view(b, n, self.kv, self.d)
        s = torch.einsum("bqkgd,bskd->bkgqs", q, k) * self.d ** -0.5
        s = s.flatten(1, 2)
        s = s.masked_fill(~self.allowed(n, x.device), float("-inf"))
        p = sink_softmax(s.float(), self.sinks.float()).to(v.dtype)
        p = p.unflatten(1, (self.kv, self.h // self.kv))
        y = torch.einsum("bkgqs,bskd->bqkgd", p, v)
        return self.out(y.reshape(b, n, -1))


class TinyStack(nn.Module):
    def __init__(self, cfg=CONFIG):
        super().__init__()
        self.layers = nn.ModuleList(SinkAttention(cfg, i) for i in range(len(cfg["layer_types"])))
        self.norms = nn.ModuleList(nn.LayerNorm(cfg["hidden"]) for _ in self.layers)

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x
