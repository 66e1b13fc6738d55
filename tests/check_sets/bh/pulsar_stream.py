# pulsar_stream.py -- dispersed-pulse search, linear-attention denoiser
#
# The dynamic spectra come in as one long stream (64 us samples), so we cannot
# keep all keys. We use the kernelised form (Katharopoulos et al. 2020):
#     out_i = phi(q_i) S_i / (phi(q_i) . z_i)
#     S_i = sum_{j<=i} phi(k_j) v_j^T ,  z_i = sum_{j<=i} phi(k_j)
# with phi(x) = elu(x) + 1.   Causal: sample i sees itself and the past.
import numpy as np

N_CHAN = 32
EPS = 1e-12


def phi(x):
    """elu(x)+1, strictly positive"""
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def dm_delay(dm, f_mhz, f_ref=1400.0):
    """dispersion delay in seconds"""
    return 4.148808e3 * dm * (f_mhz ** -2 - f_ref ** -2)


def dedisperse(block, dm, freqs, tsamp):
    out = np.empty_like(block)
    for c, f in enumerate(freqs):
        out[:, c] = np.roll(block[:, c], -int(round(dm_delay(dm, f) / tsamp)))
    return out


class StreamAttention:
    """Multi-head causal linear attention with a carried state.

    feed(q, k, v): q, k are (T, H, D), v is (T, H, E); returns (T, H, E).
    Several calls to feed() are the same as one call with all the samples;
    reset() forgets the past.
    """

    def __init__(self, heads, dk, dv):
        self.heads, self.dk, self.dv = heads, dk, dv
        self.reset()

    def reset(self):
        self.S = np.zeros((self.heads, self.dk, self.dv))
        self.z = np.zeros((self.heads, self.dk))
        self.n_seen = 0

    def feed(self, q, k, v):
        fq, fk = phi(q), phi(k)
        T = q.shape[0]
        out = np.empty((T, self.heads, self.dv))
        for t in range(T):
            self.S += fk[t][:, :, None] * v[t][:, None, :]
            self.z += fk[t]
            num = np.einsum("hd,hde->he", fq[t], self.S)
            den = np.einsum("hd,hd->h", fq[t], self.z)
            out[t] = num / (den[:, None] + EPS)
        self.n_seen += T
        return out


def feed_chunked(att, q, k, v, chunk=16):
    """The same numbers with matrix products of size `chunk` (faster)."""
    pieces = []
    for s in range(0, len(q), chunk):
        fq, fk, vv = phi(q[s:s + chunk]), phi(k[s:s + chunk]), v[s:s + chunk]
        tri = np.tril(np.ones((len(fq), len(fq))))
        local = np.einsum("ihd,jhd->hij", fq, fk) * tri
        num = np.einsum("hij,jhe->ihe", local, vv)
        num += np.einsum("ihd,hde->ihe", fq, att.S)
        den = local.sum(-1).T + np.einsum("ihd,hd->ih", fq, att.z)
        pieces.append(num / (den[..., None] + EPS))
        att.S += np.einsum("jhd,jhe->hde", fk, vv)
        att.z += fk.sum(0)
        att.n_seen += len(fq)
    return np.concatenate(pieces)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    q, k = rng.normal(size=(2, 50, 2, 8))
    v = rng.normal(size=(50, 2, 5))
    a, b = StreamAttention(2, 8, 5), StreamAttention(2, 8, 5)
    print(np.abs(a.feed(q, k, v) - feed_chunked(b, q, k, v)).max())
