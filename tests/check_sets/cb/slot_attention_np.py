'''Slot Attention (Locatello et al. 2020), inference only, numpy port of the official TF code.

Used to peek at the slots of the CLEVR6 checkpoint without installing TF.

Note that slots COMPETE for the inputs: the softmax is over the slot axis, and the
attention is then normalised over the inputs (weighted mean, eps = 1e-8), see Algorithm 1.
'''
import numpy as np


def layer_norm(x, p, eps=1e-3):
    m = x.mean(-1, keepdims=True)
    s = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * p['gamma'] + p['beta']


def sigmoid(x):
    return .5 * (1. + np.tanh(.5 * x))


def gru(h, x, p):
    # keras GRUCell, reset_after=False; order z, r, h
    u = h.shape[-1]
    W, U, b = p['kernel'], p['recurrent'], p['bias']
    xz, xr, xh = np.split(x @ W + b, 3, axis=-1)
    z = sigmoid(xz + h @ U[:, :u])
    r = sigmoid(xr + h @ U[:, u:2*u])
    c = np.tanh(xh + (r * h) @ U[:, 2*u:])
    return z * h + (1 - z) * c


class SlotAttention:

    def __init__(self, params, iters=3, eps=1e-8):
        self.p = params
        self.iters = iters
        self.eps = eps

    def competition(self, q, k):
        # q (B,S,D) slots, k (B,N,D) inputs -> (B,N,S)
        logits = np.matmul(k, np.swapaxes(q, 1, 2)) * q.shape[-1] ** -0.5
        logits -= logits.max(axis=-1, keepdims=True)
        e = np.exp(logits)
        return e / e.sum(axis=-1, keepdims=True)

    def __call__(self, inputs, slots):
        """inputs (B,N,Din), slots (B,S,D) initial -> slots (B,S,D), attn (B,N,S)"""
        p = self.p
        x = layer_norm(inputs, p['norm_in'])
        k = x @ p['k']
        v = x @ p['v']
        attn = None
        for _ in range(self.iters):
            prev = slots
            q = layer_norm(slots, p['norm_slots']) @ p['q']
            attn = self.competition(q, k)
            w = attn + self.eps
            w = w / w.sum(axis=1, keepdims=True)
            updates = np.einsum('bns,bnd->bsd', w, v)
            slots = gru(prev, updates, p['gru'])
            h = layer_norm(slots, p['norm_mlp'])
            slots = slots + np.maximum(h @ p['mlp1'] + p['mlp1_b'], 0) @ p['mlp2'] + p['mlp2_b']
        return slots, attn


def random_params(din, d, hid, rng):
    n = lambda *s: rng.normal(0, s[0] ** -0.5, s)
    ln = lambda k: {'gamma': np.ones(k), 'beta': np.zeros(k)}
    return {
        'norm_in': ln(din), 'norm_slots': ln(d), 'norm_mlp': ln(d),
        'q': n(d, d), 'k': n(din, d), 'v': n(din, d),
        'gru': {'kernel': n(d, 3 * d), 'recurrent': n(d, 3 * d), 'bias': np.zeros(3 * d)},
        'mlp1': n(d, hid), 'mlp1_b': np.zeros(hid), 'mlp2': n(hid, d), 'mlp2_b': np.zeros(d),
    }
