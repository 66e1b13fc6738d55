"""Seguimiento de pingüinos de Magallanes (Punta Tombo) con collares GPS.

Cada pingüino mira a los demás de su nido y de las cuevas vecinas.
Sólo numpy; los pesos vienen del notebook de entrenamiento (.npz).
"""
import numpy as np

RADIO_M = 30.0


def vecinos(pos, radio=RADIO_M):
    """[N, 2] metros -> [N, N] bool (cada uno es vecino de sí mismo)"""
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    return d <= radio


def suave(x, mascara=None):
    """softmax sobre la última dimensión, estable; True = entra."""
    if mascara is not None:
        x = np.where(mascara, x, -np.inf)
    tope = x.max(axis=-1, keepdims=True)
    num = np.exp(x - tope)
    den = np.exp(x).sum(axis=-1, keepdims=True)
    return num / den


class Colonia:
    """Atención entre individuos: x [N, D], pos [N, 2] -> [N, D]."""

    def __init__(self, pesos, cabezas=2):
        self.p = pesos
        self.cabezas = cabezas

    @classmethod
    def al_azar(cls, D=12, cabezas=2, semilla=0):
        g = np.random.default_rng(semilla)
        return cls({k: g.normal(size=(D, D)) * D ** -0.5 for k in ("q", "k", "v", "o")}, cabezas)

    def __call__(self, x, pos=None):
        N, D = x.shape
        h, d = self.cabezas, D // self.cabezas
        q = (x @ self.p["q"]).reshape(N, h, d).transpose(1, 0, 2)
        k = (x @ self.p["k"]).reshape(N, h, d).transpose(1, 0, 2)
        v = (x @ self.p["v"]).reshape(N, h, d).transpose(1, 0, 2)
        e = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        a = suave(e, None if pos is None else vecinos(pos)[None])
        y = (a @ v).transpose(1, 0, 2).reshape(N, D)
        return y @ self.p["o"]


def velocidad(trayecto, dt):
    """m/s entre fijos consecutivos, con los saltos del GPS recortados"""
    v = np.linalg.norm(np.diff(trayecto, axis=0), axis=-1) / dt
    return np.minimum(v, 4.0)


def rumbo_predicho(colonia, x, pos, W):
    """Ángulo hacia el que saldrá cada individuo a pescar."""
    y = colonia(x, pos) @ W
    return np.arctan2(y[:, 1], y[:, 0])


if __name__ == "__main__":
    g = np.random.default_rng(1)
    c = Colonia.al_azar()
    print(rumbo_predicho(c, g.normal(size=(6, 12)), g.uniform(0, 60, (6, 2)), g.normal(size=(12, 2))))
