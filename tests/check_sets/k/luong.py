import torch
import torch.nn as nn


def sequence_mask(lengths, maxlen):
    return torch.arange(maxlen, device=lengths.device)[None, :] < lengths[:, None]


class LuongGeneral(nn.Module):
    """score(h_t, h_s) = h_t^T W h_s  (Luong et al. 2015, "general")."""

    def __init__(self, dec_dim, enc_dim):
        super().__init__()
        self.W = nn.Linear(enc_dim, dec_dim, bias=False)

    def forward(self, dec, enc, enc_lengths):
        """dec (B, T, dec_dim), enc (B, S, enc_dim), enc_lengths (B,) >= 1"""
        score = torch.einsum("btd,bsd->bts", dec, self.W(enc))
        keep = sequence_mask(enc_lengths, enc.shape[1])
        score = score.masked_fill(~keep[:, None, :], float("-inf"))
        align = torch.softmax(score, dim=2)
        return torch.einsum("bts,bse->bte", align, enc), align
