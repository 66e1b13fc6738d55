# Aula 07 - atenção com várias cabeças, só com numpy
import numpy as np


def atencao_multi(X, Wq, Wk, Wv, Wo, n_cabecas):
    """
    X  : (T, D)    sequência de entrada
    W* : (D, D)    matrizes de projeção
    Devolve (T, D) e os pesos (n_cabecas, T, T)
    """
    T, D = X.shape
    d = D // n_cabecas

    def separa(M):
        return M.reshape(T, n_cabecas, d).swapaxes(0, 1)

    Q, K, V = separa(X @ Wq), separa(X @ Wk), separa(X @ Wv)

    pontos = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[0])

    # subtrai o máximo para estabilidade numérica
    maior = pontos.max(axis=-1, keepdims=True)
    pesos = np.exp(pontos - maior) / np.exp(pontos).sum(axis=-1, keepdims=True)

    Y = (pesos @ V).swapaxes(0, 1).reshape(T, D)
    return Y @ Wo, pesos


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 12))
    W = [rng.normal(size=(12, 12)) / np.sqrt(12) for _ in range(4)]
    Y, A = atencao_multi(X, *W, n_cabecas=3)
    print(Y.shape, A.shape)
