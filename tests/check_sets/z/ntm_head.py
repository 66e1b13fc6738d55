"""Read head of a Neural Turing Machine (Graves et al. 2014), sections 3.3.1 - 3.3.2."""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def cosine_rows(key, memory, eps=1e-8):
    num = np.einsum("bm,bnm->bn", key, memory)
    den = np.linalg.norm(key, axis=1)[:, None] * np.linalg.norm(memory, axis=2)
    return num / (den + eps)


def shift_conv(w, s):
    """circular convolution: out[i] = sum_j w[j] s[i - j], shifts -1, 0, +1 in that order"""
    return s[:, :1] * np.roll(w, -1, axis=1) + s[:, 1:2] * w + s[:, 2:3] * np.roll(w, 1, axis=1)


class ReadHead:
    """params (B, M + 6): key k (M), strength beta, gate g, shift s (3), sharpening gamma.

    Addressing: content (cosine, strength beta) -> interpolation with the last weights ->
    shift -> sharpening.  Instead of 1/sqrt(d) the strength beta sets the temperature.
    """

    def __init__(self, n_slots, m):
        self.N, self.M = n_slots, m

    def split(self, params):
        M = self.M
        k = np.tanh(params[:, :M])
        beta = softplus(params[:, M])[:, None]
        g = sigmoid(params[:, M + 1])[:, None]
        s = params[:, M + 2:M + 5]
        s = np.exp(s - s.max(1, keepdims=True))
        s = s / s.sum(1, keepdims=True)
        gamma = 1.0 + softplus(params[:, M + 5])[:, None]
        return k, beta, g, s, gamma

    def address(self, params, memory, w_prev):
        k, beta, g, s, gamma = self.split(params)
        score = beta * cosine_rows(k, memory)
        e = np.exp(score - score.max(1, keepdims=True))
        w_c = e / e.sum(1, keepdims=True)
        w_g = g * w_c + (1.0 - g) * w_prev
        w_s = shift_conv(w_g, s)
        w_p = (w_s / w_s.max(1, keepdims=True)) ** gamma
        return w_p / w_p.sum(1, keepdims=True)

    def __call__(self, params, memory, w_prev):
        w = self.address(params, memory, w_prev)
        return np.einsum("bn,bnm->bm", w, memory), w


def write(memory, w, erase, add):
    return memory * (1.0 - w[:, :, None] * erase[:, None, :]) + w[:, :, None] * add[:, None, :]
