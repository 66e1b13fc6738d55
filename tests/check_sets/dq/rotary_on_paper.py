"""Rotary embeddings on paper and in code (reading group notes).

Split a vector into pairs (x[2i], x[2i+1]) and turn pair i at position p by the angle
p * 10000^(-2i/d). Query and key are both turned by the angle of their own position; the
product of a turned query at m and a turned key at n is then a function of m - n alone,
which is the point of the exercise.
"""
import torch


def turn(x, pos):
    """x (..., L, d), pos (L,) -> x with each pair turned by its angle."""
    d = x.shape[-1]
    speed = 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    phi = pos.to(x.dtype)[:, None] * speed
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack(
        (even * phi.cos() - odd * phi.sin(), even * phi.sin() + odd * phi.cos()), dim=-1)
    return turned.flatten(-2)


def rotary_attention(q, k, v, pos_q, pos_k):
    """softmax over the keys of turned q . turned k / sqrt(d), times v; no mask.

    q     : (B, H, Lq, d), d even      pos_q : (Lq,) integer positions of the queries
    k, v  : (B, H, Lk, d)              pos_k : (Lk,) integer positions of the keys
    returns (B, H, Lq, d). Adding one number to all of pos_q and pos_k changes nothing.
    """
    d = q.shape[-1]
    q_turned = turn(q, pos_q)
    k_turned = turn(k, -pos_k)
    logits = torch.einsum("bhmd,bhnd->bhmn", q_turned, k_turned) / d ** 0.5
    weights = logits.softmax(dim=-1)
    return torch.einsum("bhmn,bhnd->bhmd", weights, v)


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 6, 8)
    p = torch.arange(6)
    print(rotary_attention(q, k, v, p, p)[0, 0, 0])
