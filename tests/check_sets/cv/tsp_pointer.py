"""Pointer network head for the travelling salesman, flax."""
import jax
import jax.numpy as jnp
import flax.linen as nn


class Pointer(nn.Module):
    """Greedy tour over n cities.

    cities [B, n, 2] -> (tour [B, n] int, probs [B, n, n]); probs[:, t] is the distribution of step t.
    u_j = v^T tanh(W1 e_j + W2 g), g a glimpse (attention over the cities not yet visited); visited
    cities have probability zero. Logits of the pointer are clipped to [-C, C] by C tanh(u).
    """
    dim: int = 16
    C: float = 10.0

    @nn.compact
    def __call__(self, cities):
        B, n, _ = cities.shape
        e = nn.relu(nn.Dense(self.dim)(cities))
        W1 = nn.Dense(self.dim, use_bias=False)
        W2 = nn.Dense(self.dim)
        G1 = nn.Dense(self.dim, use_bias=False)
        G2 = nn.Dense(self.dim)
        v = self.param("v", nn.initializers.normal(1.0), (self.dim,))
        vg = self.param("vg", nn.initializers.normal(1.0), (self.dim,))
        cell = nn.GRUCell(self.dim)
        start = self.param("start", nn.initializers.normal(0.1), (self.dim,))

        ref, gref = W1(e), G1(e)
        state = e.mean(1)
        inp = jnp.broadcast_to(start, (B, self.dim))
        seen = jnp.zeros((B, n), bool)
        tour, probs = [], []
        for _ in range(n):
            state, out = cell(state, inp)
            ug = jnp.tanh(gref + G2(out)[:, None]) @ vg
            # clip first, mask afterwards
            g = jax.nn.softmax(jnp.where(seen, -jnp.inf, ug)) [..., None]
            glimpse = (g * gref).sum(1)
            u = self.C * jnp.tanh(jnp.tanh(ref + W2(glimpse)[:, None]) @ v)
            p = jax.nn.softmax(jnp.where(seen, -jnp.inf, u))
            c = p.argmax(-1)
            seen = seen | jax.nn.one_hot(c, n, dtype=bool)
            inp = jnp.take_along_axis(e, c[:, None, None], 1)[:, 0]
            tour.append(c)
            probs.append(p)
        return jnp.stack(tour, 1), jnp.stack(probs, 1)
