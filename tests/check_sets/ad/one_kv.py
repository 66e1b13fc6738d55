"""multi query attention, functional style: params are plain tensors in a NamedTuple"""
from typing import NamedTuple
import torch
import torch.nn.functional as F

Tensor = torch.Tensor


class MQ(NamedTuple):
    fused: Tensor   # (D, (H + 2) * d)   columns: H queries, then k, then v
    out: Tensor     # (H * d, D)


def init(gen, D, H, d):
    a = torch.randn(D, (H + 2) * d, generator=gen) / D ** 0.5
    b = torch.randn(H * d, D, generator=gen) / (H * d) ** 0.5
    return MQ(a, b)


def multi_query(p: MQ, x: Tensor, heads: int, memory=None, *, drop: float = 0.0,
                training: bool = False):
    """
    x       (B, T, D) the tokens after those which are in memory
    memory  None or the (k, v) pair of a previous call

    Returns the output and the new memory. A token sees the memory, the tokens of x
    before it, and itself.
    """
    B, T, D = x.shape
    d = p.fused.shape[1] // (heads + 2)
    q, k, v = (x @ p.fused).split([heads * d, d, d], dim=-1)
    if memory is not None:
        k = torch.cat((memory[0], k), dim=1)
        v = torch.cat((memory[1], v), dim=1)
    S = k.shape[1]

    q = q.reshape(B, T, heads, d).transpose(1, 2)
    kk = k[:, None].expand(B, heads, S, d)
    vv = v[:, None].expand(B, heads, S, d)

    p_drop = drop if training else 0.0
    if S == T:
        y = F.scaled_dot_product_attention(q, kk, vv, dropout_p=p_drop, is_causal=True)
    elif T == 1:
        y = F.scaled_dot_product_attention(q, kk, vv, dropout_p=p_drop)
    else:
        see = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, kk, vv, attn_mask=see, dropout_p=p_drop)
    y = y.transpose(1, 2).reshape(B, T, heads * d)
    return y @ p.out, (k, v)
