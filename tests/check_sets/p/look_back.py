import torch
import torch.nn.functional as F


def local_block_attention(q, k, v, block):
    """Causal attention in blocks: a query sees the keys of its own block up to itself and all keys of the block before.

    q, k, v (B, H, L, D), L a multiple of block
    """
    B, H, L, D = q.shape
    n = L // block
    q, k, v = (z.reshape(B, H, n, block, D) for z in (q, k, v))
    before = lambda z: torch.cat([F.pad(z, (0, 0, 0, 0, 1, 0))[:, :, :n], z], dim=3)
    k, v = before(k), before(v)
    i = torch.arange(L, device=q.device).view(n, block, 1)
    j = (torch.arange(n, device=q.device) * block).view(n, 1, 1) + torch.arange(-block, block, device=q.device)
    s = q @ k.transpose(-1, -2) * D ** -0.5
    s = s.masked_fill((j > i) | (j < 0), -torch.finfo(s.dtype).max)
    return (s.softmax(dim=-1) @ v).view(B, H, L, D)
