"""Effective Approaches to Attention-based NMT (Luong et al. 2015) - one decoder step in NumPy.

Global attention, "general" score, input feeding:

    h_t  = GRU([y_t ; a_{t-1}], h_{t-1})
    e_s  = h_t^T W_a hbar_s
    c_t  = sum_s softmax(e)_s hbar_s
    a_t  = tanh(W_c [c_t ; h_t])

Inferência apenas; os pesos vêm de um .npz treinado noutro lado.
"""
import numpy as np


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


class LuongDecoder:
    def __init__(self, pesos):
        self.p = pesos

    @classmethod
    def aleatorio(cls, emb, hid, enc, semente=0):
        r = np.random.default_rng(semente)
        g = lambda *s: r.normal(size=s) * 0.4
        return cls({
            "gru_x": g(emb + hid, 3 * hid), "gru_h": g(hid, 3 * hid),
            "gru_bx": g(3 * hid), "gru_bh": g(3 * hid),
            "W_a": g(hid, enc), "W_c": g(enc + hid, hid),
        })

    def gru(self, x, h):
        n = h.shape[-1]
        gx = x @ self.p["gru_x"] + self.p["gru_bx"]
        gh = h @ self.p["gru_h"] + self.p["gru_bh"]
        r = sigmoid(gx[:, :n] + gh[:, :n])
        z = sigmoid(gx[:, n:2 * n] + gh[:, n:2 * n])
        cand = np.tanh(gx[:, 2 * n:] + r * gh[:, 2 * n:])
        return (1 - z) * cand + z * h

    def atender(self, h, memoria, comprimentos):
        """h (B, hid), memoria (B, S, enc) -> contexto (B, enc), pesos (B, S)"""
        e = np.einsum("bh,he,bse->bs", h, self.p["W_a"], memoria)
        fora = np.arange(memoria.shape[1])[None, :] >= comprimentos[:, None]
        e[fora] = -np.inf
        e = np.exp(e - e.max(axis=1, keepdims=True))
        alfa = e / e.sum(axis=1, keepdims=True)
        return np.einsum("bs,bse->be", alfa, memoria), alfa

    def passo(self, y, estado, memoria, comprimentos):
        """estado = (h, a) do passo anterior; devolve (a_t, alfa, novo estado)"""
        h, a = estado
        h = self.gru(np.concatenate([y, a], axis=-1), h)
        c, alfa = self.atender(h, memoria, comprimentos)
        a = np.tanh(np.concatenate([c, h], axis=-1) @ self.p["W_c"])
        return a, alfa, (h, a)


if __name__ == "__main__":
    dec = LuongDecoder.aleatorio(emb=5, hid=6, enc=8)
    r = np.random.default_rng(1)
    mem, est = r.normal(size=(2, 7, 8)), (np.zeros((2, 6)), np.zeros((2, 6)))
    for _ in range(3):
        a, alfa, est = dec.passo(r.normal(size=(2, 5)), est, mem, np.array([7, 4]))
    print(alfa.round(3))
