"""Decoder GRU con attenzione di Bahdanau, solo numpy.

Serve a rigiocare (inferenza) i pesi di un vecchio traduttore it-en addestrato
con Theano.  Un passo: stato precedente -> allineamento -> contesto -> GRU.
"""
import numpy as np


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-x))


class DecoderBahdanau:

    def __init__(self, dim_parola, dim_stato, dim_ann, dim_allin, seme=0):
        g = np.random.default_rng(seme)

        def m(*forma):
            return g.normal(0, 0.3, forma)

        # energia: v . tanh(W s + U h)
        self.W_a = m(dim_stato, dim_allin)
        self.U_a = m(dim_ann, dim_allin)
        self.v_a = m(dim_allin)
        ingresso = dim_parola + dim_ann
        self.W_z, self.U_z = m(ingresso, dim_stato), m(dim_stato, dim_stato)
        self.W_r, self.U_r = m(ingresso, dim_stato), m(dim_stato, dim_stato)
        self.W_h, self.U_h = m(ingresso, dim_stato), m(dim_stato, dim_stato)
        self._proiettate = None

    def prepara(self, annotazioni, lunghezze):
        """annotazioni [B, T, dim_ann]: la parte U h non dipende dal passo."""
        self.annotazioni = annotazioni
        self._proiettate = annotazioni @ self.U_a
        T = annotazioni.shape[1]
        # vero = parola della frase, falso = riempimento
        self.valide = np.arange(T)[None, :] < np.asarray(lunghezze)[:, None]

    def allinea(self, stato):
        e = np.tanh((stato @ self.W_a)[:, None, :] + self._proiettate) @ self.v_a
        e = np.where(self.valide, e, -np.inf)
        e = e - e.max(axis=1, keepdims=True)
        a = np.exp(e)
        return a / a.sum(axis=1, keepdims=True)

    def passo(self, parola, stato):
        """parola [B, dim_parola], stato [B, dim_stato] -> stato nuovo, pesi."""
        a = self.allinea(stato)
        contesto = np.einsum("bt,btd->bd", a, self.annotazioni)
        x = np.concatenate([parola, contesto], axis=1)
        z = sigmoide(x @ self.W_z + stato @ self.U_z)
        r = sigmoide(x @ self.W_r + stato @ self.U_r)
        candidato = np.tanh(x @ self.W_h + (r * stato) @ self.U_h)
        return (1 - z) * stato + z * candidato, a


if __name__ == "__main__":
    d = DecoderBahdanau(5, 6, 8, 7)
    d.prepara(np.random.randn(2, 4, 8), [4, 2])
    s = np.zeros((2, 6))
    for _ in range(3):
        s, pesi = d.passo(np.random.randn(2, 5), s)
    print(pesi.round(3))
