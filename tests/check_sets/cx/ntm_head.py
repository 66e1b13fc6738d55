"""Content and location addressing of a neural Turing machine (Graves et al. 2014), one head."""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


class NTMHead:
    """P holds matrices of the controller's output layer: key [c, M], beta [c], gate [c],
    shift [c, 3] (for offsets -1, 0, +1), gamma [c]."""

    def __init__(self, P):
        self.P = P

    def address(self, h, memory, w_prev):
        """h [c], memory [N, M], w_prev [N] (sums to 1) -> new weighting [N] which sums to 1.

        1. content: softmax over rows of softplus(beta) * cosine(key, row)
        2. interpolation with w_prev by a sigmoid gate
        3. circular convolution: w[i] = sum_o shift[o] * wg[i - o]
        4. sharpening with exponent 1 + softplus(gamma)
        """
        P = self.P
        key = np.tanh(h @ P["key"])
        lens = np.linalg.norm(memory, axis=1) * np.linalg.norm(key)
        cos = (memory @ key) / np.maximum(lens, 1e-8)
        z = softplus(h @ P["beta"]) * cos
        z = np.exp(z - z.max())
        wc = z / z.sum()
        g = 0.5 * (1 + np.tanh(0.5 * (h @ P["gate"])))
        wg = g * wc + (1 - g) * w_prev
        s = h @ P["shift"]
        s = np.exp(s - s.max())
        s = s / s.sum()
        ws = s[0] * np.roll(wg, -1) + s[1] * wg + s[2] * np.roll(wg, 1)
        w = (ws / ws.max()) ** (1 + softplus(h @ P["gamma"]))
        return w / w.sum()

    def read(self, h, memory, w_prev):
        w = self.address(h, memory, w_prev)
        return w @ memory, w
