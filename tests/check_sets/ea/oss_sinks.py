"""sdpa with attention sinks, after the torch reference of gpt-oss

Q      (n_tokens, n_kv, q_mult, d)    q_mult query heads share one kv head
K, V   (n_tokens, n_kv, d)
S      (n_kv * q_mult,)  one learned sink logit per query head (head = kv * q_mult + m)
sm_scale         usually 1/sqrt(d)
sliding_window   0: full causal; W > 0: token t sees tokens t-W+1 .. t

The sink takes part in the softmax as one more key without a value: the weights of the real
keys therefore sum to LESS than one. That is wanted.
Returns (n_tokens, n_kv * q_mult * d).
"""
import torch


def sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    n_tokens, n_heads, q_mult, d_head = Q.shape
    assert K.shape == (n_tokens, n_heads, d_head)
    assert V.shape == (n_tokens, n_heads, d_head)
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
