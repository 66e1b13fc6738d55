"""Atención escalada sin bibliotecas, para la clase del instituto.

Las matrices son listas de listas: Q tiene n filas de d números, K tiene m filas de d números
y V tiene m filas de cualquier ancho.
"""
import math


def producto(a, b):
    return sum(x * y for x, y in zip(a, b))


def softmax(fila):
    mayor = max(fila)
    exps = [math.exp(x - mayor) for x in fila]
    total = math.fsum(exps)
    return [e / total for e in exps]


def atencion(Q, K, V, causal=False):
    """Devuelve (salida, pesos).

    pesos[i][j] = softmax_j(Q[i].K[j] / sqrt(d)); cada fila de pesos suma 1.
    Con causal=True (n == m) la fila i solo mira las filas 0..i de K, y las demás reciben peso 0.
    """
    d = len(Q[0])
    pesos = []
    for i, q in enumerate(Q):
        visibles = K[:i + 1] if causal else K
        fila = softmax([producto(q, k) / math.sqrt(d) for k in visibles])
        fila += [0.0] * (len(K) - len(fila))     # el futuro no cuenta
        pesos.append(fila)
    columnas = list(zip(*V))
    salida = [[producto(fila, col) for col in columnas] for fila in pesos]
    return salida, pesos


def multicabeza(X, cabezas, causal=False):
    """X: n filas de cabezas * d números; cada cabeza usa su trozo como Q, K y V.

    Las salidas de las cabezas se concatenan en el mismo orden."""
    d = len(X[0]) // cabezas
    trozos = []
    for c in range(cabezas):
        H = [fila[c * d:(c + 1) * d] for fila in X]
        trozos.append(atencion(H, H, H, causal)[0])
    return [sum((t[i] for t in trozos), []) for i in range(len(X))]


if __name__ == "__main__":
    ejemplo = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    print(atencion(ejemplo, ejemplo, ejemplo)[1])
