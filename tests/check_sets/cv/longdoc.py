"""Reference for our CUDA kernel: sliding window + global tokens (Longformer), the slow way."""
import numpy as np


def sliding_global(q, k, v, qg, kg, vg, w, glob):
    """q,k,v and qg,kg,vg: [H, L, d] local and global projections.

    w     one sided window: i sees j when |i - j| <= w  (2w+1 keys in the middle)
    glob  indices of the global tokens
    * a global token sees every token, with qg/kg/vg;
    * any other token sees its window and the global tokens, with q/k/v.
    Each key is counted once, also when a global token lies in the window. Not causal.
    """
    H, L, d = q.shape
    G = set(int(g) for g in glob)
    out = np.empty_like(v)
    for h in range(H):
        for i in range(L):
            if i in G:
                Q, K, V = qg[h, i], kg[h], vg[h]
                js = list(range(L))
            else:
                Q, K, V = q[h, i], k[h], v[h]
                js = sorted(set(range(max(0, i - w), min(L, i + w + 1))) | G)
            s = K[js] @ Q / d ** 0.5
            s = np.exp(s - s.max())
            out[h, i] = (s / s.sum()) @ V[js]
    return out
