# Neural Turing Machine memory for the maze agent  (numpy, forward only)
# Лабиринт: агент пишет увиденные клетки в память и читает их обратно.
import numpy as np

EPS = 1e-8


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


class ContentMemory:
    """Память N x M.

    read(key, beta): веса = softmax_i( beta * cos(key, M_i) ), ответ = сумма w_i M_i.
    key: (R, M) по одной строке на головку чтения; beta: (R,) > 0.
    Косинус уже ограничен, поэтому деления на sqrt(M) нет -- остроту задаёт beta.
    """

    def __init__(self, n_slots, width, seed=1):
        self.mem = np.random.default_rng(seed).normal(0, 0.1, (n_slots, width))

    def weights(self, key, beta):
        kn = np.linalg.norm(key, axis=1, keepdims=True)
        mn = np.linalg.norm(self.mem, axis=1)
        cos = key @ self.mem.T / (kn * mn + EPS)
        z = beta[:, None] * cos
        z = z - z.max(axis=1, keepdims=True)
        w = np.exp(z)
        return w / w.sum(axis=1, keepdims=True)

    def read(self, key, beta):
        w = self.weights(key, beta)
        return w @ self.mem, w

    def write(self, w, erase, add):
        """w (N,), erase и add (M,): M <- M * (1 - w e) + w a"""
        self.mem = self.mem * (1 - np.outer(w, erase)) + np.outer(w, add)


class MazeController:
    def __init__(self, obs, width, rng):
        self.W = rng.normal(0, obs**-0.5, (obs, 3 * width + 1))
        self.width = width

    def __call__(self, o, memory):
        p = o @ self.W
        m = self.width
        key, erase, add = p[:m], sigmoid(p[m:2 * m]), np.tanh(p[2 * m:3 * m])
        beta = 1 + softplus(p[-1])
        r, w = memory.read(key[None], np.array([beta]))
        memory.write(w[0], erase, add)
        return r[0]
