import torch
import torch.nn as nn


class GlobalAttention(nn.Module):
    """Global attention (Luong et al. 2015): a = softmax(h_t^T W h_s), h~_t = tanh(W_c [c_t; h_t]).

    source (B, T, dim), memory_bank (B, S, dim) -> attn_h (B, T, dim), align_vectors (B, T, S), the weights
    """

    def __init__(self, dim):
        super().__init__()
        self.linear_in = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(dim * 2, dim, bias=False)

    def forward(self, source, memory_bank):
        align = torch.bmm(self.linear_in(source), memory_bank.transpose(1, 2))
        align_vectors = torch.softmax(align, dim=-1)
        c = torch.bmm(align_vectors, memory_bank)
        attn_h = self.linear_out(torch.cat([c, source], dim=2))
        return attn_h, align
