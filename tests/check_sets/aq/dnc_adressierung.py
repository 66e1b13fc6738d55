"""Content and temporal addressing of a differentiable neural computer, NumPy, for the notebook."""
import numpy as np


def oneplus(x):
    return 1.0 + np.logaddexp(0.0, x)


def content_weighting(memory, keys, strength, eps=1e-8):
    """C(M, k, beta)[i] = softmax_i( beta * cos(k, M[i]) ).

    memory [B, N, W], keys [B, R, W], strength [B, R] (>= 1); gives [B, R, N].
    """
    dot = np.matmul(keys, memory.transpose(0, 2, 1))
    norm = np.linalg.norm(keys, axis=-1)[:, :, None] * np.linalg.norm(memory, axis=-1)[:, None, :]
    z = strength[..., None] * dot / (norm + eps)
    z -= z.max(axis=-1, keepdims=True)
    w = np.exp(z)
    return w / w.sum(axis=-1, keepdims=True)


def allocation(usage):
    """Free list: the least used cell first."""
    order = np.argsort(usage, axis=-1, kind="stable")
    u = np.take_along_axis(usage, order, -1)
    before = np.cumprod(np.concatenate([np.ones_like(u[:, :1]), u[:, :-1]], -1), -1)
    out = np.empty_like(u)
    np.put_along_axis(out, order, (1 - u) * before, -1)
    return out


def link_update(link, precedence, w):
    a = 1 - w[:, :, None] - w[:, None, :]
    link = a * link + w[:, :, None] * precedence[:, None, :]
    n = link.shape[-1]
    link[:, np.arange(n), np.arange(n)] = 0
    return link, (1 - w.sum(-1, keepdims=True)) * precedence + w


class Speicher:
    def __init__(self, batch, cells, width, reads):
        self.M = np.full((batch, cells, width), 1e-6)
        self.u = np.zeros((batch, cells))
        self.L = np.zeros((batch, cells, cells))
        self.p = np.zeros((batch, cells))
        self.wr = np.zeros((batch, reads, cells))

    def schreiben(self, key, beta, gate_a, gate_w, erase, vec):
        """All gates in [0, 1], [B]; erase and vec [B, W]"""
        c = content_weighting(self.M, key[:, None], beta[:, None])[:, 0]
        w = gate_w[:, None] * (gate_a[:, None] * allocation(self.u) + (1 - gate_a)[:, None] * c)
        self.M = self.M * (1 - w[..., None] * erase[:, None]) + w[..., None] * vec[:, None]
        self.u = self.u + w - self.u * w
        self.L, self.p = link_update(self.L, self.p, w)

    def lesen(self, keys, beta, modes):
        """modes [B, R, 3]: backward, content, forward"""
        fwd = np.einsum("bij,brj->bri", self.L, self.wr)
        bwd = np.einsum("bij,bri->brj", self.L, self.wr)
        c = content_weighting(self.M, keys, beta)
        self.wr = modes[..., :1] * bwd + modes[..., 1:2] * c + modes[..., 2:] * fwd
        return self.wr @ self.M
