"""Object slots for plankton micrographs.

``SlotBinder`` is slot attention: the patch features are keys and values, K slots are
queries, and -- this is the point of the method -- the softmax runs over the SLOTS, so
that slots compete for a patch.  The weights are then normalised over the patches so
that the update is a weighted mean.  A few rounds, each ending in a GRU and a residual MLP.

float64 NumPy, forward only; the weights come from the training box.
"""

import numpy as np

EPS = 1e-8


def layer_norm(x, gain, shift, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) * gain + shift


def sig(x):
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


class SlotBinder:
    def __init__(self, n_slots, dim, hidden=None, rounds=3, seed=0):
        self.n_slots, self.dim, self.rounds = n_slots, dim, rounds
        hidden = hidden or 2 * dim
        rng = np.random.default_rng(seed)

        def w(*s):
            return rng.normal(0.0, s[0] ** -0.5, s)

        one, nul = np.ones(dim), np.zeros(dim)
        self.p = {
            "in.g": one, "in.b": nul, "slot.g": one, "slot.b": nul, "mlp.g": one, "mlp.b": nul,
            "q": w(dim, dim), "k": w(dim, dim), "v": w(dim, dim),
            "gru.x": w(dim, 3 * dim), "gru.h": w(dim, 3 * dim),
            "gru.bx": np.zeros(3 * dim), "gru.bh": np.zeros(3 * dim),
            "mlp.1": w(dim, hidden), "mlp.2": w(hidden, dim),
            "mu": rng.normal(size=dim), "log_sigma": rng.normal(size=dim) * 0.1,
        }

    def start(self, batch, rng):
        noise = rng.normal(size=(batch, self.n_slots, self.dim))
        return self.p["mu"] + np.exp(self.p["log_sigma"]) * noise

    def _gru(self, x, h):
        gx = x @ self.p["gru.x"] + self.p["gru.bx"]
        gh = h @ self.p["gru.h"] + self.p["gru.bh"]
        (xr, xz, xn), (hr, hz, hn) = np.split(gx, 3, -1), np.split(gh, 3, -1)
        r, z = sig(xr + hr), sig(xz + hz)
        n = np.tanh(xn + r * hn)
        return (1 - z) * n + z * h

    def __call__(self, patches, slots):
        """patches (B, N, dim), slots (B, K, dim) -> new slots, assignment (B, K, N).

        The assignment sums to one over the slots of every patch.
        """
        p = self.p
        f = layer_norm(patches, p["in.g"], p["in.b"])
        k, v = f @ p["k"], f @ p["v"]
        k = k * self.dim ** -0.5
        for _ in range(self.rounds):
            before = slots
            q = layer_norm(slots, p["slot.g"], p["slot.b"]) @ p["q"]
            logits = np.einsum("bkd,bnd->bkn", q, k)
            logits = logits - logits.max(axis=1, keepdims=True)
            share = np.exp(logits)
            share = share / share.sum(axis=1, keepdims=True)          # over the slots
            mean_w = share + EPS
            mean_w = mean_w / mean_w.sum(axis=2, keepdims=True)       # over the patches
            slots = self._gru(np.einsum("bkn,bnd->bkd", mean_w, v), before)
            h = np.maximum(layer_norm(slots, p["mlp.g"], p["mlp.b"]) @ p["mlp.1"], 0)
            slots = slots + h @ p["mlp.2"]
        return slots, share


def outlines(assignment, side):
    """Hard map of slot numbers, (B, side, side)."""
    return assignment.argmax(1).reshape(-1, side, side)


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    sb = SlotBinder(4, 16)
    out, a = sb(rng.normal(size=(2, 36, 16)), sb.start(2, rng))
    print(out.shape, np.allclose(a.sum(1), 1), outlines(a, 6)[0])
