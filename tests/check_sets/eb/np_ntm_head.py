"""Neural Turing Machine, one read head, forward only, in NumPy (blog post, part 3 of 5).

The head emits
    k     (B, M)   key
    beta  (B,)     key strength, > 0
    g     (B,)     interpolation gate in (0, 1)
    s     (B, 3)   shift distribution over offsets -1, 0, +1 (rows sum to 1)
    gamma (B,)     sharpening, >= 1

and addressing goes   content -> interpolate with the last weights -> rotate -> sharpen
exactly as in Graves, Wayne and Danihelka (2014), section 3.3.
There is no 1/sqrt(M) anywhere: similarity is the cosine, beta is the temperature.
"""
import numpy as np


def cosine(mem, k, eps=1e-8):
    num = np.einsum("bnm,bm->bn", mem, k)
    den = np.linalg.norm(mem, axis=-1) * np.linalg.norm(k, axis=-1, keepdims=True)
    return num / (den + eps)


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=-1, keepdims=True)


def address(mem, k, beta, g, s, gamma, w_old):
    """mem (B, N, M); w_old (B, N) weights of the step before. Returns w (B, N), rows sum to 1."""
    wc = softmax(beta[:, None] * cosine(mem, k))
    wg = g[:, None] * wc + (1.0 - g[:, None]) * w_old
    # an offset of +1 moves the mass from slot i to slot i+1, around the ring
    ws = (s[:, :1] * np.roll(wg, -1, axis=1)
          + s[:, 1:2] * wg
          + s[:, 2:] * np.roll(wg, 1, axis=1))
    wp = ws ** gamma[:, None]
    return wp / wp.sum(axis=1, keepdims=True)


def read(mem, w):
    """(B, N, M), (B, N) -> (B, M)"""
    return np.einsum("bn,bnm->bm", w, mem)


def write(mem, w, erase, add):
    """erase in (0,1) and add, both (B, M); returns the NEW memory, the old one is untouched."""
    keep = 1.0 - w[:, :, None] * erase[:, None, :]
    return mem * keep + w[:, :, None] * add[:, None, :]


def ntm_step(mem, w_old, k, beta, g, s, gamma, erase, add):
    """One time step of a head that first reads, then writes at the same place.

    Returns (r (B, M), new memory (B, N, M), w (B, N)).
    """
    w = address(mem, k, beta, g, s, gamma, w_old)
    r = read(mem, w)
    return r, write(mem, w, erase, add), w
