"""Control del nixtamal: leer miles de muestras del tanque sin guardar la matriz completa.

JAX puro.  La atención va por trozos de llaves con `lax.scan`; cada cabeza tiene además un
*sumidero* aprendido (un logit sin valor), que entra sólo en el denominador: si nada importa,
la salida se acerca a cero.  Es lo mismo que softmax([logits, sumidero]) quitando la última
columna.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Parametros(NamedTuple):
    wq: jax.Array         # [c, h, d]
    wk: jax.Array         # [c, h, d]
    wv: jax.Array         # [c, h, d]
    wo: jax.Array         # [h, d, c]
    sumidero: jax.Array   # [h]


def iniciar(llave, c=16, h=2, d=8):
    k = jax.random.split(llave, 5)
    n = jax.nn.initializers.normal(c ** -0.5)
    return Parametros(n(k[0], (c, h, d)), n(k[1], (c, h, d)), n(k[2], (c, h, d)),
                      n(k[3], (h, d, c)), jax.random.normal(k[4], (h,)))


@partial(jax.jit, static_argnames=("trozo",))
def atencion_por_trozos(q, k, v, sumidero, validas, trozo=4):
    """q [b,m,h,d], k y v [b,n,h,d], sumidero [h], validas [b,n] bool (True = muestra buena).

    n no tiene que ser múltiplo de `trozo`.  Sin máscara causal: el tanque se mira entero.
    """
    b, m, h, d = q.shape
    n = k.shape[1]
    falta = -n % trozo
    k = jnp.pad(k, ((0, 0), (0, falta), (0, 0), (0, 0)))
    v = jnp.pad(v, ((0, 0), (0, falta), (0, 0), (0, 0)))
    ok = jnp.pad(validas, ((0, 0), (0, falta)), constant_values=False)
    partes = (n + falta) // trozo

    def trocear(x):
        return jnp.moveaxis(x.reshape(b, partes, trozo, *x.shape[2:]), 1, 0)

    q = q.astype(jnp.float32) * d ** -0.5

    def paso(estado, xs):
        tope, suma, acum = estado
        kc, vc, oc = xs
        s = jnp.einsum("bmhd,bthd->bhmt", q, kc.astype(jnp.float32))
        s = jnp.where(oc[:, None, None, :], s, -jnp.inf)
        nuevo = jnp.maximum(tope, s.max(-1))
        vieja = jnp.exp(tope - nuevo)
        e = jnp.exp(s - nuevo[..., None])
        suma = suma * vieja + e.sum(-1)
        acum = acum * vieja[..., None] + jnp.einsum("bhmt,bthd->bhmd", e, vc.astype(jnp.float32))
        return (nuevo, suma, acum), None

    # el sumidero es la primera "llave": tope = su logit, suma = exp(0), valor cero
    tope = jnp.broadcast_to(sumidero[None, :, None], (b, h, m)).astype(jnp.float32)
    inicio = (tope, jnp.ones((b, h, m)), jnp.zeros((b, h, m, d)))
    (_, suma, acum), _ = lax.scan(paso, inicio, (trocear(k), trocear(v), trocear(ok)))
    return jnp.moveaxis(acum / suma[..., None], 1, 2).astype(v.dtype)


def capa(p: Parametros, x, validas, trozo=4):
    q, k, v = (jnp.einsum("bnc,chd->bnhd", x, w) for w in (p.wq, p.wk, p.wv))
    y = atencion_por_trozos(q, k, v, p.sumidero, validas, trozo=trozo)
    return x + jnp.einsum("bnhd,hdc->bnc", y, p.wo)


def punto_de_cal(p, lecturas, validas):
    """Promedio de las muestras buenas después de una capa."""
    y = capa(p, lecturas, validas)
    w = validas[..., None].astype(y.dtype)
    return (y * w).sum(1) / jnp.maximum(w.sum(1), 1.0)


if __name__ == "__main__":
    p = iniciar(jax.random.PRNGKey(5))
    x = jax.random.normal(jax.random.PRNGKey(6), (2, 11, 16))
    v = jnp.arange(11)[None] < jnp.array([[11], [7]])
    print(punto_de_cal(p, x, v).shape)
