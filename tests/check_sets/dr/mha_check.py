"""Homework 2, part B: "open the black box".

Rewrite the forward pass of torch.nn.MultiheadAttention (batch_first=True, no dropout) as a
function of its own parameters, so that the two agree to 1e-6.

mha              a module nn.MultiheadAttention(E, H, batch_first=True)
query            (N, L, E);  key, value (N, S, E)
attn_mask        None or bool (L, S), True = this pair is NOT allowed
key_padding_mask None or bool (N, S), True = this key is padding, ignore it
Each query must have at least one key that it may see.

Returns (output (N, L, E), weights averaged over the heads (N, L, S)).
"""
import torch


def my_mha(mha, query, key, value, attn_mask=None, key_padding_mask=None):
    N, L, E = query.shape
    S = key.shape[1]
    H = mha.num_heads
    D = E // H

    # rows 0..E-1 are the query projection, E..2E-1 the keys, 2E..3E-1 the values
    Wq, Wk, Wv = mha.in_proj_weight.chunk(3, dim=0)
    bq, bk, bv = mha.in_proj_bias.chunk(3, dim=0)
    q = (query @ Wq.T + bq).reshape(N, L, H, D)
    k = (key @ Wk.T + bk).reshape(N, S, H, D)
    v = (value @ Wv.T + bv).reshape(N, S, H, D)

    logits = torch.einsum("nlhd,nshd->nhls", q, k) / D ** 0.5

    forbidden = torch.zeros(N, 1, L, S, dtype=torch.bool, device=query.device)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    weights = torch.softmax(logits.masked_fill(forbidden, float("-inf")), dim=-1)

    out = torch.einsum("nhls,nshd->nlhd", weights, v).reshape(N, L, E)
    return mha.out_proj(out), weights.mean(dim=1)
