"""Edge inference for the hydrophone buoy (ARM, NumPy only, no BLAS threads).

The model was trained with one learned *sink logit* per head: it takes part in
the softmax denominator and has no value, so a head may decide to look at
nothing.  Attention is local: a frame sees `window` frames, itself among them.
"""
import numpy as np

WEIGHT_KEYS = ("wq", "wk", "wv", "wo", "sink")


def random_weights(d, heads, hd, seed=0):
    g = np.random.default_rng(seed)
    s = d ** -0.5
    return {
        "wq": g.normal(0, s, (d, heads * hd)),
        "wk": g.normal(0, s, (d, hd)),            # a single kv head for everybody
        "wv": g.normal(0, s, (d, hd)),
        "wo": g.normal(0, (heads * hd) ** -0.5, (heads * hd, d)),
        "sink": g.normal(0, 1, heads),
    }


class SinkRing:
    """Ring buffer of the last `window` keys and values.

    feed(x) takes frames x [n, d] of ONE buoy, in order, in pieces of any size,
    and returns [n, d].  There is no positional signal in the scores; order
    inside the ring therefore does not matter.
    """

    def __init__(self, weights, heads, window):
        missing = [k for k in WEIGHT_KEYS if k not in weights]
        if missing:
            raise KeyError(", ".join(missing))
        self.w = {k: np.asarray(weights[k], np.float64) for k in WEIGHT_KEYS}
        self.heads = heads
        self.hd = self.w["wk"].shape[1]
        self.window = window
        self.reset()

    def reset(self):
        self.ring_k = np.zeros((self.window, self.hd))
        self.ring_v = np.zeros((self.window, self.hd))
        self.seen = 0

    def _one(self, q):
        """q [heads, hd] against whatever is live in the ring."""
        live = min(self.seen, self.window)
        k, v = self.ring_k[:live], self.ring_v[:live]
        s = q @ k.T / np.sqrt(self.hd)                     # heads, live
        top = np.maximum(s.max(axis=1), self.w["sink"])[:, None]
        e = np.exp(s - top)
        z = e.sum(axis=1, keepdims=True) + np.exp(self.w["sink"][:, None] - top)
        return (e / z) @ v

    def feed(self, x):
        x = np.atleast_2d(np.asarray(x, np.float64))
        n = len(x)
        q = (x @ self.w["wq"]).reshape(n, self.heads, self.hd)
        k, v = x @ self.w["wk"], x @ self.w["wv"]
        out = np.empty((n, self.heads * self.hd))
        for i in range(n):
            slot = self.seen % self.window
            self.ring_k[slot] = k[i]
            self.ring_v[slot] = v[i]
            self.seen += 1
            out[i] = self._one(q[i]).reshape(-1)
        return out @ self.w["wo"]

    def state(self):
        """For the watchdog: everything needed to resume after a reboot."""
        return {"k": self.ring_k.copy(), "v": self.ring_v.copy(), "seen": self.seen}

    def restore(self, st):
        self.ring_k[:] = st["k"]
        self.ring_v[:] = st["v"]
        self.seen = int(st["seen"])


def log_band_energies(pcm, bands=32, hop=256):
    frames = np.lib.stride_tricks.sliding_window_view(pcm, 2 * hop)[::hop]
    spec = np.abs(np.fft.rfft(frames * np.hanning(2 * hop))) ** 2
    return np.log(np.stack([b.sum(1) for b in np.array_split(spec, bands, axis=1)], 1) + 1e-9)


if __name__ == "__main__":
    pcm = np.random.default_rng(1).normal(size=16000)
    buoy = SinkRing(random_weights(32, 4, 8), heads=4, window=20)
    print(buoy.feed(log_band_energies(pcm)).shape)
