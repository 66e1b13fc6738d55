# %% [markdown]
# TP 4 - Mécanisme d'attention sur les séries de marées (M1 Océanographie, 2023-24)
# Rendu : binôme 7

# %%
import numpy as np


# %% Question 1 - softmax stable
def softmax(scores):
    """Softmax sur le dernier axe, stabilisé par le maximum de chaque ligne."""
    num = np.exp(scores - scores.max(axis=-1, keepdims=True))
    den = np.exp(scores).sum(axis=-1, keepdims=True)
    return num / den


# %% Question 2 - masque
def masque_presence(longueurs, n):
    """1 si la mesure existe, 0 si c'est du remplissage ; forme (lots, 1, n)"""
    return (np.arange(n)[None, :] < np.asarray(longueurs)[:, None]).astype(float)[:, None, :]


# %% Question 3 - attention
def attention(Q, K, V, masque=None):
    """Attention par produit scalaire normalisé.

    Q (lots, nq, d), K et V (lots, nk, d) ; masque (lots, 1 ou nq, nk), 1 = visible, 0 = caché.
    Une mesure cachée doit avoir un poids nul.
    Renvoie la sortie (lots, nq, d) et les poids (lots, nq, nk).
    """
    d = Q.shape[-1]
    scores = np.matmul(Q, K.transpose(0, 2, 1)) / np.sqrt(d)
    if masque is not None:
        scores = scores * masque
    poids = softmax(scores)
    return np.matmul(poids, V), poids


# %% Question 4 - plusieurs têtes
class AttentionMultiTetes:
    def __init__(self, d_modele, n_tetes, graine=0):
        rng = np.random.default_rng(graine)
        self.n, self.d = n_tetes, d_modele // n_tetes
        g = lambda: rng.normal(0, d_modele ** -0.5, (d_modele, d_modele))
        self.Wq, self.Wk, self.Wv, self.Wo = g(), g(), g(), g()

    def __call__(self, x, masque=None):
        sorties = []
        for t in range(self.n):
            c = slice(t * self.d, (t + 1) * self.d)
            s, _ = attention(x @ self.Wq[:, c], x @ self.Wk[:, c], x @ self.Wv[:, c], masque)
            sorties.append(s)
        return np.concatenate(sorties, axis=-1) @ self.Wo


# %% Question 5 - encodage des heures
def encodage_positions(n, d):
    pos = np.arange(n)[:, None]
    i = np.arange(0, d, 2)[None, :]
    angle = pos / 10000 ** (i / d)
    pe = np.zeros((n, d))
    pe[:, 0::2] = np.sin(angle)
    pe[:, 1::2] = np.cos(angle)
    return pe


# %% Question 6 - prédiction de la hauteur d'eau (composantes M2, S2, N2, K1, O1)
PERIODES_H = np.array([12.4206, 12.0, 12.6583, 23.9345, 25.8193])


def maree(heures, amplitudes, phases):
    return (amplitudes * np.cos(2 * np.pi * heures[:, None] / PERIODES_H - phases)).sum(-1)


def donnees(n_series, n, graine=1):
    rng = np.random.default_rng(graine)
    t = np.arange(n, dtype=float)
    return np.stack([maree(t, rng.uniform(0.1, 2, 5), rng.uniform(0, 2 * np.pi, 5)) for _ in range(n_series)])


def regression(H, y, lam=1e-2):
    A = H.T @ H + lam * np.eye(H.shape[1])
    return np.linalg.solve(A, H.T @ y)


def representation(series, d=16, tetes=2, longueurs=None):
    n = series.shape[1]
    x = series[:, :, None] * np.linspace(-1, 1, d) + encodage_positions(n, d)
    m = None if longueurs is None else masque_presence(longueurs, n)
    return AttentionMultiTetes(d, tetes)(x, m)[:, -1]


# %%
if __name__ == "__main__":
    s = donnees(64, 49)
    H = representation(s[:, :48])
    w = regression(H[:48], s[:48, 48])
    print("erreur moyenne (m) :", np.abs(H[48:] @ w - s[48:, 48]).mean())
