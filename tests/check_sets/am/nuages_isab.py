"""Classification de nuages de points : Set Transformer (MAB, ISAB, PMA) en Flax.

Les nuages n'ont pas tous le même nombre de points ; `valide` (B, N) vaut True pour un vrai point.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class MAB(nn.Module):
    """Bloc d'attention multi-têtes: X regarde Y."""
    dim: int
    tetes: int = 4

    @nn.compact
    def __call__(self, x, y, valide=None):
        d = self.dim // self.tetes
        q = nn.Dense(self.dim, name="fc_q")(x)
        k = nn.Dense(self.dim, name="fc_k")(y)
        v = nn.Dense(self.dim, name="fc_v")(y)
        coupe = lambda z: z.reshape(*z.shape[:2], self.tetes, d)
        s = jnp.einsum("bqtd,bktd->btqk", coupe(q), coupe(k)) * d ** -0.5
        if valide is not None:
            s = jnp.where(valide[:, None, None, :], s, jnp.finfo(s.dtype).min)
        a = nn.softmax(s, axis=-1)
        o = jnp.einsum("btqk,bktd->bqtd", a, coupe(v)).reshape(q.shape)
        o = nn.LayerNorm()(q + o)
        return nn.LayerNorm()(o + nn.relu(nn.Dense(self.dim, name="fc_o")(o)))


class ISAB(nn.Module):
    dim: int
    tetes: int = 4
    inducteurs: int = 16

    @nn.compact
    def __call__(self, x, valide=None):
        i = self.param("I", nn.initializers.xavier_uniform(), (1, self.inducteurs, self.dim))
        i = jnp.broadcast_to(i, (x.shape[0], self.inducteurs, self.dim))
        h = MAB(self.dim, self.tetes)(i, x, valide)
        return MAB(self.dim, self.tetes)(x, h)


class PMA(nn.Module):
    dim: int
    tetes: int = 4
    graines: int = 1

    @nn.compact
    def __call__(self, x, valide=None):
        s = self.param("S", nn.initializers.xavier_uniform(), (1, self.graines, self.dim))
        s = jnp.broadcast_to(s, (x.shape[0], self.graines, self.dim))
        return MAB(self.dim, self.tetes)(s, x, valide)


class ClasseurDeNuages(nn.Module):
    classes: int
    dim: int = 32

    @nn.compact
    def __call__(self, points, valide=None):
        x = nn.Dense(self.dim)(points)
        x = ISAB(self.dim)(x, valide)
        x = ISAB(self.dim)(x, valide)
        x = PMA(self.dim)(x, valide)
        return nn.Dense(self.classes)(x[:, 0])


def recentrer(points, valide):
    """Centre sur le barycentre des vrais points et met dans la boule unité."""
    m = valide[..., None].astype(points.dtype)
    c = (points * m).sum(1, keepdims=True) / m.sum(1, keepdims=True)
    p = (points - c) * m
    r = jnp.sqrt((p ** 2).sum(-1)).max(1)
    return p / jnp.maximum(r, 1e-6)[:, None, None]


def perte(logits, y):
    return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()
