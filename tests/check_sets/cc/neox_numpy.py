"""Serve one attention layer of a Megatron-style checkpoint with numpy.

The fused weight `qkv.weight` is [hidden, heads * 3 * head_dim]: per head first its query, then
its key, then its value.  `blocked` is a float array [T, T], 1 where attention is not
allowed and 0 elsewhere; the service builds it once and passes it to all the layers.
"""
import numpy as np


class AttentionService:
    MIN = -1e9

    def __init__(self, checkpoint, heads):
        self.ckpt = checkpoint
        self.heads = heads

    def _softmax(self, z):
        top = z.max(axis=-1, keepdims=True)
        return np.exp(z - top) / np.exp(z).sum(axis=-1, keepdims=True)

    def _norm(self, x):
        g, b = self.ckpt["ln.weight"], self.ckpt["ln.bias"]
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    def run(self, x, blocked):
        """x: [T, hidden] -> [T, hidden]"""
        T, hidden = x.shape
        d = hidden // self.heads
        fused = self._norm(x) @ self.ckpt["qkv.weight"] + self.ckpt["qkv.bias"]
        q, k, v = fused.reshape(T, 3, self.heads, d).transpose(1, 2, 0, 3)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        blocked *= self.MIN
        weights = self._softmax(scores + blocked)
        mixed = (weights @ v).transpose(1, 0, 2).reshape(T, hidden)
        return x + mixed @ self.ckpt["out.weight"] + self.ckpt["out.bias"]


def example_checkpoint(hidden=32, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "ln.weight": np.ones(hidden),
        "ln.bias": np.zeros(hidden),
        "qkv.weight": rng.normal(0, hidden ** -0.5, (hidden, 3 * hidden)),
        "qkv.bias": rng.normal(0, 0.1, 3 * hidden),
        "out.weight": rng.normal(0, hidden ** -0.5, (hidden, hidden)),
        "out.bias": np.zeros(hidden),
    }


def causal_block(T):
    return np.triu(np.ones((T, T)), k=1)


if __name__ == "__main__":
    service = AttentionService(example_checkpoint(), heads=4)
    print(service.run(np.random.randn(6, 32), causal_block(6)).shape)
