#!/usr/bin/env python
# Attention over very long tide-gauge records, record split over workers.
#
# Every worker holds a stretch of (keys, values) and sees all the queries.  It
# returns its own normalised answer and the log of its softmax denominator; the
# answers are merged afterwards, as if the record had never been split.
#
# exp2 is used inside as on our DSP boards (log2(e) goes into the scale).
import argparse

import numpy as np

LOG2E = 1.4426950408889634


def shard_attention(q, k, v):
    """q (n, d), k (m, d), v (m, c) -> answer (n, c), lse (n,)"""
    s = (q @ k.T) * (LOG2E / np.sqrt(q.shape[1]))
    top = s.max(axis=1)
    p = np.exp2(s - top[:, None])
    den = p.sum(axis=1)
    return (p @ v) / den[:, None], top + np.log2(den)


def merge(parts):
    """parts: list of (answer, lse) -> answer (n, c)"""
    lse = np.stack([p[1] for p in parts])             # (workers, n)
    share = np.exp(lse - lse.max(axis=0))
    share = share / share.sum(axis=0)
    return sum(w[:, None] * p[0] for w, p in zip(share, parts))


def tide_attention(q, k, v, workers=4):
    """softmax(q k^T / sqrt(d)) v, computed stretch by stretch."""
    cuts = np.array_split(np.arange(len(k)), min(workers, len(k)))
    return merge([shard_attention(q, k[c], v[c]) for c in cuts])


def harmonics(t, periods=(12.42, 12.0, 12.66, 23.93, 25.82)):
    """sin/cos of the main constituents M2 S2 N2 K1 O1 (hours)"""
    w = 2 * np.pi / np.asarray(periods)
    return np.concatenate([np.sin(t[:, None] * w), np.cos(t[:, None] * w)], axis=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hours", type=int, default=2000)
    ap.add_argument("--workers", type=int, default=4)
    a = ap.parse_args()
    rng = np.random.default_rng(0)
    t = np.arange(a.hours, dtype=float)
    level = np.sin(2 * np.pi * t / 12.42) + 0.3 * rng.normal(size=a.hours)
    f = 3 * harmonics(t)
    future = 3 * harmonics(np.arange(a.hours, a.hours + 24, dtype=float))
    print(tide_attention(future, f, level[:, None], a.workers)[:, 0].round(2))


if __name__ == "__main__":
    main()
