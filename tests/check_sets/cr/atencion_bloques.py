import numpy as np


def atencion_por_bloques(Q, K, V, bloque=8, causal=False):
    """
    Atencion exacta por bloques con softmax en linea (estilo FlashAttention).

    Q: (n, d)   K: (m, d)   V: (m, dv)
    causal: las n consultas son las ultimas n de las m posiciones (n <= m);
            la consulta i ve las claves 0 .. i + m - n.
    Devuelve (n, dv).
    """
    n, d = Q.shape
    m = K.shape[0]
    salida = np.zeros((n, V.shape[1]))
    maximo = np.full((n, 1), -np.inf)
    denominador = np.zeros((n, 1))
    filas = np.arange(n)[:, None] + (m - n)

    for inicio in range(0, m, bloque):
        fin = min(inicio + bloque, m)
        puntos = Q @ K[inicio:fin].T / np.sqrt(d)
        if causal:
            columnas = np.arange(inicio, fin)[None, :]
            puntos = np.where(columnas <= filas, puntos, -np.inf)
        nuevo = np.maximum(maximo, puntos.max(axis=1, keepdims=True))
        # el primer bloque contiene la clave 0, visible para todas las filas
        p = np.exp(puntos - nuevo)
        correccion = np.exp(maximo - nuevo)
        denominador = denominador * correccion + p.sum(axis=1, keepdims=True)
        salida = salida * correccion + p @ V[inicio:fin]
        maximo = nuevo

    return salida / denominador
