"""Transformer de musique (Huang et al. 2018), numpy : attention relative causale.

La matrice Er a une ligne par distance : Er[:, L-1] est la distance 0, Er[:, L-2] la distance 1 ...
Pour la requete i et la cle j <= i il faut donc la ligne L-1-(i-j) ; la methode du "skewing"
evite de construire le tenseur (L, L, d).
"""
import numpy as np

DUREES = ("ronde", "blanche", "noire", "croche")


def notes_vers_jetons(notes, n_hauteurs=128):
    """[(hauteur, duree), ...] -> entiers"""
    return np.array([h + n_hauteurs * DUREES.index(d) for h, d in notes])


def jetons_vers_notes(jetons, n_hauteurs=128):
    return [(int(j) % n_hauteurs, DUREES[int(j) // n_hauteurs]) for j in jetons]


def norme(x, g, b):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def decalage(qe):
    """(B, H, L, L) -> (B, H, L, L), la partie j <= i est utilisable"""
    B, H, L, _ = qe.shape
    zeros = np.zeros((B, H, L, 1))
    y = np.concatenate([qe, zeros], axis=-1)
    return y.reshape(B, H, L + 1, L)[:, :, 1:]


def attention_relative(x, p, n_tetes):
    """x (B, L, D); p : dict Wq, Wk, Wv, Wo (D, D) et Er (H, Lmax, D/H). Causale."""
    B, L, D = x.shape
    d = D // n_tetes

    def tetes(W):
        return (x @ W).reshape(B, L, n_tetes, d).transpose(0, 2, 1, 3)

    q, k, v = tetes(p["Wq"]), tetes(p["Wk"]), tetes(p["Wv"])
    Er = p["Er"][:, -L:]
    qe = np.einsum("bhld,hmd->bhlm", q, Er)
    s_rel = decalage(qe)
    logits = (q @ k.transpose(0, 1, 3, 2) + s_rel) / np.sqrt(d)
    futur = np.triu(np.ones((L, L), bool), 1)
    logits = np.where(futur, -np.inf, logits)
    logits = logits - logits.max(-1, keepdims=True)
    a = np.exp(logits)
    a = a / a.sum(-1, keepdims=True)
    y = (a @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ p["Wo"]


def couche(x, p, n_tetes):
    x = x + attention_relative(norme(x, p["g1"], p["b1"]), p, n_tetes)
    h = np.maximum(norme(x, p["g2"], p["b2"]) @ p["W1"], 0)
    return x + h @ p["W2"]


def improvise(debut, poids, n_tetes, n_notes, rng, temperature=1.0):
    jetons = list(debut)
    for _ in range(n_notes):
        x = poids["E"][jetons][None]
        for p in poids["couches"]:
            x = couche(x, p, n_tetes)
        z = x[0, -1] @ poids["E"].T / temperature
        pr = np.exp(z - z.max())
        jetons.append(rng.choice(len(pr), p=pr / pr.sum()))
    return jetons
