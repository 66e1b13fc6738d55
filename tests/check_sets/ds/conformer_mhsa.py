"""Conformer encoder block, attention module (simplified: absolute positions, no relative ones)."""
import torch
import torch.nn as nn


def lengths_to_valid(lengths, T):
    """(B,) -> (B, T) bool, True inside the utterance."""
    return torch.arange(T, device=lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


class ConformerMHSA(nn.Module):
    """LayerNorm -> multi-head self-attention -> dropout -> residual.

    Args:
        x: (B, T, D) frames after subsampling
        lengths: (B,) number of valid frames per utterance, between 1 and T.  Frames
            beyond that get no attention from anybody.
    Returns:
        (B, T, D)

    Standard scaled dot-product attention, scale 1/sqrt(d) with d = D / n_head.
    """

    def __init__(self, D, n_head, dropout=0.1):
        super().__init__()
        assert D % n_head == 0
        self.n_head = n_head
        self.norm = nn.LayerNorm(D)
        self.linear_q = nn.Linear(D, D)
        self.linear_k = nn.Linear(D, D)
        self.linear_v = nn.Linear(D, D)
        self.linear_out = nn.Linear(D, D)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, lengths):
        B, T, D = x.shape
        h = self.n_head
        y = self.norm(x)
        q = self.linear_q(y).view(B, T, h, D // h).transpose(1, 2)
        k = self.linear_k(y).view(B, T, h, D // h).transpose(1, 2)
        v = self.linear_v(y).view(B, T, h, D // h).transpose(1, 2)

        valid = lengths_to_valid(lengths, T)[:, None, None, :]
        scores = torch.matmul(q, k.transpose(-2, -1)) / h ** 0.5
        scores = scores + valid
        attn = self.dropout(torch.softmax(scores, dim=-1))

        out = torch.matmul(attn, v).reshape(B, T, D)
        return x + self.dropout(self.linear_out(out))
