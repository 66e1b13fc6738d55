"""Heterogeneous graph transformer layer in numpy (bibliographic graph: author, paper, venue)."""
import numpy as np


def hgt_layer(X, typ, edges, P, heads=2):
    """One HGT step with dense loops.

    X      [n, D] node features;  typ [n] node types
    edges  list of (source, relation, target)
    P      dict: "Q","K","V" [types, D, D], "att","msg" [relations, heads, d, d], "prior" [relations, heads]
    For each target the weights over its incoming edges (any relation together) sum to one per head:
        a(e) = softmax_e( prior_r * (K_s att_r . Q_t) / sqrt(d) )
    Targets with no incoming edge keep a zero message. Returns X + messages [n, D].
    """
    n, D = X.shape
    d = D // heads
    Q = np.stack([X[i] @ P["Q"][typ[i]] for i in range(n)]).reshape(n, heads, d)
    K = np.stack([X[i] @ P["K"][typ[i]] for i in range(n)]).reshape(n, heads, d)
    V = np.stack([X[i] @ P["V"][typ[i]] for i in range(n)]).reshape(n, heads, d)

    msg = np.zeros((n, heads, d))
    for h in range(heads):
        S = np.full((n, len(edges)), -np.inf)            # target x incoming edge
        M = np.zeros((len(edges), d))
        for e, (s, r, t) in enumerate(edges):
            S[t, e] = P["prior"][r, h] * (K[s, h] @ P["att"][r, h] @ Q[t, h]) / np.sqrt(d)
            M[e] = V[s, h] @ P["msg"][r, h]
        top = S.max(1, keepdims=True)
        A = np.exp(S - np.where(np.isfinite(top), top, 0.0))
        A = A / np.maximum(A.sum(), 1e-30)
        msg[:, h] = A @ M
    return X + msg.reshape(n, D)


def init(types=3, relations=4, D=8, heads=2, seed=0):
    g = np.random.default_rng(seed)
    d = D // heads
    f = lambda *s: g.standard_normal(s) / np.sqrt(s[-1])
    return {"Q": f(types, D, D), "K": f(types, D, D), "V": f(types, D, D), "att": f(relations, heads, d, d),
            "msg": f(relations, heads, d, d), "prior": np.ones((relations, heads))}
