"""River-gauge imputation and 6 h flood forecast (data: state water authority).

Gauges fail during floods, of all times. The loader (NumPy) prepares additive
masks, the network (torch) uses them in all layers.

Mask format, for the whole repository: float array, 0.0 = reading usable,
-inf = gauge silent, to be ignored as a key.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SILENT = -999.0


def load_window(table: np.ndarray):
    """table (G, T) of levels in cm with SILENT markers.

    -> normalised values (G, T) and additive mask (G,): a gauge counts as silent
    when its latest reading is missing.
    """
    miss = table == SILENT
    clean = np.where(miss, np.nan, table)
    mu = np.nanmean(clean, axis=1, keepdims=True)
    sd = np.nanstd(clean, axis=1, keepdims=True) + 1e-6
    z = np.nan_to_num((clean - mu) / sd, nan=0.0)
    additive = np.where(miss[:, -1], -np.inf, 0.0)
    return z.astype(np.float32), additive.astype(np.float32)


def collate(windows):
    z, m = zip(*(load_window(w) for w in windows))
    return torch.from_numpy(np.stack(z)), torch.from_numpy(np.stack(m))


class GaugeAttention(nn.Module):
    """x (B, G, C); additive (B, G) float as described at the top (or None)."""

    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, additive=None):
        B, G, C = x.shape
        qkv = self.qkv(x).view(B, G, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn_mask = None
        if additive is not None:
            attn_mask = additive[:, None, None, :].to(torch.bool)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask,
            dropout_p=self.p if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(B, G, C))


class FloodNet(nn.Module):
    def __init__(self, history=24, dim=48, heads=4, layers=2, horizon=6):
        super().__init__()
        self.inp = nn.Linear(history, dim)
        self.att = nn.ModuleList(GaugeAttention(dim, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.out = nn.Linear(dim, horizon)

    def forward(self, z, additive=None):
        x = self.inp(z)
        for n, a in zip(self.norm, self.att):
            x = x + a(n(x), additive)
        return self.out(x)


def nash_sutcliffe(pred, obs):
    num = ((pred - obs) ** 2).sum(-1)
    den = ((obs - obs.mean(-1, keepdim=True)) ** 2).sum(-1).clamp_min(1e-6)
    return 1 - num / den


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    raw = rng.normal(200, 30, size=(3, 8, 24))
    raw[0, 2, -3:] = SILENT
    z, m = collate(raw)
    print(FloodNet().eval()(z, m).shape)
