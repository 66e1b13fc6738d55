#!/usr/bin/env python3
"""Passage pooling for a tiny RAG demo without any ML framework but numpy.

usage: passage_pool.py question.npy passages.npy
"""
import sys

import numpy as np

CONFIG = dict(temperature=None, prior_strength=1.0)


def normalise_rows(s):
    """Softmax over passages, row by row; the maximum is taken out for stability."""
    top = s.max(axis=1, keepdims=True)
    e = np.exp(s - top)
    return e / np.exp(s).sum(axis=1, keepdims=True)


def log_prior(freshness, strength):
    """freshness in (0, 1], one number per passage"""
    return strength * np.log(np.clip(freshness, 1e-6, 1.0))


def pool_passages(questions, passages, values=None, freshness=None, config=CONFIG):
    """questions (n, d), passages (m, d), values (m, e) or None (= the passages)

    returns context (n, e) and weights (n, m) whose rows sum to one.
    """
    questions = np.asarray(questions, float)
    passages = np.asarray(passages, float)
    values = passages if values is None else np.asarray(values, float)
    t = config["temperature"] or np.sqrt(questions.shape[1])
    s = questions @ passages.T / t
    if freshness is not None:
        s = s + log_prior(np.asarray(freshness, float), config["prior_strength"])[None, :]
    w = normalise_rows(s)
    return w @ values, w


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def shortlist(questions, passages, k=50):
    """Cosine pre-selection, indices of the k best passages per question."""
    c = unit(questions) @ unit(passages).T
    k = min(k, c.shape[1])
    part = np.argpartition(-c, k - 1, axis=1)[:, :k]
    return np.take_along_axis(part, np.argsort(-np.take_along_axis(c, part, 1), 1), 1)


def main(argv):
    q, p = np.load(argv[1]), np.load(argv[2])
    idx = shortlist(q, p)
    for i, row in enumerate(idx):
        ctx, w = pool_passages(q[i:i + 1], p[row])
        print(i, row[w[0].argmax()], round(float(np.linalg.norm(ctx)), 4))


if __name__ == "__main__":
    main(sys.argv)
