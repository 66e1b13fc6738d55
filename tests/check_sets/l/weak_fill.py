import torch


def masked_sdpa(q, k, v, mask):
    """mask: (batch, 1, q_len, k_len), 1 = attend, 0 = do not attend."""
    sim = (q / q.shape[-1] ** 0.5) @ k.transpose(-1, -2)
    sim = sim.masked_fill(mask == 0, -100)
    return torch.softmax(sim, -1) @ v
