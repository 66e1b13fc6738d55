import numpy as np


def softmax_righe(a):
    a = a - a.max(axis=-1, keepdims=True)
    e = np.exp(a)
    return e / e.sum(axis=-1, keepdims=True)


class AttenzioneTemporale:
    """Scaled dot-product attention (Vaswani et al. 2017) sulle ore passate del carico elettrico.

    chiamata(serie, osservato):
      serie      (N, T, D)
      osservato  (N, T) booleano, True = ora misurata, False = dato mancante; le ore mancanti
                 sono escluse e ogni riga dei pesi e' una distribuzione sulle sole ore misurate
                 (almeno una per serie).
    restituisce uscita (N, T, dim) e pesi (N, T, T).
    """

    def __init__(self, D, dim, seme=0):
        g = np.random.default_rng(seme)
        self.Wq, self.Wk, self.Wv = (g.normal(0, D ** -0.5, (D, dim)) for _ in range(3))
        self.dim = dim

    def __call__(self, serie, osservato):
        q = serie @ self.Wq
        k = serie @ self.Wk
        v = serie @ self.Wv
        punteggi = q @ np.swapaxes(k, -1, -2)
        pesi = softmax_righe(punteggi)
        pesi = pesi * osservato[:, None, :]
        return pesi @ v, pesi
