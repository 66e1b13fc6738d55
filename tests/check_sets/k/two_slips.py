from typing import Optional

import torch
from torch import Tensor


def attention_forward(q: Tensor, k: Tensor, v: Tensor, keep: Optional[Tensor] = None) -> Tensor:
    """q [b, t, d], k [b, s, d], v [b, s, e]; keep [b, s] is 1 for real tokens, 0 for padding."""
    d = q.shape[-1]
    scores = torch.bmm(q, k.transpose(1, 2)) / d
    if keep is not None:
        scores = scores * keep[:, None, :]
    return torch.bmm(torch.softmax(scores, dim=-1), v)
