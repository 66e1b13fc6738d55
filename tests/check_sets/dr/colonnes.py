"""TP n°4 - L'attention avec des vecteurs colonnes.

Dans le cours (et dans le livre de Prince) un mot est une COLONNE : X est de taille
D x N. On calcule donc

    Q = bq + Wq X      (Dq x N)
    K = bk + Wk X      (Dq x N)
    V = bv + Wv X      (Dv x N)
    S = K^T Q / sqrt(Dq)             S[m, n] = accord de la clé m avec la requête n
    A = softmax par colonne de S     (chaque colonne fait 1)
    Y = V A            (Dv x N)

`garde` : vecteur booléen (N,), True = vrai mot, False = remplissage. Un mot de
remplissage n'est jamais lu (comme clé) ; les colonnes de Y qui lui correspondent ne
servent pas. Il y a au moins un vrai mot.
"""
import numpy as np


def softmax_colonnes(S):
    E = np.exp(S - S.max(axis=0, keepdims=True))
    return E / E.sum(axis=0, keepdims=True)


def attention(X, Wq, bq, Wk, bk, Wv, bv, garde=None):
    Q = bq[:, None] + Wq @ X
    K = bk[:, None] + Wk @ X
    V = bv[:, None] + Wv @ X
    S = K.T @ Q / np.sqrt(K.shape[0])
    if garde is not None:
        S = np.where(garde[:, None], S, -np.inf)
    return V @ softmax_colonnes(S)


def tetes(X, params, Wo, garde=None):
    """Plusieurs têtes : `params` est une liste de (Wq, bq, Wk, bk, Wv, bv) ; les sorties
    sont empilées l'une sous l'autre, puis multipliées par Wo (D x somme des Dv)."""
    return Wo @ np.vstack([attention(X, *p, garde=garde) for p in params])
