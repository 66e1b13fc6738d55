"""Addressing of a Neural Turing Machine (Graves, Wayne, Danihelka 2014), forward only.

Memory M is [N, W]: N slots of width W. Section 3.3 of the paper:

    content     w_c(i) = softmax_i( beta * cos(k, M_i) )
    interpolate w_g    = g * w_c + (1 - g) * w_prev
    shift       w~(i)  = sum_j w_g(j) s(i - j)            (indices modulo N)
    sharpen     w(i)   = w~(i)^gamma / sum_j w~(j)^gamma
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class Head(object):
    """One read or write head. `emit` cuts the controller output into its parts."""

    SHIFTS = (-1, 0, 1)

    def __init__(self, width, hidden, rng, writes=False):
        self.width = width
        self.writes = writes
        size = width + 1 + 1 + len(self.SHIFTS) + 1
        if writes:
            size += 2 * width
        self.W = rng.normal(0, 0.1, (hidden, size))
        self.b = np.zeros(size)

    def emit(self, h):
        z = h @ self.W + self.b
        w = self.width
        parts = {"key": np.tanh(z[:w]),
                 "beta": softplus(z[w]),
                 "gate": sigmoid(z[w + 1])}
        n = len(self.SHIFTS)
        s = np.exp(z[w + 2:w + 2 + n] - z[w + 2:w + 2 + n].max())
        parts["shift"] = s / s.sum()
        parts["gamma"] = 1.0 + softplus(z[w + 2 + n])
        if self.writes:
            rest = z[w + 3 + n:]
            parts["erase"] = sigmoid(rest[:w])
            parts["add"] = np.tanh(rest[w:])
        return parts

    def address(self, M, w_prev, key, beta, gate, shift, gamma):
        # by content
        sim = M @ key / (np.linalg.norm(M, axis=1) * np.linalg.norm(key) + 1e-8)
        e = np.exp(beta * (sim - sim.max()))
        w_c = e / e.sum()
        # by location
        w_g = gate * w_c + (1.0 - gate) * w_prev
        w_s = sum(p * np.roll(w_g, step) for p, step in zip(shift, self.SHIFTS))
        w = w_s ** gamma
        return w / w.sum()


class NTM:
    def __init__(self, n_in, n_out, slots=32, width=12, hidden=48, seed=0):
        rng = np.random.default_rng(seed)
        self.reader = Head(width, hidden, rng)
        self.writer = Head(width, hidden, rng, writes=True)
        self.Wx = rng.normal(0, 0.1, (n_in + width, hidden))
        self.Wh = rng.normal(0, 0.1, (hidden, hidden))
        self.Wy = rng.normal(0, 0.1, (hidden + width, n_out))
        self.shape = (slots, width)
        self.hidden = hidden
        self.reset()

    def reset(self):
        slots, width = self.shape
        self.M = np.full((slots, width), 1e-6)
        self.w_read = np.eye(slots)[0]
        self.w_write = np.eye(slots)[0]
        self.r = np.zeros(width)
        self.h = np.zeros(self.hidden)

    def step(self, x):
        self.h = np.tanh(np.concatenate([x, self.r]) @ self.Wx + self.h @ self.Wh)

        p = self.writer.emit(self.h)
        erase, add = p.pop("erase"), p.pop("add")
        self.w_write = self.writer.address(self.M, self.w_write, **p)
        self.M = self.M * (1.0 - np.outer(self.w_write, erase)) + np.outer(self.w_write, add)

        self.w_read = self.reader.address(self.M, self.w_read, **self.reader.emit(self.h))
        self.r = self.w_read @ self.M
        return sigmoid(np.concatenate([self.h, self.r]) @ self.Wy)

    def run(self, xs):
        self.reset()
        return np.stack([self.step(x) for x in xs])


def copy_task(rng, bits=6, length=8):
    seq = rng.integers(0, 2, (length, bits)).astype(float)
    xs = np.zeros((2 * length + 1, bits + 1))
    xs[:length, :bits] = seq
    xs[length, bits] = 1.0
    return xs, seq


if __name__ == "__main__":
    xs, target = copy_task(np.random.default_rng(1))
    ys = NTM(7, 6).run(xs)
    print(ys[-len(target):].shape)
