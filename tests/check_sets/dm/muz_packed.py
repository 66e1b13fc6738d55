"""muz: read the weights of the big piano model into my own 60 lines.

The checkpoint stores one matrix `w_qkv` of shape (D, 3 * D) for x @ w_qkv.  Its columns are
in this order: first the queries of all heads (head 0, head 1, ...), then the keys of
all heads, then the values of all heads; D // n_head columns per head.

    notes (B, T, D)  ->  (B, T, D)

Bidirectional (the model fills gaps in a melody): `gap` (B, T) bool, True marks a
gap, and gaps are not attended to.  At least one real note per melody.
Scores q.k / sqrt(D // n_head), softmax over the notes.
"""
import torch


def muz_attention(notes, w_qkv, w_out, n_head, gap):
    B, T, D = notes.shape
    dh = D // n_head
    qkv = (notes @ w_qkv).reshape(B, T, n_head, 3 * dh)
    q, k, v = torch.split(qkv, dh, dim=-1)
    score = torch.einsum("bihd,bjhd->bhij", q, k) / dh**0.5
    score = score.masked_fill(gap[:, None, None, :], float("-inf"))
    prob = torch.softmax(score, dim=-1)
    mixed = torch.einsum("bhij,bjhd->bihd", prob, v)
    return mixed.reshape(B, T, D) @ w_out


def muz_block(notes, p, n_head, gap):
    """pre-norm block, p: dict of tensors w_qkv, w_out, w1, w2"""
    ln = torch.nn.functional.layer_norm
    notes = notes + muz_attention(ln(notes, notes.shape[-1:]), p["w_qkv"], p["w_out"], n_head, gap)
    return notes + torch.relu(ln(notes, notes.shape[-1:]) @ p["w1"]) @ p["w2"]
