# sono_eeg.py - estadiamento do sono com atenção linear causal
#
# Katharopoulos et al., "Transformers are RNNs": phi(x) = elu(x) + 1
#
#     y_t = phi(q_t) . S_t / (phi(q_t) . z_t),
#     S_t = sum_{i<=t} phi(k_i) v_i^T,    z_t = sum_{i<=t} phi(k_i)
#
# Não há softmax nem 1/sqrt(d): o núcleo phi(q).phi(k) faz o papel dos dois.

import numpy as np

ESTAGIOS = ("W", "N1", "N2", "N3", "REM")


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class MisturadorLinear:
    def __init__(self, d, cabecas, semente=0, dtype=np.float32):
        assert d % cabecas == 0
        rng = np.random.RandomState(semente)
        self.c, self.hd = cabecas, d // cabecas
        self.Wq, self.Wk, self.Wv, self.Wo = (
            (rng.randn(d, d) / np.sqrt(d)).astype(dtype) for _ in range(4)
        )

    # -- utilidades ---------------------------------------------------------
    def _cab(self, x, W):
        # (..., d) -> (..., cabecas, hd)
        y = x @ W
        return y.reshape(y.shape[:-1] + (self.c, self.hd))

    def novo_estado(self, lote):
        return (np.zeros((lote, self.c, self.hd, self.hd)), np.zeros((lote, self.c, self.hd)))

    # -- modo paralelo: noite inteira ---------------------------------------
    def __call__(self, x, valido=None):
        """x (lote, T, d). valido (lote, T), True = época boa.

        Épocas ruins não entram nas somas (eletrodo solto), mas também recebem
        uma saída, calculada com o que veio antes. Enquanto não houver
        nenhuma época boa a saída é zero.
        """
        q, k, v = phi(self._cab(x, self.Wq)), phi(self._cab(x, self.Wk)), self._cab(x, self.Wv)
        if valido is not None:
            m = np.asarray(valido, bool)[:, :, None, None]
            k, v = np.where(m, k, 0.0), np.where(m, v, 0.0)
        S = np.cumsum(k[..., :, None].astype(np.float64) * v[..., None, :], axis=1)
        z = np.cumsum(k.astype(np.float64), axis=1)
        num = np.einsum("btcd,btcde->btce", q, S)
        den = np.einsum("btcd,btcd->btc", q, z)[..., None]
        y = np.divide(num, den, out=np.zeros_like(num), where=den > 0)
        return y.reshape(x.shape) @ self.Wo

    # -- modo recorrente: uma época por vez, ao lado da cama ----------------
    def passo(self, x_t, estado, valido_t=None):
        S, z = estado
        q, k, v = phi(self._cab(x_t, self.Wq)), phi(self._cab(x_t, self.Wk)), self._cab(x_t, self.Wv)
        if valido_t is not None:
            m = np.asarray(valido_t, bool)[:, None, None]
            k, v = np.where(m, k, 0.0), np.where(m, v, 0.0)
        S = S + k[..., :, None] * v[..., None, :]
        z = z + k
        num = np.einsum("bcd,bcde->bce", q, S)
        den = np.einsum("bcd,bcd->bc", q, z)[..., None]
        y = np.divide(num, den, out=np.zeros_like(num), where=den > 0)
        return y.reshape(x_t.shape) @ self.Wo, (S, z)


def potencia_bandas(epoca, fs=100):
    """Potência relativa em delta, teta, alfa, sigma e beta."""
    f = np.fft.rfftfreq(epoca.shape[-1], 1 / fs)
    p = np.abs(np.fft.rfft(epoca)) ** 2
    faixas = [(0.5, 4), (4, 8), (8, 12), (12, 16), (16, 30)]
    b = np.stack([p[..., (f >= lo) & (f < hi)].sum(-1) for lo, hi in faixas], -1)
    return b / b.sum(-1, keepdims=True)


if __name__ == "__main__":
    mix = MisturadorLinear(16, 4)
    noite = np.random.randn(1, 30, 16).astype(np.float32)
    tudo = mix(noite)
    est = mix.novo_estado(1)
    for t in range(30):
        y, est = mix.passo(noite[:, t], est)
    print(abs(y - tudo[:, -1]).max())
