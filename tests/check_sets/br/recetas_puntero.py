# Resumidor de recetas antiguas con mecanismo de copia y cobertura.
# Sólo NumPy: sirve para la clase práctica, no para entrenar en serio.
#
#   e[t, i] = v · tanh(W_h h_i + W_s s_t + w_c c[t, i] + b)
#   a[t]    = softmax(e[t]) sobre las palabras reales de la receta
#   c[t+1]  = c[t] + a[t]                    (cobertura acumulada)
#   contexto[t] = sum_i a[t, i] h_i
#
# Como en el código original, la máscara se aplica después de la softmax y los
# pesos se vuelven a normalizar: el resultado es el mismo que enmascarar antes.

import numpy as np


def _softmax(x, eje=-1):
    x = x - x.max(axis=eje, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=eje, keepdims=True)


def _sigmoide(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class AtencionConCobertura:
    """h: (lote, n, dh) estados del codificador; s: (lote, ds) estado del decodificador.

    mascara: (lote, n), 1 = palabra de la receta, 0 = relleno.
    """

    def __init__(self, dh, ds, da, semilla=0):
        r = np.random.default_rng(semilla)
        self.W_h = r.normal(0, dh ** -0.5, (dh, da))
        self.W_s = r.normal(0, ds ** -0.5, (ds, da))
        self.w_c = r.normal(0, 0.5, da)
        self.b = np.zeros(da)
        self.v = r.normal(0, da ** -0.5, da)

    def __call__(self, h, s, mascara, cobertura=None):
        if cobertura is None:
            cobertura = np.zeros(mascara.shape)
        rasgos = (
            h @ self.W_h
            + (s @ self.W_s)[:, None, :]
            + cobertura[:, :, None] * self.w_c
            + self.b
        )
        e = np.tanh(rasgos) @ self.v                       # (lote, n)
        a = _softmax(e) * mascara
        a = a / a.sum(axis=1, keepdims=True)
        contexto = np.einsum("bi,bid->bd", a, h)
        return contexto, a, cobertura + a


class PasoDecodificador:
    """Una celda sencilla, la atención y la mezcla copiar/generar."""

    def __init__(self, dx, dh, ds, vocabulario, semilla=1):
        r = np.random.default_rng(semilla)
        self.atencion = AtencionConCobertura(dh, ds, da=ds, semilla=semilla + 1)
        self.W = r.normal(0, 0.2, (dx + dh + ds, ds))
        self.V = r.normal(0, 0.2, (ds + dh, vocabulario))
        self.p = r.normal(0, 0.2, dx + ds + dh)

    def __call__(self, x, s, contexto, h, mascara, cobertura, ids):
        s = np.tanh(np.concatenate([x, contexto, s], 1) @ self.W)
        contexto, a, cobertura = self.atencion(h, s, mascara, cobertura)
        generar = _sigmoide(np.concatenate([x, s, contexto], 1) @ self.p)[:, None]
        p = generar * _softmax(np.concatenate([s, contexto], 1) @ self.V)
        copiar = (1 - generar) * a
        for fila in range(len(p)):
            np.add.at(p[fila], ids[fila], copiar[fila])
        return p, s, contexto, cobertura


def perdida_cobertura(a, cobertura):
    return np.minimum(a, cobertura).sum(1).mean()


if __name__ == "__main__":
    r = np.random.default_rng(7)
    h = r.normal(size=(2, 6, 8))
    m = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], float)
    paso = PasoDecodificador(5, 8, 10, 30)
    s, c, cob = np.zeros((2, 10)), np.zeros((2, 8)), np.zeros((2, 6))
    for _ in range(4):
        p, s, c, cob = paso(r.normal(size=(2, 5)), s, c, h, m, cob, r.integers(0, 30, (2, 6)))
        print(p.sum(1), cob.sum(1))
