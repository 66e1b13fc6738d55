"""Reads embeddings shard by shard from disk and pools them for a question.

The corpus does not fit in memory, so the pooling keeps a running maximum,
a running normaliser and a running sum per question row.
"""
import glob
import os

import numpy as np


def iter_shards(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.npz"))):
        with np.load(path) as z:
            yield z["keys"], z["values"], z.get("alive", None)


def pool_over_shards(queries, shards, temperature=None):
    """softmax(queries @ keys.T / sqrt(d)) @ values over the union of all shards.

    queries: (n, d)
    shards : iterable of (keys (m, d), values (m, e), alive (m,) bool or None);
             alive False = document was deleted and must get no weight
    temperature: replaces sqrt(d) if given
    returns (n, e); zeros for a corpus without living documents.
    """
    q = np.asarray(queries, dtype=np.float64)
    n, d = q.shape
    tau = np.sqrt(d) if temperature is None else float(temperature)
    m_run = np.full((n, 1), -np.inf)
    l_run = np.zeros((n, 1))
    acc = None
    for keys, values, alive in shards:
        values = np.asarray(values, dtype=np.float64)
        keys = np.asarray(keys, dtype=np.float64)
        if alive is not None:
            keys, values = keys[alive], values[alive]
        if acc is None:
            acc = np.zeros((n, values.shape[1]))
        if len(keys) == 0:
            continue
        s = q @ keys.T / tau
        m_new = np.maximum(m_run, s.max(axis=1, keepdims=True))
        fade = np.exp(m_run - m_new)
        e = np.exp(s - m_new)
        l_run = l_run * fade + e.sum(axis=1, keepdims=True)
        acc = acc * fade + e @ values
        m_run = m_new
    if acc is None:
        raise ValueError("no shards")
    return np.divide(acc, l_run, out=np.zeros_like(acc), where=l_run > 0)


def main():
    import argparse
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("questions")
    a = ap.parse_args()
    np.save("pooled.npy", pool_over_shards(np.load(a.questions), iter_shards(a.folder)))


if __name__ == "__main__":
    main()
