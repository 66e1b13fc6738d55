import torch


def nystrom_attention(q, k, v, landmarks=3):
    """Nystromformer's approximation of softmax attention, with the exact pseudo-inverse.

    q, k, v (B, H, N, d) with N a multiple of `landmarks`, which are the means of N / landmarks neighbouring tokens:
    softmax(q k~^T) pinv(softmax(q~ k~^T)) softmax(q~ k^T) v, all scaled by 1 / sqrt(d)
    """
    b, h, n, d = q.shape
    q = q * d ** -0.5
    q_land = q.reshape(b, h, landmarks, n // landmarks, d).mean(dim=3)
    k_land = k.reshape(b, h, landmarks, n // landmarks, d).mean(dim=3)
    left = torch.softmax(q @ k_land.transpose(-1, -2), dim=-1)
    core = torch.softmax(q_land @ k_land.transpose(-1, -2), dim=-1)
    right = torch.softmax(q_land @ k.transpose(-1, -2), dim=-1)
    return left @ (torch.linalg.pinv(core) @ (right @ v))
