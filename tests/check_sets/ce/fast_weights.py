"""Causal linear attention as a recurrent network (Katharopoulos et al. 2020).

Notebook companion, NumPy float64. With phi(x) = elu(x) + 1 the attention

    y_i = phi(q_i)^T sum_{j<=i} phi(k_j) v_j^T  /  phi(q_i)^T sum_{j<=i} phi(k_j)

needs only a state (S, z) per head, so `step` costs the same for every token and
`run` is a loop over it. There is no softmax here and no 1/sqrt(d): phi is the
whole kernel. `S` is [heads, d, d_v], `z` is [heads, d].
"""
from dataclasses import dataclass, field

import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


@dataclass
class Config:
    dim: int = 24
    heads: int = 3
    eps: float = 1e-12
    seed: int = 0

    @property
    def d(self):
        return self.dim // self.heads


@dataclass
class State:
    S: np.ndarray
    z: np.ndarray
    t: int = 0


@dataclass
class FastWeightLayer:
    cfg: Config = field(default_factory=Config)

    def __post_init__(self):
        rng = np.random.default_rng(self.cfg.seed)
        n = self.cfg.dim
        self.Wq, self.Wk, self.Wv, self.Wo = rng.normal(0, n ** -0.5, (4, n, n))

    def empty(self):
        h, d = self.cfg.heads, self.cfg.d
        return State(np.zeros((h, d, d)), np.zeros((h, d)))

    def step(self, x, state):
        """x [dim] is the next token; returns y [dim] and the new state."""
        h, d = self.cfg.heads, self.cfg.d
        q = phi((x @ self.Wq).reshape(h, d))
        k = phi((x @ self.Wk).reshape(h, d))
        v = (x @ self.Wv).reshape(h, d)
        S = state.S + k[:, :, None] * v[:, None, :]
        z = state.z + k
        num = np.einsum("hd,hde->he", q, S)
        den = np.einsum("hd,hd->h", q, z)[:, None]
        y = num / (den + self.cfg.eps)
        return y.reshape(-1) @ self.Wo, State(S, z, state.t + 1)

    def run(self, xs, state=None):
        """xs [T, dim] -> ys [T, dim], state after the last token."""
        state = state or self.empty()
        ys = []
        for x in xs:
            y, state = self.step(x, state)
            ys.append(y)
        return np.stack(ys), state

    __call__ = run
