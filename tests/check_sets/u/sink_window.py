import math

import torch


def sdpa_with_sinks(Q, K, V, S, sm_scale=None, sliding_window=0):
    # Q: (n_tokens, n_heads, q_mult, d)    K, V: (n_tokens, n_heads, d)    S: (n_heads * q_mult,)
    # sliding_window: number of positions visible to a token, itself included; 0 for all
    n_tokens, n_heads, q_mult, d_head = Q.shape
    if sm_scale is None:
        sm_scale = 1 / math.sqrt(d_head)
    K = K[:, :, None, :].expand(-1, -1, q_mult, -1)
    V = V[:, :, None, :].expand(-1, -1, q_mult, -1)
    S = S.reshape(n_heads, q_mult, 1, 1).expand(-1, -1, n_tokens, -1)
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask += torch.tril(mask.new_full((n_tokens, n_tokens), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
    QK = QK * sm_scale
    QK = QK + mask[None, None, :, :]
    QK = torch.cat([QK, S], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., :-1]
    attn = torch.einsum("hmqk,khmd->qhmd", W, V)
    return attn.reshape(n_tokens, -1)
