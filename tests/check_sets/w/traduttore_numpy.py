# Traduttore: encoder-decoder in puro numpy (progetto per l'esame di Reti Neurali)
import numpy as np


def softmax(z, asse=-1):
    z = z - z.max(axis=asse, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=asse, keepdims=True)


def norma(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def codifica_posizione(lunghezza, dim):
    pos = np.arange(lunghezza)[:, None]
    freq = 1.0 / 10000 ** (np.arange(0, dim, 2) / dim)
    pe = np.zeros((lunghezza, dim))
    pe[:, 0::2] = np.sin(pos * freq)
    pe[:, 1::2] = np.cos(pos * freq)
    return pe


class Attenzione:
    def __init__(self, dim, teste, rng):
        self.teste, self.d = teste, dim // teste
        g = 1 / np.sqrt(dim)
        self.Wq, self.Wk, self.Wv, self.Wo = (rng.normal(0, g, (dim, dim)) for _ in range(4))

    def dividi(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.teste, self.d).transpose(0, 2, 1, 3)

    def __call__(self, x, memoria, maschera=None):
        # x [b, n, dim], memoria [b, m, dim], maschera True = nascosto
        b, n, dim = x.shape
        q, k, v = self.dividi(x @ self.Wq), self.dividi(memoria @ self.Wk), self.dividi(memoria @ self.Wv)
        punteggi = np.einsum('bhid,bhjd->bhij', q, k) / np.sqrt(self.d)
        if maschera is not None:
            punteggi = np.where(maschera, -1e9, punteggi)
        pesi = softmax(punteggi)
        uscita = np.einsum('bhij,bhjd->bhid', pesi, v)
        return uscita.transpose(0, 2, 1, 3).reshape(b, n, dim) @ self.Wo


class Strato:
    def __init__(self, dim, teste, rng, decoder):
        self.propria = Attenzione(dim, teste, rng)
        self.incrociata = Attenzione(dim, teste, rng) if decoder else None
        self.W1 = rng.normal(0, dim ** -0.5, (dim, 4 * dim))
        self.W2 = rng.normal(0, (4 * dim) ** -0.5, (4 * dim, dim))

    def __call__(self, x, masch, mem=None, masch_mem=None):
        x = norma(x + self.propria(x, x, masch))
        if self.incrociata is not None:
            x = norma(x + self.incrociata(x, mem, masch_mem))
        return norma(x + np.maximum(x @ self.W1, 0) @ self.W2)


class Traduttore:
    def __init__(self, vocab_sorgente=40, vocab_arrivo=40, dim=32, teste=4, strati=2, seme=0):
        rng = np.random.default_rng(seme)
        self.dim = dim
        self.emb_s = rng.normal(0, 1, (vocab_sorgente, dim)) / np.sqrt(dim)
        self.emb_a = rng.normal(0, 1, (vocab_arrivo, dim)) / np.sqrt(dim)
        self.enc = [Strato(dim, teste, rng, False) for _ in range(strati)]
        self.dec = [Strato(dim, teste, rng, True) for _ in range(strati)]

    def __call__(self, sorgente, arrivo):
        """sorgente [b, m] e arrivo [b, n] sono interi, 0 = riempimento; restituisce i logit [b, n, vocab_arrivo]"""
        vuoto = (sorgente == 0)[:, None, None, :]
        m = self.emb_s[sorgente] * np.sqrt(self.dim) + codifica_posizione(sorgente.shape[1], self.dim)
        for s in self.enc:
            m = s(m, vuoto)
        n = arrivo.shape[1]
        futuro = np.triu(np.ones((n, n), dtype=bool), k=1)[None, None]
        y = self.emb_a[arrivo] * np.sqrt(self.dim) + codifica_posizione(n, self.dim)
        for s in self.dec:
            y = s(y, futuro, m, vuoto)
        return y @ self.emb_a.T
