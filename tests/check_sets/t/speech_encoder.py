import torch
from torch import nn


class SpeechSelfAttention(nn.Module):
    """Self-attention for the acoustic encoder.

    Utterances in a batch differ in length; frames at or after ``lengths[b]`` are
    padding, and no frame may attend to them.
    """

    def __init__(self, n_feat: int, n_head: int, dropout: float = 0.0):
        super().__init__()
        self.h = n_head
        self.d_k = n_feat // n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """
        Args:
            x: (B, T, n_feat)
            lengths: (B,) number of valid frames
        Returns:
            (B, T, n_feat)
        """
        B, T, _ = x.shape
        q = self.linear_q(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.d_k).transpose(1, 2)

        valid = torch.arange(T, device=x.device)[None, :] < lengths[:, None]
        mask = valid.unsqueeze(1).unsqueeze(3)

        scores = torch.matmul(q, k.transpose(-2, -1)) * self.d_k**-0.5
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        attn = self.dropout(torch.softmax(scores, dim=-1))
        ctx = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, T, -1)
        return self.linear_out(ctx)
