"""TP 5 - Graph Attention Networks en NumPy pur, sur le club de karaté de Zachary.

Passe avant uniquement (les poids viennent du TP 4). Pour chaque tête :
    e_ij     = LeakyReLU(a_g . W x_i + a_d . W x_j)
    alpha_ij = softmax des e_ij sur les voisins j de i (i compris)
    x'_i     = somme_j alpha_ij W x_j
"""
import numpy as np


def leaky_relu(x, pente=0.2):
    return np.where(x > 0, x, pente * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def matrice_adjacence(aretes, n):
    A = np.eye(n)                       # boucles : chaque noeud est son propre voisin
    for i, j in aretes:
        A[i, j] = A[j, i] = 1.0
    return A


def coefficients(h, a_gauche, a_droite, A):
    """h (n, f) -> alpha (n, n), nul là où A est nul."""
    e = leaky_relu((h @ a_gauche)[:, None] + (h @ a_droite)[None, :])
    alpha = np.zeros_like(e)
    for i in range(len(h)):
        voisins = np.flatnonzero(A[i])
        alpha[i, voisins] = e[i, voisins] / e[i, voisins].sum()
    return alpha


def tete(X, poids, A):
    h = X @ poids["W"]
    alpha = coefficients(h, poids["a_gauche"], poids["a_droite"], A)
    return alpha @ h


def couche_gat(X, tetes, A, concatener=True):
    """Plusieurs têtes : concaténées (couche cachée) ou moyennées (dernière couche)."""
    sorties = [tete(X, t, A) for t in tetes]
    if concatener:
        return elu(np.concatenate(sorties, axis=1))
    return np.mean(sorties, axis=0)


def reseau(X, A, parametres):
    H = couche_gat(X, parametres["couche1"], A)
    Z = couche_gat(H, parametres["couche2"], A, concatener=False)
    return Z.argmax(axis=1)


def parametres_aleatoires(f_entree, f_cachee, n_classes, n_tetes, graine=0):
    g = np.random.default_rng(graine)

    def une(f, s):
        return {
            "W": g.normal(0, f ** -0.5, (f, s)),
            "a_gauche": g.normal(0, s ** -0.5, s),
            "a_droite": g.normal(0, s ** -0.5, s),
        }

    return {
        "couche1": [une(f_entree, f_cachee) for _ in range(n_tetes)],
        "couche2": [une(f_cachee * n_tetes, n_classes) for _ in range(n_tetes)],
    }


if __name__ == "__main__":
    aretes = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (3, 5)]
    A = matrice_adjacence(aretes, 6)
    X = np.eye(6)
    print(reseau(X, A, parametres_aleatoires(6, 8, 2, 3)))
