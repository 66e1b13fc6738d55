# Inferencia de un BLOOM pequeño en NumPy, sin GPU, para la Raspberry Pi.
# ALiBi con cualquier número de cabezas (nuestro modelo tiene 12).
import math

import numpy as np

CONFIG = dict(n_capas=2, n_cabezas=12, dim=48, vocab=300, eps=1e-5)


def pendientes(n):
    """Pendientes de ALiBi, como en el código de Press et al.

    Potencia de dos: 2^(-8/n), 2^(-16/n), ...  Si no, las de la potencia anterior y, detrás,
    una de cada dos de la potencia siguiente.
    """
    def potencia(m):
        inicio = 2.0 ** (-(2.0 ** -(math.log2(m) - 3)))
        return [inicio * inicio ** i for i in range(m)]

    if math.log2(n).is_integer():
        return np.array(potencia(n))
    cerca = 2 ** math.floor(math.log2(n))
    return np.array(potencia(cerca) + potencia(2 * cerca)[0::2][:n - cerca])


def norma(x, g, b, eps):
    m = x.mean(-1, keepdims=True)
    s = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * g + b


def softmax_inplace(s):
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    return s


class AtencionBloom:
    """Autoatención causal con ALiBi.

    La proyección fusionada tiene el orden de BLOOM: (cabezas, 3, dim_cabeza).
    x: (B, T, dim); mascara: (B, T), 1 = token, 0 = relleno (a la izquierda o a la derecha).
    """

    def __init__(self, pesos, n_cabezas):
        self.Wqkv, self.bqkv = pesos['query_key_value.weight'], pesos['query_key_value.bias']
        self.Wo, self.bo = pesos['dense.weight'], pesos['dense.bias']
        self.h = n_cabezas
        self.pend = pendientes(n_cabezas)

    def __call__(self, x, mascara=None):
        B, T, D = x.shape
        d = D // self.h
        qkv = (x @ self.Wqkv.T + self.bqkv).reshape(B, T, self.h, 3, d)
        q, k, v = (qkv[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))

        s = q @ k.transpose(0, 1, 3, 2)
        s *= 1.0 / math.sqrt(d)

        i = np.arange(T)
        distancia = i[:, None] - i[None, :]          # > 0 hacia el pasado
        s -= self.pend[None, :, None, None] * distancia

        permitido = np.broadcast_to(distancia >= 0, (B, 1, T, T))
        if mascara is not None:
            permitido = permitido & (mascara[:, None, None, :] > 0)
        # mínimo finito: una fila de relleno no produce NaN
        s = np.where(permitido, s, np.finfo(s.dtype).min)

        o = softmax_inplace(s) @ v
        return o.transpose(0, 2, 1, 3).reshape(B, T, D) @ self.Wo.T + self.bo


def pesos_al_azar(rng, dim):
    g = lambda *f: rng.normal(0, 1 / math.sqrt(f[-1]), f)
    return {'query_key_value.weight': g(3 * dim, dim), 'query_key_value.bias': g(3 * dim),
            'dense.weight': g(dim, dim), 'dense.bias': np.zeros(dim)}


class BloomMini:
    def __init__(self, cfg=CONFIG, semilla=0):
        rng = np.random.default_rng(semilla)
        self.cfg = cfg
        self.emb = rng.normal(size=(cfg['vocab'], cfg['dim']))
        self.capas = [AtencionBloom(pesos_al_azar(rng, cfg['dim']), cfg['n_cabezas']) for _ in range(cfg['n_capas'])]

    def __call__(self, ids, mascara=None):
        g, b = np.ones(self.cfg['dim']), np.zeros(self.cfg['dim'])
        x = norma(self.emb[ids], g, b, self.cfg['eps'])
        for capa in self.capas:
            x = x + capa(norma(x, g, b, self.cfg['eps']), mascara)
        return norma(x, g, b, self.cfg['eps']) @ self.emb.T


if __name__ == '__main__':
    print(pendientes(12))
    print(BloomMini()(np.arange(10).reshape(2, 5)).argmax(-1))
