import numpy as np


def sigmoide(z):
    return 1.0 / (1.0 + np.exp(-z))


def softmax_mascarado(notas, validos):
    # notas: (lote, T); posições inválidas recebem peso zero exato
    notas = np.where(validos, notas, np.finfo(notas.dtype).min)
    ex = np.exp(notas - notas.max(axis=1, keepdims=True)) * validos
    return ex / np.maximum(ex.sum(axis=1, keepdims=True), 1e-30)


class CelulaGRU:
    def __init__(self, entrada, oculto, rng):
        m = 1 / np.sqrt(oculto)
        self.Wx = rng.uniform(-m, m, (entrada, 3 * oculto))
        self.Wh = rng.uniform(-m, m, (oculto, 3 * oculto))
        self.b = rng.uniform(-m, m, 3 * oculto)

    def __call__(self, x, h):
        xr, xz, xn = np.split(x @ self.Wx + self.b, 3, axis=1)
        hr, hz, hn = np.split(h @ self.Wh, 3, axis=1)
        z = sigmoide(xz + hz)
        n = np.tanh(xn + sigmoide(xr + hr) * hn)
        return (1 - z) * n + z * h


class DecodificadorLuong:
    """Decodificador com pontuação 'general' e 'input feeding' (Luong et al., 2015)."""

    def __init__(self, vocab, emb=10, oculto=12, memoria=14, semente=0):
        rng = np.random.default_rng(semente)
        self.E = rng.normal(size=(vocab, emb)) * 0.5
        self.gru = CelulaGRU(emb + oculto, oculto, rng)
        self.Wa = rng.normal(size=(oculto, memoria)) / np.sqrt(memoria)
        self.Wc = rng.normal(size=(memoria + oculto, oculto)) / np.sqrt(oculto)
        self.Ws = rng.normal(size=(oculto, vocab)) / np.sqrt(oculto)

    def atender(self, h, memoria, validos):
        notas = np.einsum("bh,hm,btm->bt", h, self.Wa, memoria)
        pesos = softmax_mascarado(notas, validos)
        return np.einsum("bt,btm->bm", pesos, memoria), pesos

    def passo(self, simbolo, estado, memoria, validos):
        h, h_til = estado
        h = self.gru(np.concatenate([self.E[simbolo], h_til], axis=1), h)
        contexto, pesos = self.atender(h, memoria, validos)
        h_til = np.tanh(np.concatenate([contexto, h], axis=1) @ self.Wc)
        return h_til @ self.Ws, (h, h_til), pesos

    def __call__(self, alvo, memoria, comprimentos, h0):
        validos = np.arange(memoria.shape[1])[None, :] < comprimentos[:, None]
        estado = (h0, np.zeros_like(h0))
        saidas, mapas = [], []
        for t in range(alvo.shape[1]):
            logits, estado, pesos = self.passo(alvo[:, t], estado, memoria, validos)
            saidas.append(logits)
            mapas.append(pesos)
        return np.stack(saidas, axis=1), np.stack(mapas, axis=1)


if __name__ == "__main__":
    rng = np.random.default_rng(42)
    dec = DecodificadorLuong(vocab=20)
    y, a = dec(rng.integers(0, 20, (3, 5)), rng.normal(size=(3, 8, 14)), np.array([8, 5, 2]), np.zeros((3, 12)))
    print(y.shape, a.sum(-1).min())
    print(a[2, 0].round(3))
