import torch
import torch.nn as nn
import torch.nn.functional as F


class ConcatAttention(nn.Module):
    """Concat score of Luong et al.: v^T tanh(W [h_t ; h_s])"""

    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(hidden * 2, hidden)
        self.v = nn.Parameter(torch.rand(hidden))

    def forward(self, hidden, encoder_outputs):
        """hidden: (batch, hidden); encoder_outputs: (batch, src_len, hidden)"""
        src_len = encoder_outputs.size(1)
        rep = hidden.unsqueeze(1).repeat(1, src_len, 1)
        energy = self.attn(torch.cat((rep, encoder_outputs), dim=2))
        attention = energy @ self.v
        weights = F.softmax(attention, dim=1)
        return torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1)
