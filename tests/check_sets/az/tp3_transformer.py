# TP3 - Apprentissage profond, M1 informatique
# Binôme : Léa / Mehdi
#
# Rappel du cours :   Attention(Q, K, V) = softmax( Q K^T / sqrt(d_k) ) V
# Le masque vaut 1 pour les mots qu'on peut regarder et 0 pour les autres.

import numpy as np

np.set_printoptions(precision=3, suppress=True)


def softmax(x):
    # on retire le max pour éviter les débordements
    haut = np.exp(x - np.max(x, axis=-1, keepdims=True))
    bas = np.sum(np.exp(x), axis=-1, keepdims=True)
    return haut / bas


def relu(x):
    return np.maximum(x, 0)


def normaliser(x, gamma, beta):
    m = np.mean(x, axis=-1, keepdims=True)
    s = np.std(x, axis=-1, keepdims=True)
    return gamma * (x - m) / (s + 1e-6) + beta


def couper(x, nb_tetes):
    """(lot, n, d) -> (lot, nb_tetes, n, d/nb_tetes)"""
    lot, n, d = x.shape
    return x.reshape(lot, n, nb_tetes, d // nb_tetes).transpose(0, 2, 1, 3)


def recoller(x):
    """(lot, nb_tetes, n, d_k) -> (lot, n, nb_tetes * d_k)"""
    lot, t, n, dk = x.shape
    return x.transpose(0, 2, 1, 3).reshape(lot, n, t * dk)


def attention_multi_tetes(x, poids, nb_tetes, masque=None):
    """Auto-attention sur x (lot, n, d). masque : (lot, n), 1 = vrai mot, 0 = bourrage."""
    Q = couper(x @ poids["WQ"], nb_tetes)
    K = couper(x @ poids["WK"], nb_tetes)
    V = couper(x @ poids["WV"], nb_tetes)
    scores = np.matmul(Q, K.transpose(0, 1, 3, 2)) / np.sqrt(K.shape[2])
    if masque is not None:
        scores = np.where(masque[:, None, None, :] == 1, scores, -1e9)
    A = softmax(scores)
    return recoller(np.matmul(A, V)) @ poids["WO"], A


def couche(x, p, nb_tetes, masque=None):
    y, _ = attention_multi_tetes(x, p, nb_tetes, masque)
    x = normaliser(x + y, p["g1"], p["b1"])
    y = relu(x @ p["W1"]) @ p["W2"]
    return normaliser(x + y, p["g2"], p["b2"])


def initialiser(d, d_cache, graine=0):
    alea = np.random.RandomState(graine)
    p = {}
    for nom in ("WQ", "WK", "WV", "WO"):
        p[nom] = alea.randn(d, d) / np.sqrt(d)
    p["W1"] = alea.randn(d, d_cache) / np.sqrt(d)
    p["W2"] = alea.randn(d_cache, d) / np.sqrt(d_cache)
    for i in "12":
        p["g" + i] = np.ones(d)
        p["b" + i] = np.zeros(d)
    return p


def question_4():
    """Afficher les poids d'attention de la première tête."""
    x = np.random.RandomState(1).randn(1, 6, 16)
    masque = np.array([[1, 1, 1, 1, 0, 0]])
    _, A = attention_multi_tetes(x, initialiser(16, 32), 2, masque)
    return A[0, 0]


if __name__ == "__main__":
    print(question_4())
    x = np.random.RandomState(2).randn(3, 6, 16)
    for graine in range(2):
        x = couche(x, initialiser(16, 32, graine), 2)
    print(x.mean(), x.std())
