"""Chatbot de l'atelier, partie décodeur : attention de Luong (score "general").

score(h_t, h_s) = h_t^T W h_s   (sans mise à l'échelle, comme dans l'article)
Les positions de bourrage (masque = 0) ne reçoivent aucun poids.
"""
import numpy as np


def tanh_affine(W, x, b):
    return np.tanh(W @ x + b)


def gru_step(p, x, h):
    """Une étape de GRU ; p contient Wz, Uz, Wr, Ur, Wn, Un."""
    sig = lambda a: 1.0 / (1.0 + np.exp(-a))
    z = sig(p["Wz"] @ x + p["Uz"] @ h)
    r = sig(p["Wr"] @ x + p["Ur"] @ h)
    n = np.tanh(p["Wn"] @ x + p["Un"] @ (r * h))
    return (1 - z) * n + z * h


class LuongAttention:
    """Appel : contexte, h_tilde, poids = att(h_t, H, masque)

    h_t     (d,)     état du décodeur
    H       (S, d)   états de l'encodeur
    masque  (S,)     1 = mot, 0 = bourrage ; None = tout est visible
    """

    def __init__(self, d, graine=0):
        rng = np.random.default_rng(graine)
        self.W = rng.normal(0, d ** -0.5, (d, d))
        self.Wc = rng.normal(0, (2 * d) ** -0.5, (d, 2 * d))
        self.bc = np.zeros(d)

    def softmax(self, s):
        e = np.exp(s - np.max(s))
        return e / np.sum(np.exp(s))

    def __call__(self, h_t, H, masque=None):
        s = H @ (self.W.T @ h_t)
        if masque is not None:
            s = s * masque
        a = self.softmax(s)
        c = a @ H
        h_tilde = tanh_affine(self.Wc, np.concatenate([c, h_t]), self.bc)
        return c, h_tilde, a


class Decodeur:
    def __init__(self, vocab, d, graine=0):
        rng = np.random.default_rng(graine)
        self.E = rng.normal(0, 0.1, (vocab, d))
        noms = ("Wz", "Uz", "Wr", "Ur", "Wn", "Un")
        self.gru = {n: rng.normal(0, d ** -0.5, (d, d)) for n in noms}
        self.att = LuongAttention(d, graine)
        self.sortie = rng.normal(0, d ** -0.5, (vocab, d))

    def repondre(self, H, masque, debut=1, fin=2, n_max=20):
        h = H[int(np.sum(masque)) - 1]
        mot, reponse, cartes = debut, [], []
        for _ in range(n_max):
            h = gru_step(self.gru, self.E[mot], h)
            _, h_tilde, a = self.att(h, H, masque)
            mot = int(np.argmax(self.sortie @ h_tilde))
            cartes.append(a)
            if mot == fin:
                break
            reponse.append(mot)
        return reponse, np.array(cartes)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    dec = Decodeur(50, 16)
    print(dec.repondre(rng.normal(size=(6, 16)), np.array([1, 1, 1, 1, 0, 0]))[0])
