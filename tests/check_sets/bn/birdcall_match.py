"""few-shot bird call detection: match frames of a field recording against a few labelled exemplar calls"""
import numpy as np

SR = 22050
SPECIES = ("turdus_merula", "parus_major", "erithacus_rubecula", "noise")


def frame(signal, size=512, hop=256):
    n = 1 + max(0, len(signal) - size) // hop
    idx = np.arange(size)[None] + hop * np.arange(n)[:, None]
    return signal[idx] * np.hanning(size)


def log_bands(signal, bands=24):
    """very rough log-spaced filter bank, [frames, bands]"""
    spec = np.abs(np.fft.rfft(frame(signal), axis=1)) ** 2
    edges = np.unique(np.geomspace(4, spec.shape[1], bands + 1).astype(int))
    return np.log1p(np.add.reduceat(spec, edges[:-1], axis=1))


def row_softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(np.exp(x), axis=-1, keepdims=True)


class ExemplarAttention(object):
    """query frames look up exemplar frames

    frames      [T, F]
    exemplars   [N, F]      frames of the labelled calls, concatenated
    labels      [N, C]      one-hot species of each exemplar frame
    usable      [N] bool    frames that are loud enough to count (True = use)

    result      [T, C] expected label, i.e. softmax(q k^T / sqrt(d)) @ labels, whose
    rows are probabilities, and the weights [T, N]
    """

    def __init__(self, n_feat, d=16, seed=0):
        rng = np.random.RandomState(seed)
        self.wq = rng.randn(n_feat, d) / np.sqrt(n_feat)
        self.wk = rng.randn(n_feat, d) / np.sqrt(n_feat)
        self.d = d

    def scores(self, frames, exemplars):
        return (frames @ self.wq) @ (exemplars @ self.wk).T / np.sqrt(self.d)

    def __call__(self, frames, exemplars, labels, usable=None):
        s = self.scores(frames, exemplars)
        if usable is not None:
            s = np.where(usable[None, :], s, -np.inf)
        w = row_softmax(s)
        return w @ labels, w


def smooth(prob, width=5):
    k = np.ones(width) / width
    return np.stack([np.convolve(p, k, mode="same") for p in prob.T], 1)


def events(prob, thr=0.6, hop=256):
    """[(start s, end s, species), ...]"""
    best, out, start = prob.argmax(1), [], 0
    for t in range(1, len(best) + 1):
        if t == len(best) or best[t] != best[start]:
            name = SPECIES[best[start]]
            if name != "noise" and prob[start:t, best[start]].mean() > thr:
                out.append((start * hop / SR, t * hop / SR, name))
            start = t
    return out


def chirp(f0, f1, secs, rng):
    t = np.arange(int(secs * SR)) / SR
    return np.sin(2 * np.pi * (f0 + (f1 - f0) * t / secs / 2) * t) + 0.05 * rng.randn(len(t))


def main():
    rng = np.random.RandomState(4)
    bank = [chirp(2000, 3000, 0.2, rng), chirp(4000, 3500, 0.2, rng),
            chirp(5000, 7000, 0.2, rng), 0.05 * rng.randn(4410)]
    feats = [log_bands(b) for b in bank]
    ex = np.concatenate(feats)
    lab = np.concatenate([np.tile(np.eye(4)[i], (len(f), 1)) for i, f in enumerate(feats)])
    att = ExemplarAttention(ex.shape[1])
    rec = np.concatenate([bank[3], chirp(2000, 3000, 0.2, rng), bank[3]])
    p, _ = att(log_bands(rec), ex, lab, ex.sum(1) > np.median(ex.sum(1)) * 0.2)
    print(events(smooth(p)))


if __name__ == "__main__":
    main()
