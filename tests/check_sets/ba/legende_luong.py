# Générateur de légendes d'images : décodeur GRU + attention de Luong ("general"), NumPy pur.
import numpy as np


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    """Softmax sur le dernier axe."""
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


class DecodeurLuong:
    """poids : dictionnaire {Wz, Uz, Wr, Ur, Wh, Uh, Wa, Wc, E, Wo}.

    regions (n, r) : descripteurs de l'image, tous visibles.
    score_i = h^T Wa regions_i   -- la forme « general » n'est pas divisée par sqrt(d)
    h~ = tanh(Wc [contexte ; h])
    L'état attentionnel h~ est rendu à l'entrée du pas suivant (input feeding).
    """

    def __init__(self, poids):
        self.p = poids
        self.d = poids["Uz"].shape[0]

    def gru(self, x, h):
        p = self.p
        z = sigmoide(x @ p["Wz"] + h @ p["Uz"])
        r = sigmoide(x @ p["Wr"] + h @ p["Ur"])
        c = np.tanh(x @ p["Wh"] + (r * h) @ p["Uh"])
        return (1 - z) * h + z * c

    def attention(self, h, regions):
        scores = regions @ (self.p["Wa"].T @ h)
        alpha = softmax(scores)
        return alpha @ regions, alpha

    def pas(self, mot, h, h_att, regions):
        x = np.concatenate([self.p["E"][mot], h_att])
        h = self.gru(x, h)
        contexte, alpha = self.attention(h, regions)
        h_att = np.tanh(np.concatenate([contexte, h]) @ self.p["Wc"])
        return h, h_att, h_att @ self.p["Wo"], alpha

    def legender(self, regions, debut=1, fin=2, longueur=16):
        """Recherche gloutonne ; renvoie (mots, cartes d'attention)."""
        h, h_att = np.zeros(self.d), np.zeros(self.d)
        mot, mots, cartes = debut, [], []
        for _ in range(longueur):
            h, h_att, logits, alpha = self.pas(mot, h, h_att, regions)
            mot = int(logits.argmax())
            if mot == fin:
                break
            mots.append(mot)
            cartes.append(alpha)
        return mots, cartes


def poids_aleatoires(vocab, e, d, r, graine=0):
    g = np.random.default_rng(graine)
    n = lambda *s: g.normal(0, 0.3, s)
    P = {k: n(e + d, d) for k in ("Wz", "Wr", "Wh")}
    P.update({k: n(d, d) for k in ("Uz", "Ur", "Uh")})
    P.update(Wa=n(d, r), Wc=n(r + d, d), E=n(vocab, e), Wo=n(d, vocab))
    return P
