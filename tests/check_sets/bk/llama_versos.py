"""
llama_versos.py - generador de versos con un Llama chiquito, solo numpy.

Los pesos vienen de un .npz con los nombres de Hugging Face. Pensado para leerse de
arriba a abajo en clase; por eso no hay lotes: todo es (tiempo, cabeza, dim).
"""
import numpy as np


def softmax(x):
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def rms_norm(x, peso, eps=1e-6):
    return x / np.sqrt(np.mean(x ** 2, axis=-1, keepdims=True) + eps) * peso


def silu(x):
    return x / (1.0 + np.exp(-x))


def girar(x, posiciones, base=10000.0):
    """RoPE, mitades (formato HF). x: (T, H, d)"""
    d = x.shape[-1]
    frec = base ** (-np.arange(0, d, 2) / d)
    ang = posiciones[:, None] * frec
    c = np.cos(ang)[:, None, :]
    s = np.sin(ang)[:, None, :]
    a, b = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def repetir_kv(x, n):
    """(T, Hkv, d) -> (T, Hkv * n, d), una copia por cada consulta del grupo"""
    if n == 1:
        return x
    return np.tile(x, (1, n, 1))


class Atencion:
    """Atención causal con consultas agrupadas (GQA), con memoria de lo ya leído.

    Grupos consecutivos, como en Llama: con 4 consultas y 2 claves, las consultas
    0 y 1 usan la clave 0; las 2 y 3 usan la clave 1.
    """

    def __init__(self, pesos, n_q, n_kv):
        self.p, self.n_q, self.n_kv = pesos, n_q, n_kv
        self.k = self.v = None

    def __call__(self, x):
        t = x.shape[0]
        antes = 0 if self.k is None else self.k.shape[0]
        pos = np.arange(antes, antes + t)
        q = girar((x @ self.p["q_proj"].T).reshape(t, self.n_q, -1), pos)
        k = girar((x @ self.p["k_proj"].T).reshape(t, self.n_kv, -1), pos)
        v = (x @ self.p["v_proj"].T).reshape(t, self.n_kv, -1)
        if self.k is not None:
            k = np.concatenate([self.k, k])
            v = np.concatenate([self.v, v])
        self.k, self.v = k, v

        n = self.n_q // self.n_kv
        k, v = repetir_kv(k, n), repetir_kv(v, n)
        puntaje = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        futuro = np.arange(antes + t)[None, :] > pos[:, None]
        puntaje[:, futuro] = -np.inf
        y = np.einsum("hij,jhd->ihd", softmax(puntaje), v).reshape(t, -1)
        return y @ self.p["o_proj"].T


class Bloque:
    def __init__(self, p, n_q, n_kv):
        self.p = p
        self.aten = Atencion(p, n_q, n_kv)

    def __call__(self, x):
        x = x + self.aten(rms_norm(x, self.p["norma_1"]))
        h = rms_norm(x, self.p["norma_2"])
        return x + (silu(h @ self.p["gate"].T) * (h @ self.p["up"].T)) @ self.p["down"].T


def pesos_al_azar(ancho=32, n_q=4, n_kv=2, oculto=48, semilla=7):
    g = np.random.default_rng(semilla)
    m = lambda o, i: g.normal(0, i ** -0.5, (o, i))
    d = ancho // n_q
    return {
        "q_proj": m(ancho, ancho), "k_proj": m(n_kv * d, ancho), "v_proj": m(n_kv * d, ancho),
        "o_proj": m(ancho, ancho), "gate": m(oculto, ancho), "up": m(oculto, ancho),
        "down": m(ancho, oculto), "norma_1": np.ones(ancho), "norma_2": np.ones(ancho),
    }
