import torch


@torch.no_grad()
def blockwise_attention(q, k, v, block_size: int = 4):
    """Memory-efficient exact attention: softmax(q k^T / sqrt(d)) v, key blocks streamed.

    q: [B, H, Lq, d]   k: [B, H, Lk, d]   v: [B, H, Lk, dv]   ->   [B, H, Lq, dv]
    """
    B, H, Lq, d = q.shape
    scale = d ** -0.5
    acc = q.new_zeros(B, H, Lq, v.shape[-1])
    row_sum = q.new_zeros(B, H, Lq, 1)
    row_max = q.new_full((B, H, Lq, 1), float("-inf"))
    for start in range(0, k.shape[2], block_size):
        kb = k[:, :, start:start + block_size]
        vb = v[:, :, start:start + block_size]
        s = torch.matmul(q, kb.transpose(-1, -2)) * scale
        new_max = torch.maximum(row_max, s.amax(dim=-1, keepdim=True))
        p = torch.exp(s - new_max)
        correction = torch.exp(row_max - new_max)
        row_sum = row_sum * correction + p.sum(dim=-1, keepdim=True)
        acc = acc + torch.matmul(p, vb)
        row_max = new_max
    return acc / row_sum
