# NumPy only: runs in the table simulator, no torch there.
# A hand = sequence of actions (bet/call/fold ...), each with a feature vector and
# the seat of the player who acted.
import numpy as np

STREETS = {"preflop": 0, "flop": 1, "turn": 2, "river": 3}


def _softmax(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


class ActionReader:
    """Causal attention over the actions of ONE hand, with a learned bias per head and
    action distance table (heads, max_actions, max_actions), trained in torch and
    exported; here it is only read.

        logits = q k^T / sqrt(d) + bias[:, :n, :n]
    """

    def __init__(self, weights, heads):
        self.wq, self.wk, self.wv, self.wo = (weights[n] for n in ("wq", "wk", "wv", "wo"))
        self.bias = np.asarray(weights["bias"], dtype=np.float64)
        self.heads = heads

    def _cut(self, x):
        n, c = x.shape
        return x.reshape(n, self.heads, c // self.heads).swapaxes(0, 1)

    def __call__(self, actions):
        n = len(actions)
        q, k, v = (self._cut(actions @ w) for w in (self.wq, self.wk, self.wv))
        s = self.bias[:, :n, :n]
        s += q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
        y = _softmax(s) @ v
        return y.swapaxes(0, 1).reshape(n, -1) @ self.wo


class RangeEstimator:
    """Running guess at the strength bucket of every opponent."""

    def __init__(self, reader, head):
        self.reader, self.head = reader, head

    def update(self, actions, seats, n_seats):
        h = self.reader(actions)
        out = np.full((n_seats, self.head.shape[1]), 1.0 / self.head.shape[1])
        for seat in range(n_seats):
            mine = np.flatnonzero(seats == seat)
            if mine.size:
                out[seat] = _softmax(h[mine[-1]] @ self.head)
        return out


def random_weights(c, heads, longest, seed=0):
    r = np.random.default_rng(seed)
    w = {n: r.normal(size=(c, c)) / np.sqrt(c) for n in ("wq", "wk", "wv", "wo")}
    w["bias"] = 0.1 * r.normal(size=(heads, longest, longest))
    return w


if __name__ == "__main__":
    reader = ActionReader(random_weights(16, 4, 40), 4)
    est = RangeEstimator(reader, np.random.default_rng(1).normal(size=(16, 5)))
    a = np.random.default_rng(2).normal(size=(9, 16))
    print(est.update(a, np.array([0, 1, 2, 3, 0, 1, 3, 0, 3]), 6).round(2))
