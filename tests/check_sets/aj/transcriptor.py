"""Decodificador de notas para el proyecto "solfeo" (audio -> texto ABC), en NumPy puro.

Los pesos vienen de un diccionario exportado desde el modelo entrenado. Atención aditiva de
Bahdanau con el estado anterior del GRU:

    e_tj = v · tanh(Ws s_{t-1} + Wh h_j + b)
"""
import numpy as np


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-x))


class CeldaGRU:
    def __init__(self, pesos, prefijo):
        self.W = pesos[prefijo + "/W"]      # (entrada, 3H)  z | r | n
        self.U = pesos[prefijo + "/U"]      # (H, 3H)
        self.b = pesos[prefijo + "/b"]

    def __call__(self, x, s):
        H = s.shape[-1]
        a = x @ self.W + self.b
        u = s @ self.U
        z = sigmoide(a[:, :H] + u[:, :H])
        r = sigmoide(a[:, H:2 * H] + u[:, H:2 * H])
        n = np.tanh(a[:, 2 * H:] + r * u[:, 2 * H:])
        return (1 - z) * n + z * s


class AtencionAditiva:
    def __init__(self, pesos):
        self.Ws = pesos["atencion/Ws"]
        self.Wh = pesos["atencion/Wh"]
        self.b = pesos["atencion/b"]
        self.v = pesos["atencion/v"]

    def preparar(self, h):
        """parte que no depende del paso: Wh h + b, (B, J, A)"""
        return h @ self.Wh + self.b

    def __call__(self, s, h, h_proy, longitudes):
        """s (B, H) estado anterior; h (B, J, E) tramas; longitudes (B,) tramas válidas (>= 1)"""
        e = np.tanh((s @ self.Ws)[:, None, :] + h_proy) @ self.v
        fuera = np.arange(h.shape[1])[None, :] >= longitudes[:, None]
        e = np.where(fuera, -np.inf, e)
        e = e - e.max(axis=1, keepdims=True)
        alfa = np.exp(e)
        alfa = alfa / alfa.sum(axis=1, keepdims=True)
        contexto = (alfa[:, :, None] * h).sum(axis=1)
        return contexto, alfa


class Decodificador:
    def __init__(self, pesos):
        self.emb = pesos["emb"]
        self.celda = CeldaGRU(pesos, "gru")
        self.atencion = AtencionAditiva(pesos)
        self.W0, self.b0 = pesos["inicio/W"], pesos["inicio/b"]
        self.Wo, self.bo = pesos["salida/W"], pesos["salida/b"]

    def estado_inicial(self, h, longitudes):
        dentro = (np.arange(h.shape[1])[None, :] < longitudes[:, None]).astype(h.dtype)
        media = (h * dentro[:, :, None]).sum(1) / longitudes[:, None]
        return np.tanh(media @ self.W0 + self.b0)

    def paso(self, token, s, h, h_proy, longitudes):
        y = self.emb[token]
        c, alfa = self.atencion(s, h, h_proy, longitudes)
        s = self.celda(np.concatenate([y, c], axis=1), s)
        logits = np.concatenate([s, c, y], axis=1) @ self.Wo + self.bo
        return logits, s, alfa

    def voraz(self, h, longitudes, inicio=1, fin=2, maximo=60):
        B = h.shape[0]
        s = self.estado_inicial(h, longitudes)
        h_proy = self.atencion.preparar(h)
        token = np.full(B, inicio)
        salida, mapas = [], []
        acabado = np.zeros(B, bool)
        for _ in range(maximo):
            logits, s, alfa = self.paso(token, s, h, h_proy, longitudes)
            token = np.where(acabado, fin, logits.argmax(1))
            salida.append(token)
            mapas.append(alfa)
            acabado |= token == fin
            if acabado.all():
                break
        return np.stack(salida, 1), np.stack(mapas, 1)


def pesos_al_azar(V=40, E=12, H=16, D=8, A=10, semilla=0):
    r = np.random.default_rng(semilla)
    g = lambda *f: r.normal(0, 0.4, f)
    return {"emb": g(V, D), "gru/W": g(D + E, 3 * H), "gru/U": g(H, 3 * H), "gru/b": g(3 * H),
            "atencion/Ws": g(H, A), "atencion/Wh": g(E, A), "atencion/b": g(A), "atencion/v": g(A),
            "inicio/W": g(E, H), "inicio/b": g(H), "salida/W": g(H + E + D, V), "salida/b": g(V)}
