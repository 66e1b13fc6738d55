# Conductivity of electrolyte mixtures (solvents + salts + additives), permutation invariant.
# Set transformer: self-attention among components, then pooling by one learned question.
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Heads(NamedTuple):
    """Sizes only; static."""
    n: int
    d: int

    def fold(self, x):
        # [B, N, n*d] -> [B*n, N, d], row b*n + h
        b, m, _ = x.shape
        return x.reshape(b, m, self.n, self.d).transpose(0, 2, 1, 3).reshape(b * self.n, m, self.d)

    def unfold(self, x, b):
        # [B*n, N, d] -> [B, N, n*d]
        m = x.shape[1]
        return x.reshape(self.n, b, m, self.d).transpose(1, 2, 0, 3).reshape(b, m, self.n * self.d)


class Weights(NamedTuple):
    q: jax.Array
    k: jax.Array
    v: jax.Array
    o: jax.Array

    @classmethod
    def random(cls, key, width):
        return cls(*(jax.random.normal(k, (width, width)) * width ** -0.5 for k in jax.random.split(key, 4)))


def set_attention(w: Weights, heads: Heads, ask, components, present):
    """ask [B, M, D], components [B, N, D], present [B, N] in {0, 1} -> [B, M, D].

    Absent components (present == 0) are never read; a mixture has at least one solvent.
    """
    b = ask.shape[0]
    q = heads.fold(ask @ w.q)
    k = heads.fold(components @ w.k)
    v = heads.fold(components @ w.v)
    logits = q @ k.swapaxes(1, 2) / jnp.sqrt(heads.d)
    keep = jnp.repeat(present, heads.n, axis=0)[:, None, :] > 0
    probs = jax.nn.softmax(jnp.where(keep, logits, -1e30), axis=-1)
    return heads.unfold(probs @ v, b) @ w.o


class MixtureModel(NamedTuple):
    lift: jax.Array
    mix: Weights
    pool: Weights
    question: jax.Array
    out: jax.Array

    @classmethod
    def random(cls, seed, features=6, width=12):
        a, b, c, d, e = jax.random.split(jax.random.PRNGKey(seed), 5)
        return cls(
            jax.random.normal(a, (features, width)) * 0.4,
            Weights.random(b, width),
            Weights.random(c, width),
            jax.random.normal(d, (1, 1, width)),
            jax.random.normal(e, (width,)) * 0.3,
        )


def log_conductivity(model: MixtureModel, components, present, inverse_kelvin):
    """components [B, N, F] (molar ratio first), inverse_kelvin [B] -> ln(sigma) [B]."""
    heads = Heads(3, model.lift.shape[1] // 3)
    h = jnp.tanh(components @ model.lift)
    h = h + set_attention(model.mix, heads, h, h, present)
    ask = jnp.broadcast_to(model.question, (h.shape[0], 1, h.shape[2]))
    z = set_attention(model.pool, heads, ask, h, present)[:, 0]
    barrier = jax.nn.softplus(z @ model.out)
    return z.mean(-1) - barrier * 1000.0 * inverse_kelvin      # Arrhenius


def loss(model, batch):
    pred = log_conductivity(model, batch["x"], batch["present"], batch["inv_T"])
    return jnp.mean((pred - batch["y"]) ** 2)


if __name__ == "__main__":
    rng = jax.random.PRNGKey(1)
    batch = dict(
        x=jax.random.uniform(rng, (4, 5, 6)),
        present=jnp.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]),
        inv_T=jnp.full((4,), 1 / 298.15),
        y=jnp.zeros(4),
    )
    m = MixtureModel.random(0)
    value, grad = jax.value_and_grad(loss)(m, batch)
    print(value, jax.tree.map(jnp.shape, grad).out)
