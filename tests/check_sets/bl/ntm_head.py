"""Neural Turing Machine memory and heads (Graves et al. 2014), NumPy forward, copy task."""
import numpy as np


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _softplus(x):
    return np.logaddexp(0.0, x)


def _softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    x = np.exp(x)
    return x / x.sum(axis=axis, keepdims=True)


def _cosine(u, M, eps=1e-8):
    """u (B, W), M (B, N, W) -> (B, N)"""
    num = np.einsum("bw,bnw->bn", u, M)
    den = np.linalg.norm(u, axis=-1)[:, None] * np.linalg.norm(M, axis=-1)
    return num / (den + eps)


class NTMAddressing:
    """Addressing, section 3.3 of the paper:

        w^c = softmax(beta * cos(k, M))            content
        w^g = g w^c + (1 - g) w_{t-1}              interpolation
        w~  = w^g (*) s,  circular, s over shifts  -1, 0, +1   (shift +1 moves to the next row)
        w   = w~^gamma / sum w~^gamma              sharpening
    """

    SHIFTS = (-1, 0, 1)

    def content(self, M, k, beta):
        return _softmax(beta[:, None] * _cosine(k, M))

    def shift(self, w, s):
        out = np.zeros_like(w)
        for i, step in enumerate(self.SHIFTS):
            out += s[:, i:i + 1] * np.roll(w, step, axis=-1)
        return out

    def __call__(self, M, w_prev, k, beta, g, s, gamma):
        """M (B, N, W), w_prev (B, N), k (B, W), beta, g, gamma (B,), s (B, 3) -> (B, N)"""
        w = self.content(M, k, beta)
        w = g[:, None] * w + (1 - g[:, None]) * w_prev
        w = self.shift(w, s)
        w = w ** gamma[:, None]
        return w / (w.sum(-1, keepdims=True) + 1e-16)


class Head:
    def __init__(self, rng, ctrl_size, width, writer=False):
        self.width = width
        self.writer = writer
        n_out = width + 6 + (2 * width if writer else 0)
        self.fc = rng.normal(0, ctrl_size ** -0.5, (ctrl_size, n_out))
        self.address = NTMAddressing()

    def __call__(self, h, M, w_prev):
        z = h @ self.fc
        W = self.width
        k, rest = np.tanh(z[:, :W]), z[:, W:]
        w = self.address(
            M, w_prev, k,
            beta=_softplus(rest[:, 0]),
            g=_sigmoid(rest[:, 1]),
            s=_softmax(rest[:, 2:5]),
            gamma=1 + _softplus(rest[:, 5]),
        )
        if not self.writer:
            return w, np.einsum("bn,bnw->bw", w, M)
        erase, add = _sigmoid(rest[:, 6:6 + W]), rest[:, 6 + W:]
        M = M * (1 - w[:, :, None] * erase[:, None, :]) + w[:, :, None] * add[:, None, :]
        return w, M


class NTM:
    def __init__(self, n_in, n_out, ctrl=32, rows=20, width=8, seed=0):
        rng = np.random.default_rng(seed)
        self.rows, self.width = rows, width
        self.Wh = rng.normal(0, 0.1, (n_in + width + ctrl, ctrl))
        self.Wy = rng.normal(0, 0.1, (ctrl + width, n_out))
        self.read, self.write = Head(rng, ctrl, width), Head(rng, ctrl, width, writer=True)
        self.M0 = rng.normal(0, 0.1, (rows, width))

    def run(self, xs):
        """xs (T, B, n_in)"""
        B = xs.shape[1]
        h = np.zeros((B, self.Wh.shape[1]))
        r = np.zeros((B, self.width))
        M = np.repeat(self.M0[None], B, axis=0)
        wr = np.zeros((B, self.rows))
        wr[:, 0] = 1
        ww = wr.copy()
        ys = []
        for x in xs:
            h = np.tanh(np.concatenate([x, r, h], axis=1) @ self.Wh)
            ww, M = self.write(h, M, ww)
            wr, r = self.read(h, M, wr)
            ys.append(_sigmoid(np.concatenate([h, r], axis=1) @ self.Wy))
        return np.stack(ys)


if __name__ == "__main__":
    print(NTM(9, 8).run(np.random.rand(5, 2, 9)).shape)
