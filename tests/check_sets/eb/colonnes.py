"""Resume automatique : melangeur de phrases, version « colonnes ».

Attention : dans ce code les CLES sont les lignes et les REQUETES les colonnes.
La matrice A a la forme (B, Lk, Lq), chaque colonne est une distribution sur les cles,
et la sortie est  V^T A  remise dans l'ordre (B, Lq, dv).
"""
import numpy as np


def _par_colonne(S):
    S = S - S.max(axis=1, keepdims=True)
    P = np.exp(S)
    return P / P.sum(axis=1, keepdims=True)


def melanger(Q, K, V, vrai=None):
    """
    Q (B, Lq, d), K (B, Lk, d), V (B, Lk, dv)
    vrai (B, Lk) bool, True = vraie phrase, False = remplissage ; au moins une vraie par exemple
    renvoie (B, Lq, dv) et A (B, Lk, Lq)
    """
    d = Q.shape[-1]
    S = np.matmul(K, np.swapaxes(Q, 1, 2)) / np.sqrt(d)
    if vrai is not None:
        S = np.where(vrai[:, :, None], S, -np.inf)
    A = _par_colonne(S)
    Y = np.matmul(np.swapaxes(V, 1, 2), A)
    return np.swapaxes(Y, 1, 2), A


def resumer(phrases, vrai, W, k=2):
    """phrases (B, L, d), vrai comme plus haut, W = (Wq, Wk, Wv) chacune (d, d).

    Score d'une phrase = poids moyen qu'elle recoit des vraies phrases ;
    renvoie les k meilleurs indices (B, k), du meilleur au moins bon, et les scores (B, L).
    """
    Wq, Wk, Wv = W
    _, A = melanger(phrases @ Wq, phrases @ Wk, phrases @ Wv, vrai)
    n = vrai.sum(axis=1, keepdims=True)
    score = (A * vrai[:, None, :]).sum(axis=2) / n
    ordre = np.argsort(-score, axis=1)
    return ordre[:, :k], score
