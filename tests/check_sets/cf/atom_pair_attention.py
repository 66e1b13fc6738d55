"""Atom attention with pair bias for the structure module (numpy).

Every head is a softmax over the atoms j for each atom i of

    q_i . k_j / sqrt(d) + b_ij

``pair_bias`` depends only on the pair representation, so it is computed once per
structure and handed to all blocks and all recycling rounds.  The heads are gated
by a sigmoid of the atom features.
"""
from typing import Dict

import numpy as np

Weights = Dict[str, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def normalise(logits: np.ndarray) -> np.ndarray:
    """Softmax of the logits [H, N, N]."""
    e = np.exp(logits - logits.max())
    return e / e.sum()


def pair_bias(w: Weights, z: np.ndarray) -> np.ndarray:
    """z [N, N, C_z] -> [H, N, N]"""
    return np.ascontiguousarray(np.moveaxis(z @ w["bias"], -1, 0))


def attend(w: Weights, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """x [N, C], bias [H, N, N] -> [N, C]"""
    n, c = x.shape
    h = bias.shape[0]
    d = c // h
    q = (x @ w["q"]).reshape(n, h, d)
    k = (x @ w["k"]).reshape(n, h, d)
    v = (x @ w["v"]).reshape(n, h, d)
    logits = bias
    logits += np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d)
    p = normalise(logits)
    o = np.einsum("hij,jhd->ihd", p, v).reshape(n, c)
    return (sigmoid(x @ w["g"]) * o) @ w["o"]


class AtomTransformer:
    """The blocks share the pair bias; each has its own weights."""

    def __init__(self, blocks, bias_weights):
        self.blocks = blocks
        self.bias_weights = bias_weights

    def __call__(self, x: np.ndarray, z: np.ndarray, rounds: int = 1) -> np.ndarray:
        bias = pair_bias(self.bias_weights, z)
        for _ in range(rounds):
            for w in self.blocks:
                x = x + attend(w, x, bias)
        return x

    @classmethod
    def random(cls, c: int = 24, c_z: int = 8, heads: int = 3, depth: int = 2, seed: int = 0):
        rng = np.random.default_rng(seed)
        blocks = [{n: rng.normal(size=(c, c)) / np.sqrt(c) for n in "qkvgo"}
                  for _ in range(depth)]
        return cls(blocks, {"bias": rng.normal(size=(c_z, heads)) / np.sqrt(c_z)})


if __name__ == "__main__":
    rng = np.random.default_rng(2)
    net = AtomTransformer.random()
    print(net(rng.normal(size=(10, 24)), rng.normal(size=(10, 10, 8)), rounds=3).shape)
