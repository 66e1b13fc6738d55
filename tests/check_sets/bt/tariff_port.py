"""Customs tariff codes: runs the ministry's checkpoint (a NumPy .npz) in JAX.

Checkpoint conventions of the original trainer (GPT-NeoX family):
  * `qkv.weight` [3*D, D] and `qkv.bias` [3*D] are packed PER HEAD: head 0's q, k, v, then head 1's ...
  * rotary on the first `rot` channels of every head, half-split, the remaining channels pass
  * y = x W^T + b, residual outside of the block
The goods description may be continued: `past` holds rotated keys and values.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


class Checkpoint(dict):
    """Flat names -> arrays, with a prefix view."""

    def at(self, prefix):
        return Checkpoint({k[len(prefix) + 1:]: v for k, v in self.items() if k.startswith(prefix + ".")})

    @classmethod
    def fake(cls, rng, D=24, layers=2):
        c = cls()
        for i in range(layers):
            for name, shape in (("qkv", (3 * D, D)), ("out", (D, D))):
                c[f"layer{i}.{name}.weight"] = rng.normal(size=shape).astype(np.float32) * D ** -0.5
                c[f"layer{i}.{name}.bias"] = rng.normal(size=shape[0]).astype(np.float32) * 0.1
        return c


class Rotary:
    def __init__(self, rot, base=10000.0):
        self.rot = rot
        self.inv = base ** (-np.arange(0, rot, 2, dtype=np.float32) / rot)

    def __call__(self, x, first):
        # x [B, H, L, d]
        ang = (first + jnp.arange(x.shape[2]))[:, None] * self.inv
        cos, sin = (jnp.concatenate([f(ang), f(ang)], -1) for f in (jnp.cos, jnp.sin))
        r, keep = x[..., :self.rot], x[..., self.rot:]
        a, b = jnp.split(r, 2, axis=-1)
        return jnp.concatenate([r * cos + jnp.concatenate([-b, a], -1) * sin, keep], -1)


class TariffAttention:
    """Causal; block(x [B, L, D], past=None) -> (y [B, L, D], past)."""

    def __init__(self, ckpt, heads, rot):
        self.heads = heads
        self.w = {k: jnp.asarray(v) for k, v in ckpt.items()}
        self.rotary = Rotary(rot)

    def __call__(self, x, past=None):
        B, L, D = x.shape
        d = D // self.heads
        qkv = x @ self.w["qkv.weight"].T + self.w["qkv.bias"]
        q, k, v = jnp.split(qkv.reshape(B, L, self.heads, 3 * d).transpose(0, 2, 1, 3), 3, axis=-1)
        seen = 0 if past is None else past[0].shape[2]
        q, k = self.rotary(q, seen), self.rotary(k, seen)
        if past is not None:
            k, v = jnp.concatenate([past[0], k], 2), jnp.concatenate([past[1], v], 2)
        s = jnp.matmul(q, k.swapaxes(-1, -2)) / d ** 0.5
        ok = np.tri(L, seen + L, seen, dtype=bool)
        p = jax.nn.softmax(jnp.where(ok, s, jnp.finfo(s.dtype).min), axis=-1)
        y = jnp.matmul(p, v).transpose(0, 2, 1, 3).reshape(B, L, D)
        return y @ self.w["out.weight"].T + self.w["out.bias"], (k, v)


class TariffModel:
    def __init__(self, ckpt, layers=2, heads=3, rot=4):
        self.layers = [TariffAttention(ckpt.at(f"layer{i}"), heads, rot) for i in range(layers)]

    def __call__(self, x, past=None):
        past = past or [None] * len(self.layers)
        new = []
        for layer, p in zip(self.layers, past):
            y, p = layer(x, p)
            x = x + y
            new.append(p)
        return x, new


def chapter(code):
    """'8471.30' -> 84; the first two digits are the HS chapter."""
    return int("".join(ch for ch in code if ch.isdigit())[:2])


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    m = TariffModel(Checkpoint.fake(rng))
    x = rng.normal(size=(2, 6, 24)).astype(np.float32)
    y, past = m(x[:, :4])
    print(y.shape, m(x[:, 4:], past)[0].shape, chapter("8471.30"))
