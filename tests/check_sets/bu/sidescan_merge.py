"""sidescan_merge.py

Side-scan sonar: pings (queries) against swaths of older pings (keys) that live in
memory-mapped numpy files.  Each swath is attended to on its own with torch
(exp2, which is faster on the survey boat's box); the parts are then merged in
numpy with their log-sum-exps.  The result equals attention over all swaths at once.
"""
import math

import numpy as np
import torch

LOG2E = 1.4426950408889634


def one_swath(q, k, v):
    """q (P, d), k (n, d), v (n, c) -> mean (P, c), lse (P,)"""
    s = (q @ k.T) * (LOG2E / math.sqrt(q.shape[-1]))
    top = s.max(dim=-1, keepdim=True).values
    e = torch.exp2(s - top)
    total = e.sum(-1, keepdim=True)
    return e @ v / total, (top + torch.log2(total)).squeeze(-1)


def merge(means, lses):
    """means (m, P, c), lses (m, P) -> (P, c)"""
    lses = np.asarray(lses)
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return np.einsum("mp,mpc->pc", w, np.asarray(means))


class Swath:
    """One pass of the boat."""

    def __init__(self, keys, echoes, name=""):
        if len(keys) != len(echoes):
            raise ValueError(f"swath {name!r}: {len(keys)} keys, {len(echoes)} echoes")
        self.keys, self.echoes, self.name = keys, echoes, name

    def tensors(self, dtype):
        return torch.as_tensor(self.keys, dtype=dtype), torch.as_tensor(self.echoes, dtype=dtype)


def listen_to_swaths(pings, swaths):
    """pings (P, d) numpy, swaths: list of Swath -> (P, c) numpy"""
    q = torch.as_tensor(pings)
    means, lses = [], []
    with torch.no_grad():
        for s in swaths:
            m, l = one_swath(q, *s.tensors(q.dtype))
            means.append(m.numpy())
            lses.append(l.numpy())
    return merge(means, lses)


def slant_to_ground(slant, altitude):
    return np.sqrt(np.clip(slant ** 2 - altitude ** 2, 0, None))


def wreck_candidates(echo, sigma=3.0):
    z = (echo - np.median(echo, axis=0)) / (echo.std(axis=0) + 1e-9)
    return np.unique(np.nonzero(z > sigma)[0])


if __name__ == "__main__":
    g = np.random.default_rng(4)
    sw = [Swath(g.normal(size=(n, 6)), g.normal(size=(n, 2)), f"S{n}") for n in (9, 4, 12)]
    print(wreck_candidates(listen_to_swaths(g.normal(size=(30, 6)), sw)))
