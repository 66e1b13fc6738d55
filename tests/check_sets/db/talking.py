"""Talking-heads attention (Shazeer et al., 2020) with three different head counts."""
import torch


def talking_heads(X, M, P_q, P_k, P_v, P_o, P_l, P_w, real):
    """
    X   [b, n, d_X]      queries come from here
    M   [b, m, d_M]      keys and values come from here
    P_q [d_X, h_k, d_k]  P_k [d_M, h_k, d_k]  P_v [d_M, h_v, d_v]  P_o [d_Y, h_v, d_v]
    P_l [h_k, h]  mixes the logits,  P_w [h, h_v]  mixes the weights
    real [b, m] bool, True = that row of M counts; at least one per batch entry
    returns [b, n, d_Y]
    """
    Q = torch.einsum("bnd,dhk->bhnk", X, P_q) / P_q.shape[-1] ** 0.5
    K = torch.einsum("bmd,dhk->bhmk", M, P_k)
    V = torch.einsum("bmd,dhv->bhmv", M, P_v)
    J = torch.einsum("bhnk,bhmk->bhnm", Q, K)
    L = torch.einsum("bhnm,hg->bgnm", J, P_l)
    L = L.masked_fill(~real[:, None, None, :], float("-inf"))
    W = torch.softmax(L, dim=-1)
    U = torch.einsum("bgnm,gv->bvnm", W, P_w)
    O = torch.einsum("bhnm,bhmv->bhnv", U, V)
    return torch.einsum("bhnv,yhv->bny", O, P_o)
