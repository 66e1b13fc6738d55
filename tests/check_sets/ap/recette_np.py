"""Encodeur de recettes de cuisine (NumPy pur) : plongements, N couches, moyenne.

Conventions
-----------
jetons    : int (B, L), 0 = remplissage
remplis   : float (B, L), 1. = remplissage (a ignorer), 0. = vrai jeton ; le meme tableau
            sert a toutes les couches
poids     : dictionnaire plat, matrices (entree, sortie)
"""
import numpy as np

TRES_NEGATIF = -1e9


def tirage(vocab, dim, couches, graine=0):
    rng = np.random.default_rng(graine)
    p = {"plong": rng.normal(0, 1, (vocab, dim))}
    for i in range(couches):
        for n in ("wq", "wk", "wv", "wo"):
            p[f"{i}.{n}"] = rng.normal(0, dim ** -0.5, (dim, dim))
        p[f"{i}.m1"] = rng.normal(0, dim ** -0.5, (dim, 2 * dim))
        p[f"{i}.m2"] = rng.normal(0, (2 * dim) ** -0.5, (2 * dim, dim))
    return p


def exp_norm(s):
    """softmax sur le dernier axe"""
    haut = s.max(axis=-1, keepdims=True)
    return np.exp(s - haut) / np.exp(s).sum(axis=-1, keepdims=True)


def normer(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def attention(p, i, x, remplis, tetes):
    """Attention multi-tetes, x (B, L, D) -> (B, L, D)."""
    B, L, D = x.shape
    d = D // tetes
    decoupe = lambda y: y.reshape(B, L, tetes, d).transpose(0, 2, 1, 3)
    q = decoupe(x @ p[f"{i}.wq"])
    k = decoupe(x @ p[f"{i}.wk"])
    v = decoupe(x @ p[f"{i}.wv"])
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    if remplis is not None:
        biais = remplis[:, None, None, :]
        biais *= TRES_NEGATIF
        s = s + biais
    a = exp_norm(s)
    y = (a @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ p[f"{i}.wo"]


def couche(p, i, x, remplis, tetes):
    x = x + attention(p, i, normer(x), remplis, tetes)
    h = np.maximum(normer(x) @ p[f"{i}.m1"], 0)
    return x + h @ p[f"{i}.m2"]


def encoder(p, jetons, couches, tetes, remplis=None):
    """Vecteur (B, D) par recette : moyenne des vrais jetons."""
    if remplis is None:
        remplis = (jetons == 0).astype(float)
    x = p["plong"][jetons]
    for i in range(couches):
        x = couche(p, i, x, remplis, tetes)
    vrai = (jetons != 0)[..., None]
    return (x * vrai).sum(1) / np.maximum(vrai.sum(1), 1)


def proches(vecteurs, requete, n=5):
    """Indices des n recettes les plus proches (cosinus)."""
    u = vecteurs / np.linalg.norm(vecteurs, axis=-1, keepdims=True)
    r = requete / np.linalg.norm(requete)
    return np.argsort(-(u @ r))[:n]
