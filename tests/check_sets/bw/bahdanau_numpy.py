"""Neural Machine Translation by Jointly Learning to Align and Translate - reprodução em NumPy.

Passo do decodificador da seção A.1.2 do artigo, sem autograd:

    e_ij = v_a' tanh(W_a s_{i-1} + U_a h_j)
    s_i  = GRU(s_{i-1}, [y_{i-1}; c_i])

`U_a h_j` não depende de i, por isso é calculado uma vez por frase.
"""
import numpy as np


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-x))


class DecodificadorBahdanau:
    def __init__(self, vocab=25, emb=8, hid=12, anot=14, alin=10, semente=0):
        r = np.random.default_rng(semente)

        def m(*forma):
            return r.normal(0, forma[0] ** -0.5, forma)

        self.E = r.normal(size=(vocab, emb))
        # alinhamento
        self.Wa, self.Ua, self.va = m(hid, alin), m(anot, alin), m(alin)
        # GRU
        ent = emb + anot
        self.W = {g: m(ent, hid) for g in "zrh"}
        self.U = {g: m(hid, hid) for g in "zrh"}
        self.b = {g: np.zeros(hid) for g in "zrh"}
        self.Ws = m(anot, hid)
        self.saida = m(hid + emb + anot, vocab)

    def iniciar(self, H, comprimentos):
        """H: (lote, T, anot). Guarda a projeção e a máscara da frase de origem."""
        T = H.shape[1]
        valido = np.arange(T)[None, :] < np.asarray(comprimentos)[:, None]
        s0 = np.tanh(H[:, 0] @ self.Ws)
        return {"H": H, "UH": H @ self.Ua, "valido": valido, "s": s0}

    def alinhar(self, s, mem):
        e = np.tanh((s @ self.Wa)[:, None, :] + mem["UH"]) @ self.va
        e = np.where(mem["valido"], e, -np.inf)
        e = e - e.max(axis=1, keepdims=True)
        a = np.exp(e)
        return a / a.sum(axis=1, keepdims=True)

    def passo(self, y, mem):
        """y: (lote,) índices. Devolve (logits, pesos) e atualiza mem["s"]."""
        s = mem["s"]
        a = self.alinhar(s, mem)
        c = np.einsum("bt,btd->bd", a, mem["H"])
        x = np.concatenate([self.E[y], c], axis=1)
        z = sigmoide(x @ self.W["z"] + s @ self.U["z"] + self.b["z"])
        r = sigmoide(x @ self.W["r"] + s @ self.U["r"] + self.b["r"])
        n = np.tanh(x @ self.W["h"] + (r * s) @ self.U["h"] + self.b["h"])
        mem["s"] = (1 - z) * s + z * n
        logits = np.concatenate([mem["s"], x], axis=1) @ self.saida
        return logits, a

    def traduzir(self, H, comprimentos, inicio=1, passos=10):
        mem = self.iniciar(H, comprimentos)
        y = np.full(len(H), inicio)
        saida, alinhamentos = [], []
        for _ in range(passos):
            logits, a = self.passo(y, mem)
            y = logits.argmax(axis=1)
            saida.append(y)
            alinhamentos.append(a)
        return np.stack(saida, 1), np.stack(alinhamentos, 1)


if __name__ == "__main__":
    dec = DecodificadorBahdanau()
    H = np.random.default_rng(1).normal(size=(2, 6, 14))
    tokens, mapa = dec.traduzir(H, [6, 4])
    print(tokens)
    print(mapa[1].round(2))
