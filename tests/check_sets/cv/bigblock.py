import torch


def layout(n_blocks, width=1, n_global=1, stride=3):
    """bool [n_blocks, n_blocks]: which key block a query block reads (band + global + strided)."""
    i = torch.arange(n_blocks)
    band = (i[:, None] - i[None]).abs() <= width
    glob = (i[:, None] < n_global) | (i[None] < n_global)
    strided = (i[None] % stride == 0).expand(n_blocks, n_blocks)
    return band | glob | strided


def block_sparse_attention(q, k, v, block=4, lay=None, dropout=0.0, training=False):
    """Block sparse softmax attention, dense emulation for unit tests of the Triton kernel.

    q, k, v : [batch, heads, length, dim], length a multiple of `block`
    lay     : bool [length/block, length/block], True = this block takes part. Default layout().
    The kernel never loads the other blocks: the softmax runs over the keys of the chosen blocks only.
    Returns [batch, heads, length, dim].
    """
    L, d = q.shape[-2:]
    if lay is None:
        lay = layout(L // block)
    dense = lay.repeat_interleave(block, 0).repeat_interleave(block, 1)

    att = torch.matmul(q, k.transpose(-1, -2)) * (d ** -0.5)
    att = torch.softmax(att, dim=-1)
    att = att * dense.to(att.dtype)
    if training and dropout > 0:
        att = torch.nn.functional.dropout(att, dropout)
    return torch.matmul(att, v)
