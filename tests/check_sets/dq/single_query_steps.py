"""Lecture 3, part 1 -- attention with ONE query, one step per line.

A dictionary returns the value of the one key that matches. Attention returns a
blend of all values, weighted by how well their keys match.
"""
import numpy as np


def soft_lookup(query, keys, values):
    """Scaled dot-product attention of a single query.

    query  : (d,)     what we are looking for
    keys   : (n, d)   one key per memory slot
    values : (n, dv)  what is stored there
    Returns (context (dv,), weights (n,)): weights = softmax(keys . query / sqrt(d)),
    context = sum_i weights[i] * values[i].
    """
    n, d = keys.shape

    # Step 1. How similar is the query to each of the keys?
    similarity = np.empty(n)
    for i in range(n):
        similarity[i] = query @ keys[i]

    # Step 2. Dot products grow with d; bring them back to unit variance.
    similarity *= d ** -0.5

    # Step 3. Odds of every slot against the best slot (so nothing overflows).
    odds = np.exp(similarity - similarity.max())
    weights = odds / odds.sum()

    # Step 4. Blend.
    context = np.zeros(values.shape[1])
    for w, v in zip(weights, values):
        context += w * v
    return context, weights


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    c, w = soft_lookup(rng.normal(size=4), rng.normal(size=(5, 4)), rng.normal(size=(5, 2)))
    print(c.round(3), w.round(3), w.sum())
