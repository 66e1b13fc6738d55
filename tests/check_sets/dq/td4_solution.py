"""TD 4 : modèle de langue minimal, une tête d'attention (solution proposée).

Le mot i est prédit à partir de ce qui précède : la ligne i de l'attention ne peut
utiliser que les mots 0..i (lui-même compris), jamais les suivants.
"""
import numpy as np


def softmax(S):
    """Softmax stable."""
    E = np.exp(S - S.max())
    return E / E.sum()


def tete_causale(X, Wq, Wk, Wv):
    """Une tête d'auto-attention causale sur une phrase.

    X      : (n, D)    un vecteur par mot
    Wq, Wk : (D, d)
    Wv     : (D, p)
    Renvoie (Y (n, p), A (n, n)) avec A = softmax de chaque ligne de Q K^T / sqrt(d)
    (chaque ligne de A somme à 1), A[i, j] = 0 si j > i, et Y = A V.
    """
    n = X.shape[0]
    Q = X @ Wq
    K = X @ Wk
    V = X @ Wv

    # a) compatibilités
    S = Q @ K.T / np.sqrt(Wk.shape[1])

    # b) on cache l'avenir
    passe = np.tril(np.ones((n, n)), k=1)
    S = np.where(passe == 1, S, -np.inf)

    # c) probabilités
    A = softmax(S)

    # d) moyenne pondérée
    return A @ V, A


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    Y, A = tete_causale(rng.normal(size=(4, 6)), *rng.normal(size=(3, 6, 3)))
    print(np.round(A, 2))
