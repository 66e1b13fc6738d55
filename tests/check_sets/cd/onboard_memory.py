"""Constant-memory policy memory for a microcontroller (numpy).

Linear attention (Katharopoulos et al. 2020) run as a recurrence; with
phi(x) = elu(x) + 1,

    S_t = S_{t-1} + phi(k_t) v_t^T          z_t = z_{t-1} + phi(k_t)
    y_t = phi(q_t)^T S_t / phi(q_t)^T z_t

which equals causal attention with the weights phi(q_i).phi(k_j), normalised per
row.  There is neither an exponential of the product nor a 1/sqrt(d).
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class LinearMemory:
    def __init__(self, w_in, w_out, heads=2):
        """w_in: (3, dim, dim) for q, k, v; w_out: (dim, dim)"""
        self.w_in = w_in
        self.w_out = w_out
        self.heads = heads
        self.reset()

    @property
    def head_dim(self):
        return self.w_out.shape[0] // self.heads

    def reset(self):
        d = self.head_dim
        self.S = np.zeros((self.heads, d, d))
        self.z = np.zeros((self.heads, d))

    def step(self, x):
        """x: (dim,) features of this control tick -> (dim,)"""
        q, k, v = ((x @ w).reshape(self.heads, self.head_dim) for w in self.w_in)
        q, k = phi(q), phi(k)
        self.S = self.S + k[:, :, None] * v[:, None, :]
        self.z = self.z + k
        y = np.einsum("hd,hde->he", q, self.S) / np.einsum("hd,hd->h", q, self.z)[:, None]
        return y.reshape(-1) @ self.w_out


class OnboardPolicy:
    """obs -> features -> memory -> action; one call per tick."""

    def __init__(self, obs_dim=9, dim=16, act_dim=4, heads=2, seed=0):
        rng = np.random.default_rng(seed)
        self.enc = rng.normal(size=(obs_dim, dim)) / np.sqrt(obs_dim)
        self.memory = LinearMemory(
            rng.normal(size=(3, dim, dim)) / np.sqrt(dim),
            rng.normal(size=(dim, dim)) / np.sqrt(dim),
            heads,
        )
        self.dec = rng.normal(size=(dim, act_dim)) / np.sqrt(dim)

    def reset(self):
        self.memory.reset()

    def act(self, obs):
        x = np.tanh(obs @ self.enc)
        return np.tanh((x + self.memory.step(x)) @ self.dec)

    def rollout(self, observations):
        self.reset()
        return np.stack([self.act(o) for o in observations])
