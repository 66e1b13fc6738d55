import torch
from torch import nn


class LuongGeneral(nn.Module):
    """Global attention of Luong et al. (2015), score "general": h_t^T W_a h_s.

    h_t (B, D) decoder state, enc (B, S, E) encoder outputs of equal-length sentences.
    Returns the attentional vector tanh(W_c [c_t; h_t]) (B, D) and the weights (B, S).
    """

    def __init__(self, dec, enc):
        super().__init__()
        self.W_a = nn.Linear(enc, dec, bias=False)
        self.W_c = nn.Linear(enc + dec, dec, bias=False)

    def forward(self, h_t, enc):
        score = torch.einsum("bsd,bd->bs", self.W_a(enc), h_t)
        a_t = torch.softmax(score, dim=-1)
        c_t = torch.einsum("bs,bse->be", a_t, enc)
        return torch.tanh(self.W_c(torch.cat((c_t, h_t), dim=-1))), a_t
