# Neural Turing Machine head for the maze game, forward pass only (evolved with CMA-ES, no gradients)
# Graves, Wayne, Danihelka 2014, section 3.3: content addressing -> interpolation -> shift -> sharpening

import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def circular_shift(w, s):
    """w~(i) = sum_j w(j) s(i - j), shifts -1, 0, +1"""
    return s[0] * np.roll(w, -1) + s[1] * w + s[2] * np.roll(w, 1)


class MemoryHead:
    """Reads from and writes to a memory of n slots x m numbers."""

    def __init__(self, n, m, hidden, genome):
        self.n, self.m = n, m
        self.sizes = [("key", m), ("beta", 1), ("gate", 1), ("shift", 3), ("gamma", 1), ("erase", m), ("add", m)]
        total = sum(s for _, s in self.sizes)
        need = hidden * total + total
        if len(genome) != need:
            raise ValueError("genome has %d genes, need %d" % (len(genome), need))
        self.W = np.reshape(genome[: hidden * total], (hidden, total))
        self.b = np.asarray(genome[hidden * total:])

    def interface(self, h):
        z = h @ self.W + self.b
        out, at = {}, 0
        for name, s in self.sizes:
            out[name] = z[at:at + s]
            at += s
        sh = np.exp(out["shift"] - out["shift"].max())
        return dict(key=np.tanh(out["key"]), beta=softplus(out["beta"][0]), gate=sigmoid(out["gate"][0]),
                    shift=sh / sh.sum(), gamma=1.0 + softplus(out["gamma"][0]),
                    erase=sigmoid(out["erase"]), add=np.tanh(out["add"]))

    @staticmethod
    def content_address(memory, key, beta, eps=1e-8):
        """w_c(i) = exp(beta K[k, M(i)]) / sum_j exp(beta K[k, M(j)]),  K = cosine similarity"""
        dots = memory @ key
        norms = np.linalg.norm(memory, axis=1) * np.linalg.norm(key)
        logits = beta * dots / (norms + eps)
        e = np.exp(logits - logits.max())
        return e / e.sum()

    def address(self, memory, w_prev, iface):
        wc = self.content_address(memory, iface["key"], iface["beta"])
        wg = iface["gate"] * wc + (1.0 - iface["gate"]) * w_prev
        ws = circular_shift(wg, iface["shift"])
        wp = np.power(np.maximum(ws, 1e-12), iface["gamma"])
        return wp / wp.sum()

    def step(self, h, memory, w_prev):
        f = self.interface(h)
        w = self.address(memory, w_prev, f)
        read = w @ memory
        new_memory = memory * (1.0 - np.outer(w, f["erase"])) + np.outer(w, f["add"])
        return read, new_memory, w


class MazeAgent:
    """tiny Elman controller: (observation, last read) -> action, one head"""

    def __init__(self, n_obs, n_act, hidden=12, slots=16, width=6, rng=None):
        rng = rng or np.random.default_rng()
        self.hidden, self.slots, self.width = hidden, slots, width
        self.Wi = rng.normal(0, 0.3, (n_obs + width, hidden))
        self.Wh = rng.normal(0, 0.3, (hidden, hidden))
        self.Wo = rng.normal(0, 0.3, (hidden + width, n_act))
        n_out = 3 * width + 6
        self.head = MemoryHead(slots, width, hidden, rng.normal(0, 0.5, hidden * n_out + n_out))
        self.reset()

    def reset(self):
        self.h = np.zeros(self.hidden)
        self.read = np.zeros(self.width)
        self.mem = np.full((self.slots, self.width), 1e-2)
        self.w = np.eye(self.slots)[0]

    def act(self, obs):
        self.h = np.tanh(np.concatenate([obs, self.read]) @ self.Wi + self.h @ self.Wh)
        self.read, self.mem, self.w = self.head.step(self.h, self.mem, self.w)
        return int(np.argmax(np.concatenate([self.h, self.read]) @ self.Wo))


if __name__ == "__main__":
    agent = MazeAgent(9, 4, rng=np.random.default_rng(3))
    print([agent.act(np.random.default_rng(i).normal(size=9)) for i in range(12)])
