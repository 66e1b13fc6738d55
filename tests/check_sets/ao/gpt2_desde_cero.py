"""GPT-2 desde cero con NumPy puro (solo inferencia).

Los pesos vienen en un diccionario con los mismos nombres que el checkpoint
original de TensorFlow: ``h0/attn/c_attn/w``, ``h0/attn/c_attn/b``, ...

Apuntes de la asignatura "Aprendizaje Profundo II".
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax_filas(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def norma_capa(x, g, b, eps=1e-5):
    media = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - media) / np.sqrt(var + eps) + b


def lineal(x, pesos, nombre):
    return x @ pesos[nombre + "/w"] + pesos[nombre + "/b"]


def partir(x, n_cabezas):
    """[T, D] -> [n_cabezas, T, D / n_cabezas]"""
    t, d = x.shape
    return x.reshape(t, n_cabezas, d // n_cabezas).swapaxes(0, 1)


def juntar(x):
    h, t, d = x.shape
    return x.swapaxes(0, 1).reshape(t, h * d)


def atencion_causal(x, pesos, prefijo, n_cabezas, memoria=None):
    """Autoatencion causal sobre x [T, D].

    ``memoria`` es None o la pareja (claves, valores) de los pasos previos,
    cada una de forma [n_cabezas, T_previo, d]. Devuelve (salida, memoria).
    """
    qkv = lineal(x, pesos, prefijo + "/c_attn")
    q, k, v = [partir(p, n_cabezas) for p in np.split(qkv, 3, axis=-1)]
    if memoria is not None:
        k = np.concatenate([memoria[0], k], axis=1)
        v = np.concatenate([memoria[1], v], axis=1)
    nq, nk = q.shape[1], k.shape[1]
    puntaje = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    # la fila i de la consulta es la posicion nk - nq + i de la frase
    fila = np.arange(nk - nq, nk)[:, None]
    columna = np.arange(nk)[None, :]
    puntaje = np.where(columna <= fila, puntaje, -np.inf)
    a = softmax_filas(puntaje)
    salida = lineal(juntar(a @ v), pesos, prefijo + "/c_proj")
    return salida, (k, v)


def bloque(x, pesos, i, n_cabezas, memoria=None):
    p = "h%d" % i
    y, memoria = atencion_causal(
        norma_capa(x, pesos[p + "/ln_1/g"], pesos[p + "/ln_1/b"]),
        pesos, p + "/attn", n_cabezas, memoria)
    x = x + y
    z = norma_capa(x, pesos[p + "/ln_2/g"], pesos[p + "/ln_2/b"])
    z = lineal(gelu(lineal(z, pesos, p + "/mlp/c_fc")), pesos, p + "/mlp/c_proj")
    return x + z, memoria


def generar(fichas, pesos, hparams, pasos):
    """Generacion voraz. ``fichas`` es una lista de enteros."""
    fichas = list(fichas)
    memorias = [None] * hparams["n_layer"]
    nuevas = fichas
    for _ in range(pasos):
        inicio = len(fichas) - len(nuevas)
        pos = np.arange(inicio, len(fichas))
        x = pesos["wte"][nuevas] + pesos["wpe"][pos]
        for i in range(hparams["n_layer"]):
            x, memorias[i] = bloque(x, pesos, i, hparams["n_head"], memorias[i])
        x = norma_capa(x, pesos["ln_f/g"], pesos["ln_f/b"])
        siguiente = int(np.argmax(x[-1] @ pesos["wte"].T))
        nuevas = [siguiente]
        fichas.append(siguiente)
    return fichas
