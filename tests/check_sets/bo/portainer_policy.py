"""Ship-to-shore crane policy, imported from the simulator team's exporter.

The exporter writes one fused matrix per layer, `wqkv`, of shape
[n_head * 3 * head_dim, width].  Its rows go head by head, and within a head
first the query rows, then the key rows, then the value rows:

    [q_0 | k_0 | v_0 | q_1 | k_1 | v_1 | ...]

Weights are plain dicts of tensors, so this file has no nn.Module.
"""
import torch
import torch.nn.functional as F

CFG = dict(width=36, n_head=3, layers=2, n_container=20)


def init_layer(cfg, gen=None):
    w = cfg["width"]
    r = lambda *s: torch.randn(*s, generator=gen) * s[-1] ** -0.5
    return {
        "wqkv": r(3 * w, w), "bqkv": torch.zeros(3 * w),
        "wo": r(w, w),
        "ln_g": torch.ones(w), "ln_b": torch.zeros(w),
        "up": r(2 * w, w), "down": r(w, 2 * w),
    }


def crane_attention(p, x, reachable, cfg=CFG):
    """Scaled dot-product attention of container slots among themselves.

    p          layer dict (layout of the fused matrix: see the top of the file)
    x          [B, N, width]
    reachable  [B, N] bool, True = the spreader can get there; others are not
               to be looked at.  At least one slot is reachable.
    """
    B, N, W = x.shape
    H = cfg["n_head"]
    d = W // H
    qkv = F.linear(x, p["wqkv"], p["bqkv"])
    qkv = qkv.view(B, N, 3, H, d)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scale = 1.0 / H ** 0.5
    att = (q * scale) @ k.transpose(-2, -1)
    att = att.masked_fill(~reachable[:, None, None, :], float("-inf"))
    att = torch.softmax(att.float(), dim=-1).to(x.dtype)
    y = (att @ v).permute(0, 2, 1, 3).reshape(B, N, W)
    return F.linear(y, p["wo"])


def block(p, x, reachable, cfg=CFG):
    h = F.layer_norm(x, x.shape[-1:], p["ln_g"], p["ln_b"])
    x = x + crane_attention(p, h, reachable, cfg)
    return x + F.linear(F.relu(F.linear(x, p["up"])), p["down"])


def policy(params, x, reachable, cfg=CFG):
    """Probability of lifting each slot next."""
    for p in params:
        x = block(p, x, reachable, cfg)
    logit = x.mean(-1).masked_fill(~reachable, float("-inf"))
    return logit.softmax(-1)


def lift_sequence(params, x, cfg=CFG):
    """Greedy unloading order of one bay; the tier above blocks the one below."""
    left = torch.ones(x.shape[:2], dtype=torch.bool)
    order = []
    for _ in range(x.shape[1]):
        i = policy(params, x, left, cfg).argmax(-1)
        order.append(i)
        left = left.clone()
        left[torch.arange(x.shape[0]), i] = False
    return torch.stack(order, 1)


if __name__ == "__main__":
    g = torch.Generator().manual_seed(3)
    params = [init_layer(CFG, g) for _ in range(CFG["layers"])]
    print(lift_sequence(params, torch.randn(2, CFG["n_container"], CFG["width"])))
