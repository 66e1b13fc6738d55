"""Read head of a Neural Turing Machine (Graves, Wayne, Danihelka 2014) in NumPy.

Addressing, in the order of figure 2 of the paper:
  1. content    w_c = softmax(beta * cosine(key, M_i))     over the rows i
  2. interpolate w_g = g * w_c + (1 - g) * w_prev
  3. shift      w~(i) = sum_j w_g(j) s(i - j)              circular, shifts -1, 0, +1
  4. sharpen    w = w~^gamma / sum w~^gamma
and the read vector is r = sum_i w_i M_i.

M: [batch, N, W].  The controller output is mapped to the head parameters by one
linear layer; beta = softplus, g = sigmoid, s = softmax, gamma = 1 + softplus.
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class ReadHead:
    SHIFTS = (-1, 0, 1)

    def __init__(self, controller: int, n_rows: int, width: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.sizes = [width, 1, 1, len(self.SHIFTS), 1]
        self.W = rng.normal(0, controller ** -0.5, (controller, sum(self.sizes)))
        self.b = np.zeros(sum(self.sizes))
        self.n_rows = n_rows

    def initial(self, batch: int) -> np.ndarray:
        w = np.zeros((batch, self.n_rows))
        w[:, 0] = 1.0
        return w

    def parameters_from(self, h):
        parts = np.split(h @ self.W + self.b, np.cumsum(self.sizes)[:-1], axis=-1)
        key, beta, g, s, gamma = parts
        return np.tanh(key), softplus(beta), sigmoid(g), softmax(s), 1 + softplus(gamma)

    @staticmethod
    def content(memory, key, beta, eps=1e-8):
        dot = np.einsum("bnw,bw->bn", memory, key)
        size = np.linalg.norm(memory, axis=-1) * np.linalg.norm(key, axis=-1, keepdims=True)
        return softmax(beta * dot / (size + eps))

    def address(self, memory, h, w_prev):
        key, beta, g, s, gamma = self.parameters_from(h)
        w = g * self.content(memory, key, beta) + (1 - g) * w_prev
        # np.roll by +1 moves the mass from row j to row j + 1
        w = sum(s[:, [i]] * np.roll(w, shift, axis=1) for i, shift in enumerate(self.SHIFTS))
        w = w ** gamma
        return w / (w.sum(1, keepdims=True) + 1e-16)

    def __call__(self, memory, h, w_prev):
        """memory [B, N, W], h [B, controller], w_prev [B, N] -> read [B, W], w [B, N]."""
        w = self.address(memory, h, w_prev)
        return np.einsum("bn,bnw->bw", w, memory), w


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    head = ReadHead(controller=12, n_rows=9, width=6)
    w = head.initial(2)
    memory = rng.normal(size=(2, 9, 6))
    for _ in range(4):
        r, w = head(memory, rng.normal(size=(2, 12)), w)
    print(r.shape, w.sum(1))
