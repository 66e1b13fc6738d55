import numpy as np


def _position_code(J, d):
    j = np.arange(1, J + 1)[:, None] / J
    k = np.arange(1, d + 1)[None, :] / d
    return (1 - j) - k * (1 - 2 * j)


def answer(story, question, facts, tables):
    """End-to-end memory network (Sukhbaatar et al.), adjacent weight tying.

    story    (B, n, J) int word ids, 0 = no word
    question (B, J)    int word ids
    facts    (B,)      how many of the n sentences are real (may be 0)
    tables   list of hops + 1 embedding matrices (V, d); table t addresses hop t,
             table t + 1 is read by it; the question uses table 0
    Unscaled inner products, as in the paper. Returns logits (B, V) by the last table.
    """
    B, n, J = story.shape
    code = _position_code(J, tables[0].shape[1])

    def bag(ids, table):
        vecs = table[ids] * (ids != 0)[..., None]
        return (vecs * code).sum(-2)

    real = np.arange(n)[None, :] < np.asarray(facts)[:, None]
    u = bag(question, tables[0])
    for A, C in zip(tables[:-1], tables[1:]):
        m, c = bag(story, A), bag(story, C)
        s = np.where(real, (m @ u[:, :, None])[..., 0], -np.inf)
        peak = s.max(1, keepdims=True)
        p = np.exp(s - np.where(np.isfinite(peak), peak, 0.0))
        p = p / np.maximum(p.sum(1, keepdims=True), 1e-300)
        u = u + (p[:, None, :] @ c)[:, 0]
    return u @ tables[-1].T
