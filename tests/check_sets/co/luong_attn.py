"""Global attention (Luong et al. 2015), `dot`, `general` and `concat` scores, as in the paper
(i.e. without any temperature)."""
import torch
from torch import nn
import torch.nn.functional as F


class GlobalAttention(nn.Module):
    def __init__(self, dim=16, attn_type="general"):
        super().__init__()
        assert attn_type in ("dot", "general", "concat")
        self.dim, self.attn_type = dim, attn_type
        if attn_type == "general":
            self.linear_in = nn.Linear(dim, dim, bias=False)
        elif attn_type == "concat":
            self.linear_context = nn.Linear(dim, dim, bias=False)
            self.linear_query = nn.Linear(dim, dim, bias=True)
            self.v = nn.Linear(dim, 1, bias=False)
        self.linear_out = nn.Linear(dim * 2, dim, bias=attn_type == "concat")

    def score(self, h_t, h_s):
        """h_t: (B, T, D) decoder, h_s: (B, S, D) encoder -> (B, T, S)"""
        if self.attn_type == "concat":
            B, T, D = h_t.shape
            S = h_s.size(1)
            wq = self.linear_query(h_t).view(B, T, 1, D).expand(B, T, S, D)
            uh = self.linear_context(h_s).view(B, 1, S, D).expand(B, T, S, D)
            return self.v(torch.tanh(wq + uh)).squeeze(-1)
        if self.attn_type == "general":
            h_t = self.linear_in(h_t)
        return torch.bmm(h_t, h_s.transpose(1, 2))

    def forward(self, source, memory_bank, memory_lengths=None):
        """
        Args:
          source: decoder outputs (B, T, D)
          memory_bank: encoder outputs (B, S, D)
          memory_lengths: (B,) source lengths, each at least 1
        Returns:
          attentional hidden states (B, T, D), align vectors (B, T, S)
        """
        align = self.score(source, memory_bank)
        if memory_lengths is not None:
            idx = torch.arange(memory_bank.size(1), device=source.device)
            mask = idx.unsqueeze(0) < memory_lengths.unsqueeze(1)
            align = align.masked_fill(~mask.unsqueeze(1), -float("inf"))
        align_vectors = F.softmax(align, -1)
        c = torch.bmm(align_vectors, memory_bank)
        attn_h = torch.tanh(self.linear_out(torch.cat([c, source], 2)))
        return attn_h, align_vectors


if __name__ == "__main__":
    for kind in ("dot", "general", "concat"):
        att = GlobalAttention(16, kind)
        h, a = att(torch.randn(2, 3, 16), torch.randn(2, 5, 16), torch.tensor([5, 2]))
        print(kind, h.shape, a.sum(-1))
