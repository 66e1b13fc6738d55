# Neural Turing Machine addressing, forward only, NumPy.
# One read head and one write head on a memory of N slots with M numbers.
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softmax(x):
    z = np.exp(x - x.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def unit(x, eps=1e-8):
    return x / (np.sqrt((x * x).sum(-1, keepdims=True)) + eps)


class Head:
    """
    controller state h -> key k (M), strength beta > 0, gate g in (0,1),
    shift kernel s over {-1, 0, +1}, sharpening gamma >= 1

        wc = softmax(beta * cos(k, memory_row))
        wg = g * wc + (1 - g) * w_prev
        ws = circular convolution of wg with s      (ws[i] = sum_d s[d] wg[i-d])
        w  = ws**gamma / sum(ws**gamma)
    """

    def __init__(self, n_hidden, M, rng):
        self.M = M
        self.W = rng.normal(0, 0.3, (n_hidden, M + 1 + 1 + 3 + 1))
        self.b = np.zeros(M + 6)

    def split(self, h):
        o = h @ self.W + self.b
        M = self.M
        return (np.tanh(o[..., :M]),
                softplus(o[..., M:M + 1]),
                sigmoid(o[..., M + 1:M + 2]),
                softmax(o[..., M + 2:M + 5]),
                1.0 + softplus(o[..., M + 5:]))

    def address(self, h, memory, w_prev):
        """h [B, n_hidden], memory [B, N, M], w_prev [B, N] -> w [B, N]"""
        k, beta, g, s, gamma = self.split(h)
        cos = np.einsum("bm,bnm->bn", unit(k), unit(memory))
        wc = softmax(beta * cos)
        wg = g * wc + (1.0 - g) * w_prev
        ws = sum(s[:, i:i + 1] * np.roll(wg, d, axis=1) for i, d in enumerate((-1, 0, 1)))
        w = ws ** gamma
        return w / w.sum(axis=1, keepdims=True)

    def __call__(self, h, memory, w_prev):
        w = self.address(h, memory, w_prev)
        return np.einsum("bn,bnm->bm", w, memory), w


class Writer(Head):
    def __init__(self, n_hidden, M, rng):
        super().__init__(n_hidden, M, rng)
        self.E = rng.normal(0, 0.3, (n_hidden, M))
        self.A = rng.normal(0, 0.3, (n_hidden, M))

    def __call__(self, h, memory, w_prev):
        w = self.address(h, memory, w_prev)
        erase, add = sigmoid(h @ self.E), np.tanh(h @ self.A)
        memory = memory * (1.0 - w[:, :, None] * erase[:, None, :])
        return memory + w[:, :, None] * add[:, None, :], w


class TuringMachine:
    def __init__(self, n_in, n_out, N=16, M=8, n_hidden=24, seed=0):
        rng = np.random.default_rng(seed)
        self.N, self.M = N, M
        self.Wx = rng.normal(0, 0.3, (n_in + M, n_hidden))
        self.read, self.write = Head(n_hidden, M, rng), Writer(n_hidden, M, rng)
        self.Wo = rng.normal(0, 0.3, (n_hidden + M, n_out))

    def run(self, xs):
        B, T, _ = xs.shape
        mem = np.full((B, self.N, self.M), 1e-6)
        wr = ww = np.eye(self.N)[np.zeros(B, int)]
        r = np.zeros((B, self.M))
        ys = []
        for t in range(T):
            h = np.tanh(np.concatenate([xs[:, t], r], -1) @ self.Wx)
            mem, ww = self.write(h, mem, ww)
            r, wr = self.read(h, mem, wr)
            ys.append(sigmoid(np.concatenate([h, r], -1) @ self.Wo))
        return np.stack(ys, 1)


def copy_task(rng, batch=4, length=5, bits=6):
    seq = rng.integers(0, 2, (batch, length, bits)).astype(float)
    x = np.zeros((batch, 2 * length + 1, bits + 1))
    x[:, :length, :bits] = seq
    x[:, length, bits] = 1.0
    return x, seq


if __name__ == "__main__":
    x, y = copy_task(np.random.default_rng(1))
    print(TuringMachine(7, 6).run(x)[:, -5:].shape, y.shape)
