"""Row-wise gated self-attention with pair bias (AlphaFold 2, Suppl. Alg. 7), plus the column version (Alg. 8)."""
import torch
import torch.nn as nn
from typing import List, Optional


def permute_final_dims(t: torch.Tensor, inds: List[int]):
    zero = -1 * len(inds)
    first = list(range(len(t.shape[:zero])))
    return t.permute(first + [zero + i for i in inds])


class GatedAttention(nn.Module):
    def __init__(self, c_in: int, c_hidden: int, no_heads: int):
        super().__init__()
        self.c_hidden, self.no_heads = c_hidden, no_heads
        self.linear_q = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_k = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_v = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_g = nn.Linear(c_in, c_hidden * no_heads)
        self.linear_o = nn.Linear(c_hidden * no_heads, c_in)

    def forward(self, x: torch.Tensor, biases: List[torch.Tensor]) -> torch.Tensor:
        # [*, N, H, C] -> [*, H, N, C]
        q = self.linear_q(x).unflatten(-1, (self.no_heads, -1)).transpose(-2, -3)
        k = self.linear_k(x).unflatten(-1, (self.no_heads, -1)).transpose(-2, -3)
        v = self.linear_v(x).unflatten(-1, (self.no_heads, -1)).transpose(-2, -3)
        q = q / (self.c_hidden ** 0.5)

        a = torch.matmul(q, permute_final_dims(k, [1, 0]))
        for b in biases:
            a = a + b
        a = torch.softmax(a, dim=-1)

        o = torch.matmul(a, v).transpose(-2, -3)
        g = torch.sigmoid(self.linear_g(x)).unflatten(-1, (self.no_heads, -1))
        return self.linear_o((o * g).flatten(-2))


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m: int = 32, c_z: int = 16, c_hidden: int = 8, no_heads: int = 4, inf: float = 1e9):
        super().__init__()
        self.inf = inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.mha = GatedAttention(c_m, c_hidden, no_heads)

    def forward(self, m: torch.Tensor, z: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        """
        Args:
            m: [*, N_seq, N_res, C_m] MSA embedding
            z: [*, N_res, N_res, C_z] pair embedding
            mask: [*, N_seq, N_res] MSA mask, 1 where there is a residue
        """
        m = self.layer_norm_m(m)
        if mask is None:
            mask = m.new_ones(m.shape[:-1])
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]   # [*, N_seq, 1, 1, N_res]
        z = self.linear_z(self.layer_norm_z(z))                      # [*, N_res, N_res, H]
        z = permute_final_dims(z, [2, 0, 1]).unsqueeze(-4)           # [*, 1, H, N_res, N_res]
        return self.mha(m, [mask_bias, z])


class MSAColumnAttention(nn.Module):
    def __init__(self, c_m: int = 32, c_hidden: int = 8, no_heads: int = 4, inf: float = 1e9):
        super().__init__()
        self.inf = inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.mha = GatedAttention(c_m, c_hidden, no_heads)

    def forward(self, m: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        m = self.layer_norm_m(m).transpose(-2, -3)
        mask_bias = (self.inf * (mask.transpose(-1, -2) - 1))[..., :, None, None, :]
        return self.mha(m, [mask_bias]).transpose(-2, -3)
