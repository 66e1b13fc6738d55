"""Alignment between text and mel frames, NumPy port for the web demo."""
import numpy as np


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def conv1d(x, w, b):
    """x [T, Cin], w [K, Cin, Cout], 'same' padding."""
    K = w.shape[0]
    pad = np.pad(x, ((K // 2, K - 1 - K // 2), (0, 0)))
    return sum(pad[i:i + len(x)] @ w[i] for i in range(K)) + b


class TextMelAttention:
    """Scaled dot-product attention of mel frames over characters.

    weights: {"q": [Dm, D], "k": [Dt, D], "v": [Dt, D]}
    __call__ returns (context [T, D], alignment [T, N]); the alignment rows are the
    attention probabilities, which the demo draws and `duration_from` counts.
    """

    def __init__(self, weights):
        self.wq, self.wk, self.wv = weights["q"], weights["k"], weights["v"]
        self.scale = self.wq.shape[1] ** -0.5

    def __call__(self, mel, text, text_len=None):
        q, k, v = mel @ self.wq, text @ self.wk, text @ self.wv
        align = q @ k.T / self.scale
        if text_len is not None:
            align[:, text_len:] = -np.inf
        context = softmax(align) @ v
        return context, align


def duration_from(alignment):
    """Number of frames that look most at each character."""
    best = alignment.argmax(axis=1)
    return np.bincount(best, minlength=alignment.shape[1])


def guided_penalty(T, N, g=0.2):
    n = np.arange(N)[None] / N
    t = np.arange(T)[:, None] / T
    return 1 - np.exp(-((n - t) ** 2) / (2 * g * g))


def forced_monotonic(alignment, back=1, ahead=3):
    pos, path = 0, []
    for row in alignment:
        lo, hi = max(0, pos - back), min(len(row), pos + ahead + 1)
        pos = lo + int(row[lo:hi].argmax())
        path.append(pos)
    return path


def griffin_step(mag, phase):
    z = mag * np.exp(1j * phase)
    return np.angle(np.fft.rfft(np.fft.irfft(z, axis=-1), axis=-1))
