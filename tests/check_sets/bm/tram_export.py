"""Tram delay model: trained with PyTorch, runs at the stop with NumPy.

The display boards have no room for torch, hence the second half of this file.
``NumpyAttention`` has to give the numbers of

    nn.MultiheadAttention(d, heads, batch_first=True).eval()

from its state dict (in_proj_weight [3d, d], in_proj_bias [3d], out_proj.*).
"""
import json
import sys

import numpy as np

STOPS_PER_LINE = 24
FEATURES = ["scheduled_gap", "actual_gap", "dwell", "boarding", "rain", "is_peak"]


# ----------------------------------------------------------------------- NumPy
def layer_norm(x, w, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + eps) * w + b


class NumpyAttention:
    def __init__(self, state, heads, prefix=""):
        g = lambda n: np.asarray(state[prefix + n], dtype=np.float32)
        self.w_in, self.b_in = g("in_proj_weight"), g("in_proj_bias")
        self.w_out, self.b_out = g("out_proj.weight"), g("out_proj.bias")
        self.heads = heads

    def __call__(self, x, key_padding_mask=None):
        """x [b, n, d]; key_padding_mask [b, n] bool, True = stop not served (ignored)."""
        b, n, d = x.shape
        hd = d // self.heads
        packed = (x @ self.w_in.T + self.b_in).reshape(b, n, self.heads, 3, hd)
        q, k, v = packed.transpose(3, 0, 2, 1, 4)
        s = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(hd))
        if key_padding_mask is not None:
            s = np.where(key_padding_mask[:, None, None, :], np.float32(-np.inf), s)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        y = (s @ v).transpose(0, 2, 1, 3).reshape(b, n, d)
        return y @ self.w_out.T + self.b_out


class NumpyTram:
    def __init__(self, state, heads=4):
        self.s = {k: np.asarray(v, np.float32) for k, v in state.items()}
        self.att = NumpyAttention(self.s, heads, "att.")

    def __call__(self, x, skipped=None):
        s = self.s
        h = x @ s["inp.weight"].T + s["inp.bias"] + s["pos"][: x.shape[1]]
        h = h + self.att(layer_norm(h, s["n1.weight"], s["n1.bias"]), skipped)
        f = np.maximum(layer_norm(h, s["n2.weight"], s["n2.bias"]) @ s["up.weight"].T + s["up.bias"], 0)
        h = h + f @ s["down.weight"].T + s["down.bias"]
        return (h @ s["out.weight"].T + s["out.bias"])[..., 0]


# ----------------------------------------------------------------------- torch
def torch_model(d=32, heads=4):
    import torch
    from torch import nn

    class Tram(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(len(FEATURES), d)
            self.pos = nn.Parameter(torch.randn(STOPS_PER_LINE, d) * 0.02)
            self.att = nn.MultiheadAttention(d, heads, batch_first=True)
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.up, self.down, self.out = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), nn.Linear(d, 1)

        def forward(self, x, skipped=None):
            h = self.inp(x) + self.pos[: x.shape[1]]
            y = self.n1(h)
            h = h + self.att(y, y, y, key_padding_mask=skipped, need_weights=False)[0]
            h = h + self.down(self.up(self.n2(h)).relu())
            return self.out(h).squeeze(-1)

    return Tram()


def export(model, path):
    with open(path, "w") as f:
        json.dump({k: v.tolist() for k, v in model.state_dict().items()}, f)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        export(torch_model(), sys.argv[1])
