import numpy as np


def softmax_rows(s):
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum()


def pool_passages(question, passages, W_q, W_k, W_v):
    """Let every question token gather evidence from all passage tokens.

    question: (m, c), passages: (n, c)
    W_q, W_k, W_v: (c, d)
    returns: evidence (m, d) and weights (m, n), one distribution over passage
    tokens for each question token.
    """
    question = np.asarray(question, float)
    passages = np.asarray(passages, float)
    assert question.shape[1] == passages.shape[1]
    q = question @ W_q
    k = passages @ W_k
    v = passages @ W_v
    w = softmax_rows(q @ k.T / np.sqrt(k.shape[1]))
    return w @ v, w
