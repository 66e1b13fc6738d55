# CS 4980 - Homework 4, part B: tiled attention without the N x N matrix
# (forward pass of FlashAttention in plain numpy)
import numpy as np


def tiled_attention(Q, K, V, Br=3, Bc=4, causal=False):
    """
    Q: (Nq, d)   K: (Nk, d)   V: (Nk, dv)
    causal: query row i is the token at absolute position i + (Nk - Nq)

    Returns O (Nq, dv) and the natural-log row log-sum-exp L (Nq,).
    """
    Nq, d = Q.shape
    Nk = K.shape[0]
    O = np.zeros((Nq, V.shape[1]))
    L = np.zeros(Nq)
    shift = Nk - Nq
    for i0 in range(0, Nq, Br):
        i1 = min(i0 + Br, Nq)
        Qi = Q[i0:i1]
        Oi = np.zeros((i1 - i0, V.shape[1]))
        li = np.zeros((i1 - i0, 1))
        mi = np.full((i1 - i0, 1), -1e30)   # finite, so that exp(mi - mi) stays 1
        rows = np.arange(i0, i1)[:, None] + shift
        for j0 in range(0, Nk, Bc):
            j1 = min(j0 + Bc, Nk)
            if causal and j0 > i1 - 1 + shift:
                break                        # the whole tile lies in the future
            S = Qi @ K[j0:j1].T / np.sqrt(d)
            keep = np.ones_like(S, dtype=bool)
            if causal:
                keep = np.arange(j0, j1)[None, :] <= rows
            S = np.where(keep, S, -1e30)
            m_new = np.maximum(mi, S.max(axis=1, keepdims=True))
            P = np.where(keep, np.exp(S - m_new), 0.0)
            corr = np.exp(mi - m_new)
            li = corr * li + P.sum(axis=1, keepdims=True)
            Oi = corr * Oi + P @ V[j0:j1]
            mi = m_new
        O[i0:i1] = Oi / np.maximum(li, 1e-300)
        L[i0:i1] = (mi + np.log(np.maximum(li, 1e-300)))[:, 0]
    return O, L


def plain_attention(Q, K, V):
    S = Q @ K.T / np.sqrt(Q.shape[1])
    P = np.exp(S - S.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True) @ V


def count_flops(Nq, Nk, d, causal):
    full = 4 * Nq * Nk * d
    return full // 2 if causal else full


def main():
    rng = np.random.default_rng(4980)
    Q, K, V = (rng.standard_normal((n, 8)) for n in (10, 13, 13))
    O, _ = tiled_attention(Q, K, V)
    print("max error:", np.abs(O - plain_attention(Q, K, V)).max())
    print("flops:", count_flops(10, 13, 8, False))


if __name__ == "__main__":
    main()
