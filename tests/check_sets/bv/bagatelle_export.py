"""Exports a torch policy for the mechanical bagatelle table to plain NumPy.

Training uses ``torch.nn.MultiheadAttention`` over the pins on the table; the table's
controller has no torch, so it replays the same arithmetic with ``NumpyMHA``.
Masks keep torch's meaning everywhere in this file: True = do NOT look.
"""
import io

import numpy as np
import torch
from torch import nn


class PinPolicy(nn.Module):
    def __init__(self, width=24, heads=3, actions=5):
        super().__init__()
        self.enc = nn.Linear(4, width)
        self.att = nn.MultiheadAttention(width, heads, batch_first=True)
        self.head = nn.Linear(width, actions)

    def forward(self, ball, pins, missing):
        """ball [B, 1, 4], pins [B, P, 4], missing [B, P] bool."""
        b, p = self.enc(ball), self.enc(pins)
        y, _ = self.att(b, p, p, key_padding_mask=missing, need_weights=False)
        return self.head(b + y)[:, 0]


def to_npz(module: nn.Module) -> bytes:
    buf = io.BytesIO()
    np.savez(buf, **{k: t.detach().cpu().double().numpy() for k, t in module.state_dict().items()})
    return buf.getvalue()


def from_npz(raw: bytes) -> dict:
    with np.load(io.BytesIO(raw)) as f:
        return {k: f[k] for k in f.files}


class NumpyMHA:
    """Mirrors nn.MultiheadAttention(batch_first=True) in eval mode.

    ``sd`` holds in_proj_weight [3E, E] (q, k, v stacked), in_proj_bias, out_proj.*.
    """

    def __init__(self, sd, heads, prefix=""):
        g = lambda n: sd[prefix + n]
        self.wq, self.wk, self.wv = np.split(g("in_proj_weight"), 3, axis=0)
        self.bq, self.bk, self.bv = np.split(g("in_proj_bias"), 3, axis=0)
        self.wo, self.bo = g("out_proj.weight"), g("out_proj.bias")
        self.heads = heads

    def _heads(self, x):
        b, n, e = x.shape
        return x.reshape(b, n, self.heads, e // self.heads).transpose(0, 2, 1, 3)

    def __call__(self, query, key, value, key_padding_mask=None):
        """-> (output [B, Lq, E], weights averaged over the heads [B, Lq, Lk])."""
        q = self._heads(query @ self.wq.T + self.bq)
        k = self._heads(key @ self.wk.T + self.bk)
        v = self._heads(value @ self.wv.T + self.bv)
        s = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(q.shape[-1])
        if key_padding_mask is not None:
            s = np.where(key_padding_mask[:, None, None, :], -np.inf, s)
        s = s - s.max(axis=-1, keepdims=True)
        w = np.exp(s)
        w = w / w.sum(axis=-1, keepdims=True)
        y = np.matmul(w, v).transpose(0, 2, 1, 3)
        y = y.reshape(y.shape[0], y.shape[1], -1)
        return y @ self.wo.T + self.bo, w.mean(axis=1)


def deploy_check(seed=0, tol=1e-5):
    torch.manual_seed(seed)
    net = PinPolicy().eval()
    sd = from_npz(to_npz(net))
    x, p = torch.randn(2, 1, 24), torch.randn(2, 6, 24)
    want, _ = net.att(x, p, p)
    got, _ = NumpyMHA(sd, 3, "att.")(x.numpy(), p.numpy(), p.numpy())
    return float(np.abs(got - want.detach().numpy()).max()) < tol


if __name__ == "__main__":
    print("match:", deploy_check())
