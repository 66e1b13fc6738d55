"""Source-location features from a seismometer array (NumPy homework, week 6).

Each station i attends to all stations j of the array and receives a mixture of
their spectra; the mixture weights of every station are a softmax over j:

    S = Q K^T / sqrt(d) - dist / reach
    Y = softmax_rows(S) V

wave  (n, f)  spectra, pos (n, 3) station coordinates in km
Wq, Wk, Wv (f, d)
locate() averages Y over the stations and applies W (d, 3).
"""
import numpy as np


def pairwise_km(pos):
    diff = pos[:, None, :] - pos[None, :, :]
    return np.sqrt((diff ** 2).sum(-1))


def softmax_rows(S):
    E = np.exp(S - np.max(S))
    return E / np.sum(E)


def array_attention(wave, pos, Wq, Wk, Wv, reach=50.0):
    Q, K, V = wave @ Wq, wave @ Wk, wave @ Wv
    S = Q @ K.T / np.sqrt(K.shape[1])
    S = S - pairwise_km(pos) / reach
    A = softmax_rows(S)
    return A @ V


def locate(wave, pos, params):
    Y = array_attention(wave, pos, params["Wq"], params["Wk"], params["Wv"])
    return Y.mean(0) @ params["W"] + pos.mean(0)


if __name__ == "__main__":
    r = np.random.RandomState(1)
    P = {k: r.randn(10, 4) * 0.3 for k in ("Wq", "Wk", "Wv")}
    P["W"] = r.randn(4, 3)
    print(locate(r.randn(7, 10), r.rand(7, 3) * 80, P))
