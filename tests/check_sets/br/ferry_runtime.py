"""Ferry announcements on the ship's old PC: torch checkpoint in, NumPy forward out.

Only what is needed to run one grouped-query layer of a converted checkpoint.  The
checkpoint has the usual Hugging Face names (`q_proj.weight` [H * d, dim], `k_proj.weight`
[G * d, dim], ...) and the usual grouping: query heads 0 .. H/G - 1 belong to key/value
head 0, the next H/G to key/value head 1, and so on.  Rotary pairs are (i, i + d/2).
"""
import io

import numpy as np
import torch


def to_arrays(state_dict, prefix=""):
    """torch state dict -> float32 arrays, names without the prefix."""
    n = len(prefix)
    return {
        k[n:]: v.detach().to(torch.float32).cpu().numpy()
        for k, v in state_dict.items()
        if k.startswith(prefix)
    }


def read_checkpoint(blob, prefix=""):
    return to_arrays(torch.load(io.BytesIO(blob), weights_only=True), prefix)


class Ropes:
    def __init__(self, d, base=10000.0):
        self.inv = base ** (-np.arange(0, d, 2, dtype=np.float64) / d)

    def __call__(self, x, first):
        """x [heads, L, d]"""
        ang = (first + np.arange(x.shape[1]))[:, None] * self.inv
        c, s = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
        h = x.shape[-1] // 2
        a, b = x[..., :h], x[..., h:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


class FerryAttention:
    """Causal; keeps its own history until `cast_off()`.  Call with [L, dim]."""

    def __init__(self, arrays, heads, kv_heads):
        self.wq, self.wk, self.wv, self.wo = (
            arrays[f"{n}_proj.weight"].T for n in ("q", "k", "v", "o")
        )
        self.H, self.G = heads, kv_heads
        self.d = self.wq.shape[1] // heads
        self.rope = Ropes(self.d)
        self.cast_off()

    def cast_off(self):
        self.k = np.zeros((self.G, 0, self.d), np.float32)
        self.v = np.zeros((self.G, 0, self.d), np.float32)

    def _heads(self, y, n):
        return y.reshape(len(y), n, self.d).transpose(1, 0, 2)

    def __call__(self, x):
        L, past = len(x), self.k.shape[1]
        q = self.rope(self._heads(x @ self.wq, self.H), past)
        k = self.rope(self._heads(x @ self.wk, self.G), past)
        v = self._heads(x @ self.wv, self.G)
        self.k = np.concatenate([self.k, k], 1)
        self.v = np.concatenate([self.v, v], 1)

        reps = self.H // self.G
        k = np.tile(self.k, (reps, 1, 1))
        v = np.tile(self.v, (reps, 1, 1))
        s = q @ k.transpose(0, 2, 1) / np.sqrt(self.d).astype(q.dtype)
        late = np.arange(past + L)[None] > past + np.arange(L)[:, None]
        s[:, late] = -np.inf
        y = softmax(s) @ v
        return y.transpose(1, 0, 2).reshape(L, -1) @ self.wo


def toy_checkpoint(dim=48, heads=6, kv_heads=2, d=8, seed=0):
    """A random layer saved the way the trainer saves it."""
    g = torch.Generator().manual_seed(seed)
    w = lambda o, i: torch.randn(o, i, generator=g) * i ** -0.5
    sd = {
        "layer.q_proj.weight": w(heads * d, dim),
        "layer.k_proj.weight": w(kv_heads * d, dim),
        "layer.v_proj.weight": w(kv_heads * d, dim),
        "layer.o_proj.weight": w(dim, heads * d),
    }
    buf = io.BytesIO()
    torch.save(sd, buf)
    return buf.getvalue()


if __name__ == "__main__":
    att = FerryAttention(read_checkpoint(toy_checkpoint(), "layer."), 6, 2)
    rng = np.random.default_rng(0)
    for n in (4, 1, 2):
        print(att(rng.normal(size=(n, 48)).astype(np.float32))[:, :3])
