"""GAT en numpy, inférence seulement (Cora). Les poids viennent d'un .npz."""
import numpy as np


def lrelu(x, pente=0.2):
    return np.where(x > 0, x, pente * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def adjacence(aretes, n):
    """aretes : liste (source, cible). A[i, j] = 1 si i reçoit un message de j ; boucles ajoutées."""
    A = np.zeros((n, n), dtype=bool)
    for s, c in aretes:
        A[c, s] = True
    A[np.arange(n), np.arange(n)] = True
    return A


def couche_gat(X, A, poids, concat=True):
    """
    X      [n, entree]
    A      [n, n] bool
    poids  dict : "W" [tetes, entree, sortie], "a_i" [tetes, sortie], "a_j" [tetes, sortie], "b" [..]

    e_ij = LeakyReLU(a_i . W x_i + a_j . W x_j), softmax sur les voisins j de i.
    """
    Z = np.einsum("nf,hfo->hno", X, poids["W"])
    gauche = np.einsum("hno,ho->hn", Z, poids["a_i"])
    droite = np.einsum("hno,ho->hn", Z, poids["a_j"])
    E = lrelu(gauche[:, :, None] + droite[:, None, :])
    E = np.where(A[None], E, -np.inf)
    E = E - E.max(axis=2, keepdims=True)          # la boucle i -> i garantit un voisin
    P = np.exp(E)
    P /= P.sum(axis=2, keepdims=True)
    H = P @ Z                                      # [tetes, n, sortie]
    if concat:
        return elu(H.transpose(1, 0, 2).reshape(X.shape[0], -1) + poids["b"])
    return H.mean(0) + poids["b"]


def couche_par_aretes(X, aretes, poids):
    """La même chose (une tête moyennée), arête par arête ; sert à vérifier sur de petits graphes."""
    n = X.shape[0]
    voisins = {i: {i} for i in range(n)}
    for s, c in aretes:
        voisins[c].add(s)
    sortie = 0
    for W, ai, aj in zip(poids["W"], poids["a_i"], poids["a_j"]):
        Z = X @ W
        Y = np.zeros_like(Z)
        for i, vs in voisins.items():
            vs = sorted(vs)
            e = np.array([lrelu(ai @ Z[i] + aj @ Z[j]) for j in vs])
            p = np.exp(e - e.max())
            Y[i] = (p / p.sum()) @ Z[vs]
        sortie = sortie + Y
    return sortie / len(poids["W"]) + poids["b"]


def predire(X, aretes, fichier):
    A = adjacence(aretes, len(X))
    p = dict(np.load(fichier))
    l1 = {k[3:]: v for k, v in p.items() if k.startswith("l1/")}
    l2 = {k[3:]: v for k, v in p.items() if k.startswith("l2/")}
    return couche_gat(couche_gat(X, A, l1), A, l2, concat=False).argmax(1)
