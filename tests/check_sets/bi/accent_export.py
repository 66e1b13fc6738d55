"""Accent placement for text-to-speech: trained in torch, spoken on a device with NumPy.

`AccentNet` is the trained model; `NumpyAccent` takes its state dict and must give the
same numbers (``python accent_export.py`` checks that on random input).
"""
import numpy as np
import torch
from torch import nn

VOWELS = set("aeiouyàèéìòù")


class AccentNet(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, 1)

    def forward(self, syll, pad):
        """syll (B, L, dim), pad (B, L) True = no syllable"""
        y, _ = self.attn(syll, syll, syll, key_padding_mask=pad)
        return self.fc(self.norm(syll + y)).squeeze(-1).masked_fill(pad, float("-inf"))


class NumpyAccent:
    """state: dict of arrays with torch's names (attn.in_proj_weight packs q, k, v)."""

    def __init__(self, state, heads):
        self.p = {k: np.asarray(v, dtype=np.float64) for k, v in state.items()}
        self.heads = heads

    def _split(self, x):
        b, l, c = x.shape
        return x.reshape(b, l, self.heads, c // self.heads).transpose(0, 2, 1, 3)

    def attention(self, x, pad):
        p, c = self.p, x.shape[-1]
        qkv = x @ p["attn.in_proj_weight"].T + p["attn.in_proj_bias"]
        q, k, v = (self._split(qkv[..., i * c:(i + 1) * c]) for i in range(3))
        s = q @ k.transpose(0, 1, 3, 2) / (c // self.heads) ** 0.5
        s = np.where(pad[:, None, None, :], -np.inf, s)
        e = np.exp(s - s.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)) @ v
        y = y.transpose(0, 2, 1, 3).reshape(x.shape)
        return y @ p["attn.out_proj.weight"].T + p["attn.out_proj.bias"]

    def layer_norm(self, x, eps=1e-5):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d ** 2).mean(-1, keepdims=True) + eps) * self.p["norm.weight"] + self.p["norm.bias"]

    def __call__(self, syll, pad):
        h = self.layer_norm(syll + self.attention(syll, pad))
        z = (h @ self.p["fc.weight"].T + self.p["fc.bias"])[..., 0]
        return np.where(pad, -np.inf, z)


def export(net):
    return {k: v.detach().cpu().numpy() for k, v in net.state_dict().items()}


def syllables(word):
    out, cur = [], ""
    for ch in word:
        cur += ch
        if ch in VOWELS:
            out.append(cur)
            cur = ""
    if cur and out:
        out[-1] += cur
    return out or [word]


if __name__ == "__main__":
    net = AccentNet().eval()
    x = torch.randn(3, 6, 32)
    pad = torch.arange(6)[None] >= torch.tensor([6, 4, 2])[:, None]
    with torch.no_grad():
        a = net(x, pad).numpy()
    b = NumpyAccent(export(net), 4)(x.numpy(), pad.numpy())
    ok = ~pad.numpy()
    print(syllables("capitano"), np.abs(a[ok] - b[ok]).max())
