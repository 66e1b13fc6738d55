"""Rutas de trashumancia: predecir la siguiente majada a partir de las esquilas con GPS.

Flax NNX.  Atención causal con consultas agrupadas: `cabezas` consultas y `rebanos` pares llave/valor.
Como en los pesos publicados, las consultas contiguas comparten par: con 6 cabezas y 2 rebaños,
las cabezas 0, 1, 2 usan el par 0 y las cabezas 3, 4, 5 el par 1.
"""
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx


@dataclass
class Ajustes:
    ancho: int = 36
    cabezas: int = 6
    rebanos: int = 2
    capas: int = 2
    majadas: int = 80

    @property
    def por_cabeza(self):
        return self.ancho // self.cabezas


class AtencionAgrupada(nnx.Module):
    """x [B, L, ancho]; descanso [B, L] bool, True cuando el collar estaba apagado (no se mira)."""

    def __init__(self, aj: Ajustes, *, rngs: nnx.Rngs):
        self.aj = aj
        d = aj.por_cabeza
        self.q = nnx.Linear(aj.ancho, aj.cabezas * d, use_bias=False, rngs=rngs)
        self.k = nnx.Linear(aj.ancho, aj.rebanos * d, use_bias=False, rngs=rngs)
        self.v = nnx.Linear(aj.ancho, aj.rebanos * d, use_bias=False, rngs=rngs)
        self.o = nnx.Linear(aj.cabezas * d, aj.ancho, use_bias=False, rngs=rngs)

    def __call__(self, x, descanso=None):
        aj = self.aj
        B, L, _ = x.shape
        d = aj.por_cabeza
        q = self.q(x).reshape(B, L, aj.cabezas, d)
        k = self.k(x).reshape(B, L, aj.rebanos, d)
        v = self.v(x).reshape(B, L, aj.rebanos, d)
        veces = aj.cabezas // aj.rebanos
        k = jnp.tile(k, (1, 1, veces, 1))
        v = jnp.tile(v, (1, 1, veces, 1))

        s = jnp.einsum("blhd,bmhd->bhlm", q, k) / math.sqrt(d)
        i = jnp.arange(L)
        permitido = (i[None, :] <= i[:, None])[None, None]
        if descanso is not None:
            # uno siempre se ve a sí mismo, así no hay filas vacías
            permitido = permitido & (~descanso[:, None, None, :] | jnp.eye(L, dtype=bool))
        s = jnp.where(permitido, s, -jnp.inf)
        y = jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(s, axis=-1), v)
        return self.o(y.reshape(B, L, -1))


class Capa(nnx.Module):
    def __init__(self, aj, *, rngs):
        self.n1 = nnx.RMSNorm(aj.ancho, rngs=rngs)
        self.n2 = nnx.RMSNorm(aj.ancho, rngs=rngs)
        self.at = AtencionAgrupada(aj, rngs=rngs)
        self.subir = nnx.Linear(aj.ancho, 2 * aj.ancho, rngs=rngs)
        self.bajar = nnx.Linear(2 * aj.ancho, aj.ancho, rngs=rngs)

    def __call__(self, x, descanso):
        x = x + self.at(self.n1(x), descanso)
        return x + self.bajar(jax.nn.gelu(self.subir(self.n2(x))))


class Canada(nnx.Module):
    def __init__(self, aj: Ajustes, *, rngs: nnx.Rngs):
        self.majada = nnx.Embed(aj.majadas, aj.ancho, rngs=rngs)
        self.dia = nnx.Linear(2, aj.ancho, rngs=rngs)
        self.capas = nnx.List([Capa(aj, rngs=rngs) for _ in range(aj.capas)])
        self.fin = nnx.Linear(aj.ancho, aj.majadas, rngs=rngs)

    def __call__(self, majadas, dias, descanso=None):
        fase = 2 * jnp.pi * dias / 365.25
        h = self.majada(majadas) + self.dia(jnp.stack([jnp.sin(fase), jnp.cos(fase)], -1))
        for c in self.capas:
            h = c(h, descanso)
        return self.fin(h)


if __name__ == "__main__":
    red = Canada(Ajustes(), rngs=nnx.Rngs(1273))
    m = jax.random.randint(jax.random.PRNGKey(0), (2, 10), 0, 80)
    d = jnp.broadcast_to(jnp.arange(120, 130), (2, 10))
    apagado = jnp.zeros((2, 10), bool).at[1, 4:6].set(True)
    print(red(m, d, apagado).shape)
