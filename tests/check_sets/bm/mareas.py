"""Predicción de mareas meteorológicas (meteotsunamis) en Baleares.

Atención por bloques con softmax en línea, para que la memoria no crezca con el
cuadrado de la serie (un año a un minuto son 525 600 puntos).
"""
import numpy as np

NEG = -np.inf


def _limites(n, paso):
    for a in range(0, n, paso):
        yield a, min(n, a + paso)


def atencion_por_bloques(q, k, v, *, causal=True, largos=None, bq=64, bk=64, tope=None):
    """softmax(q kᵀ / √d) v sin construir la matriz completa.

    q        (B, H, Lq, d)
    k, v     (B, H, Lk, d), (B, H, Lk, dv)
    causal   la última consulta está alineada con la última clave: la consulta i
             ve las claves j ≤ i + (Lk - Lq)
    largos   (B,) número de claves reales de cada serie (el resto es relleno)
    tope     si se da, las puntuaciones se comprimen: tope * tanh(s / tope)

    Una consulta que no puede ver ninguna clave devuelve ceros.
    """
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    if k.shape[2] != v.shape[2]:
        raise ValueError("k y v tienen longitudes distintas")
    B, H, Lq, d = q.shape
    Lk = k.shape[2]
    salida = np.zeros((B, H, Lq, v.shape[-1]))
    desfase = Lk - Lq
    if largos is not None:
        largos = np.asarray(largos)
        real = np.arange(Lk)[None] < largos[:, None]
        v = np.where(real[:, None, :, None], v, 0.0)
        k = np.where(real[:, None, :, None], k, 0.0)

    for a, b in _limites(Lq, bq):
        qi = q[:, :, a:b] * d ** -0.5
        maximo = np.full((B, H, b - a, 1), NEG)
        suma = np.zeros((B, H, b - a, 1))
        acum = np.zeros((B, H, b - a, v.shape[-1]))
        for c, e in _limites(Lk, bk):
            if causal and c > b - 1 + desfase:
                break                                   # todo lo que sigue es futuro
            s = qi @ k[:, :, c:e].swapaxes(-1, -2)
            if tope is not None:
                s = tope * np.tanh(s / tope)
            if causal:
                futuro = np.arange(c, e)[None] > np.arange(a, b)[:, None] + desfase
                s = np.where(futuro, NEG, s)
            if largos is not None:
                s = np.where(real[:, None, None, c:e], s, NEG)
            nuevo = np.maximum(maximo, s.max(-1, keepdims=True))
            base = np.where(np.isneginf(nuevo), 0.0, nuevo)
            corr = np.exp(maximo - base)
            p = np.exp(s - base)
            suma = suma * corr + p.sum(-1, keepdims=True)
            acum = acum * corr + p @ v[:, :, c:e]
            maximo = nuevo
        salida[:, :, a:b] = np.divide(acum, suma, out=np.zeros_like(acum), where=suma > 0)
    return salida


class CapaMarea:
    """Una capa, pesos sueltos en un diccionario (vienen de un .npz)."""

    def __init__(self, pesos, cabezas):
        self.p, self.h = pesos, cabezas

    def _partir(self, x, w):
        y = x @ w
        return y.reshape(*y.shape[:2], self.h, -1).transpose(0, 2, 1, 3)

    def __call__(self, x, largos=None):
        q, k, v = (self._partir(x, self.p[n]) for n in ("q", "k", "v"))
        o = atencion_por_bloques(q, k, v, largos=largos)
        return x + o.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ self.p["o"]


def quitar_marea_astronomica(nivel, t_horas, periodos=(12.4206, 12.0, 25.8193, 23.9345)):
    """Mínimos cuadrados sobre las constituyentes M2, S2, O1 y K1."""
    cols = [np.ones_like(t_horas)]
    for p in periodos:
        cols += [np.cos(2 * np.pi * t_horas / p), np.sin(2 * np.pi * t_horas / p)]
    A = np.stack(cols, 1)
    coef, *_ = np.linalg.lstsq(A, nivel, rcond=None)
    return nivel - A @ coef
