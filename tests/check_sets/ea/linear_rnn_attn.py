"""Transformers are RNNs (Katharopoulos et al. 2020): causal linear attention.

There is no softmax here, it is replaced by the kernel phi(q) . phi(k), phi(x) = elu(x) + 1:

    y_i = sum_{j<=i} (phi(q_i).phi(k_j)) v_j / sum_{j<=i} phi(q_i).phi(k_j)

`causal_linear` does a whole sequence, `recurrent_step` one token with the state
(S, z); both give the same numbers.

queries, keys [N, L, H, D], values [N, L, H, M], lengths [N] or None (number of real
tokens, padding on the right - keys behind it are dropped from the sums).  Returns [N, L, H, M].
"""
import torch
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


def causal_linear(queries, keys, values, lengths=None, eps=1e-6):
    Q, K = phi(queries), phi(keys)
    if lengths is not None:
        real = torch.arange(K.shape[1], device=K.device)[None, :] < lengths[:, None]
        K = K * real[:, :, None, None]
    S = torch.einsum('nlhd,nlhm->nlhdm', K, values).cumsum(dim=1)
    z = K.cumsum(dim=1)
    num = torch.einsum('nlhd,nlhdm->nlhm', Q, S)
    den = torch.einsum('nlhd,nlhd->nlh', Q, z)
    return num / (den + eps).unsqueeze(-1)


def recurrent_step(query, key, value, state=None, eps=1e-6):
    """query, key [N, H, D], value [N, H, M]."""
    Q, K = phi(query), phi(key)
    if state is None:
        S = Q.new_zeros(*K.shape, value.shape[-1])
        z = torch.zeros_like(K)
    else:
        S, z = state
    S = S + K.unsqueeze(-1) * value.unsqueeze(-2)
    z = z + K
    y = torch.einsum('nhd,nhdm->nhm', Q, S) / (torch.einsum('nhd,nhd->nh', Q, z) + eps).unsqueeze(-1)
    return y, (S, z)
