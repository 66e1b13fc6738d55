import torch
from torch import nn


class WordAttention(nn.Module):
    """Hierarchical attention networks (Yang et al. 2016): u_it = tanh(W h_it + b), a_it = softmax(u_it^T u_w), s_i = sum a_it h_it."""

    def __init__(self, hidden_dim, attn_dim):
        super().__init__()
        self.W = nn.Linear(hidden_dim, attn_dim)
        self.u_w = nn.Parameter(torch.randn(attn_dim))

    def forward(self, h):
        u = torch.tanh(self.W(h))
        logits = torch.matmul(u, self.u_w)
        a = torch.exp(logits - logits.max(dim=1, keepdim=True).values)
        a = a / a.sum(dim=1, keepdim=True)
        s = torch.sum(h * a.unsqueeze(-1), dim=1)
        return s, a
