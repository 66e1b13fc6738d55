"""Attention between a stellar spectrum and a template library, blockwise in NumPy.

Never builds the full [n, m] matrix: rows of templates come in blocks, the running maximum
`peak`, the denominators `mass` and the sums `acc` are kept per query row.
"""
import numpy as np

C_KMS = 299_792.458


def doppler(lam, v_kms):
    return lam * (1 + v_kms / C_KMS)


def stream_attention(q, k, v, flagged=None, chunk=64, qchunk=32):
    """q [n, d], k [m, d], v [m, e] -> [n, e].

    flagged [m] bool, True = template is bad and is left out.  If all are bad the result is 0.
    """
    n, d = q.shape
    out = np.zeros((n, v.shape[1]))
    for a in range(0, n, qchunk):
        qa = q[a:a + qchunk].astype(np.float64) / np.sqrt(d)
        peak = np.full(len(qa), -np.inf)
        mass = np.zeros(len(qa))
        acc = np.zeros((len(qa), v.shape[1]))
        for b in range(0, k.shape[0], chunk):
            kb, vb = k[b:b + chunk], v[b:b + chunk]
            if flagged is not None:
                good = ~flagged[b:b + chunk]
                kb, vb = kb[good], vb[good]
            if not len(kb):
                continue
            s = qa @ kb.T
            new = np.maximum(peak, s.max(1))
            shrink = np.exp(peak - new)
            p = np.exp(s - new[:, None])
            mass = mass * shrink + p.sum(1)
            acc = acc * shrink[:, None] + p @ vb
            peak = new
        ok = mass > 0
        out[a:a + qchunk][ok] = acc[ok] / mass[ok, None]
    return out


class TemplateFit:
    def __init__(self, templates, labels):
        self.t, self.y = templates, labels
        self.bad = ~np.isfinite(templates).all(1)

    def predict(self, spectra):
        return stream_attention(spectra, self.t, self.y, self.bad)


if __name__ == "__main__":
    r = np.random.default_rng(0)
    fit = TemplateFit(r.normal(size=(300, 12)), r.normal(size=(300, 3)))
    print(fit.predict(r.normal(size=(5, 12))))
