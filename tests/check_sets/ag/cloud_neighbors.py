# Point Transformer layer (Zhao et al. ICCV 2021), inference only, weights as a dict.
#
#   y_i = sum_{j in N(i)}  softmax_j( gamma( phi(x_i) - psi(x_j) + delta_ij ) )  *  ( alpha(x_j) + delta_ij )
#   delta_ij = theta(p_i - p_j)
#
# gamma is an MLP with a vector output: every channel (group of channels) has its own
# weights over the neighbours. There is no dot product, hence no sqrt(d).
import numpy as np


def relu(x):
    return np.maximum(x, 0)


def mlp(x, layers):
    for n, (W, b) in enumerate(layers):
        x = x @ W + b
        if n + 1 < len(layers):
            x = relu(x)
    return x


def knn(p, k):
    """p [N,3] -> idx [N,k], nearest first (the point itself is its own neighbour)"""
    d2 = ((p[:, None] - p[None]) ** 2).sum(-1)
    return np.argsort(d2, axis=1, kind="stable")[:, :k]


def fps(p, m, start=0):
    """farthest point sampling"""
    pick = [start]
    d = ((p - p[start]) ** 2).sum(-1)
    for _ in range(m - 1):
        pick.append(int(d.argmax()))
        d = np.minimum(d, ((p - p[pick[-1]]) ** 2).sum(-1))
    return np.array(pick)


def init(c_in, c, share=1, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: (r.normal(size=(i, o)) / np.sqrt(i), r.normal(size=o) * 0.01)
    return dict(
        phi=[lin(c_in, c)], psi=[lin(c_in, c)], alpha=[lin(c_in, c)],
        theta=[lin(3, 3), lin(3, c)],
        gamma=[lin(c, c // share), lin(c // share, c // share)],
        share=share,
    )


def vector_attention(P, p, x, idx):
    """
    p [N,3] coordinates, x [N,Cin] features, idx [N,k] neighbours -> [N,C]
    `share` consecutive channels use the same weight.
    """
    q = mlp(x, P["phi"])                               # N C
    k = mlp(x, P["psi"])[idx]                          # N k C
    v = mlp(x, P["alpha"])[idx]
    delta = mlp(p[:, None] - p[idx], P["theta"])       # N k C
    g = mlp(q[:, None] - k + delta, P["gamma"])        # N k C/share
    g = g - g.max(axis=1, keepdims=True)
    w = np.exp(g)
    w /= w.sum(axis=1, keepdims=True)
    w = np.repeat(w, P["share"], axis=2)
    return (w * (v + delta)).sum(axis=1)


def transition_down(p, x, m, k, layers):
    """keep m points; each takes the max of an MLP over its k neighbours in the full cloud"""
    keep = fps(p, m)
    d2 = ((p[keep][:, None] - p[None]) ** 2).sum(-1)
    idx = np.argsort(d2, axis=1, kind="stable")[:, :k]
    feats = np.concatenate([p[idx] - p[keep][:, None], x[idx]], axis=-1)
    return p[keep], relu(mlp(feats, layers)).max(axis=1)


def block(P, p, x, k=16):
    return x + vector_attention(P, p, x, knn(p, min(k, len(p))))
