"""Migrația berzelor albe: model Flax peste fixările GPS zilnice.

Atenție cu poartă sigmoidă pe ieșirea fiecărui cap (gated attention) și fereastră
locală simetrică: ziua i vede zilele j cu |i - j| <= raza.
"""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp

ESCALE = ("Delta Dunării", "Bosfor", "Valea Iordanului", "Sudd", "Serengeti")


def fereastra(n: int, raza: int) -> jax.Array:
    i = jnp.arange(n)
    return jnp.abs(i[:, None] - i[None, :]) <= raza


def haversine(a, b):
    """km între perechi (lat, lon) în grade"""
    a, b = jnp.deg2rad(a), jnp.deg2rad(b)
    d = b - a
    h = jnp.sin(d[..., 0] / 2) ** 2 + jnp.cos(a[..., 0]) * jnp.cos(b[..., 0]) * jnp.sin(d[..., 1] / 2) ** 2
    return 6371.0 * 2 * jnp.arcsin(jnp.sqrt(h))


class AtentieCuPoarta(nn.Module):
    """x [B, N, D]; lipsa [B, N] bool, True = zi fără semnal (nu e privită).

    O zi fără niciun vecin vizibil primește zero înainte de proiecția `iesire`.
    """
    capete: int = 4
    raza: int = 3
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, lipsa: Optional[jax.Array] = None) -> jax.Array:
        B, N, D = x.shape
        d = D // self.capete

        def proiectie(nume):
            return nn.DenseGeneral((self.capete, d), dtype=self.dtype, name=nume)(x)

        q, k, v = proiectie("q"), proiectie("k"), proiectie("v")
        poarta = nn.sigmoid(proiectie("poarta"))
        s = jnp.einsum("bnhd,bmhd->bhnm", q / jnp.sqrt(d), k).astype(jnp.float32)
        vede = fereastra(N, self.raza)[None, None]
        if lipsa is not None:
            vede = vede & ~lipsa[:, None, None, :]
        s = jnp.where(vede, s, -jnp.inf)
        # jax.nn.softmax cu where= ar da NaN pe rânduri goale, deci de mână
        m = jnp.max(s, axis=-1, keepdims=True)
        e = jnp.where(vede, jnp.exp(s - jnp.where(jnp.isfinite(m), m, 0.0)), 0.0)
        p = e / jnp.maximum(e.sum(-1, keepdims=True), 1e-30)
        y = jnp.einsum("bhnm,bmhd->bnhd", p.astype(self.dtype), v) * poarta
        return nn.DenseGeneral(D, axis=(-2, -1), dtype=self.dtype, name="iesire")(y)


class ModelBerze(nn.Module):
    straturi: int = 2
    D: int = 32

    @nn.compact
    def __call__(self, fixari, lipsa=None):
        h = nn.Dense(self.D)(fixari)
        for _ in range(self.straturi):
            h = h + AtentieCuPoarta()(nn.LayerNorm()(h), lipsa)
            h = h + nn.Dense(self.D)(nn.gelu(nn.Dense(2 * self.D)(nn.LayerNorm()(h))))
        return nn.Dense(len(ESCALE))(h.mean(1))


if __name__ == "__main__":
    x = jnp.ones((2, 14, 4))
    m = ModelBerze()
    p = m.init(jax.random.PRNGKey(0), x)
    print(m.apply(p, x).shape)
