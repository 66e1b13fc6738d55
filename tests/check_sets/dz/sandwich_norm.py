"""Functional Sandwich-LN block that runs converted checkpoints without any nn.Module.

    y = x + LN2( attention( LN1(x) ) )

    x        (B, T, C)
    keep     (B, T) bool or None, True = this token may be attended to
    weights  dict of tensors:
        "qkv.w" (3*C, C), "qkv.b" (3*C,)  rows as in nn.MultiheadAttention's in_proj: first the
                                          C rows of q (head 0, head 1, ...), then k, then v
        "out.w" (C, C), "out.b" (C,)
        "ln1.w", "ln1.b", "ln2.w", "ln2.b"  (C,)
    drop     attention dropout, used while training only; training=False is deterministic

Ordinary scaled dot-product attention per head (softmax of q.k / sqrt(head size)).
"""
import torch
import torch.nn.functional as F


def sandwich_block(x, weights, num_heads, keep=None, drop=0.1, training=False):
    B, T, C = x.shape
    hs = C // num_heads

    y = F.layer_norm(x, (C,), weights["ln1.w"], weights["ln1.b"])
    packed = F.linear(y, weights["qkv.w"], weights["qkv.b"])
    packed = packed.view(B, T, num_heads, 3, hs)
    q, k, v = packed.permute(3, 0, 2, 1, 4)

    logits = torch.einsum("bhqc,bhkc->bhqk", q, k) * C ** -0.5
    if keep is not None:
        logits = logits.masked_fill(~keep.view(B, 1, 1, T), float("-inf"))
    probs = torch.softmax(logits, dim=-1)
    probs = F.dropout(probs, p=drop)

    y = torch.einsum("bhqk,bhkc->bqhc", probs, v).reshape(B, T, C)
    y = F.linear(y, weights["out.w"], weights["out.b"])
    y = F.layer_norm(y, (C,), weights["ln2.w"], weights["ln2.b"])
    return x + y
