"""Set Transformer (Lee et al. 2019) in Flax: two SABs and a PMA with k >= 2 seeds.

Used to summarise a jet of particles: x (B, n, F) -> (B, k, dim), invariant under permutation
of the particles. All sets have the same size n, so there is no mask.

MAB(X, Y) = LN(H + relu(H W)),  H = LN(X W_q + heads(softmax(Q K^T / sqrt(d_head)) V)),
where every row of X distributes a total weight of 1 over the rows of Y in each head.
SAB(X) = MAB(X, X),  PMA(X) = MAB(seeds, relu(X W)).
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class MAB(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, X, Y):
        d = self.dim // self.heads
        Q = nn.Dense(self.dim, name="q")(X)
        K = nn.DenseGeneral((self.heads, d), name="k")(Y)
        V = nn.DenseGeneral((self.heads, d), name="v")(Y)
        Qh = Q.reshape(*Q.shape[:2], self.heads, d)
        logits = jnp.einsum("bqhd,bkhd->bhqk", Qh, K) / jnp.sqrt(d)
        A = jax.nn.softmax(logits, axis=2)
        H = Q + jnp.einsum("bhqk,bkhd->bqhd", A, V).reshape(Q.shape)
        H = nn.LayerNorm(name="ln0")(H)
        H = H + jax.nn.relu(nn.Dense(self.dim, name="ff")(H))
        return nn.LayerNorm(name="ln1")(H)


class JetSummary(nn.Module):
    dim: int = 32
    heads: int = 4
    k: int = 3

    @nn.compact
    def __call__(self, x):
        for i in range(2):
            x = MAB(self.dim, self.heads, name=f"sab{i}")(x, x)
        seeds = self.param("seeds", nn.initializers.normal(1.0), (1, self.k, self.dim))
        seeds = jnp.broadcast_to(seeds, (x.shape[0], self.k, self.dim))
        x = jax.nn.relu(nn.Dense(self.dim, name="pre")(x))
        return MAB(self.dim, self.heads, name="pma")(seeds, x)
