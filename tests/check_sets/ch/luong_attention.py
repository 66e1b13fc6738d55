"""Global attention of Luong, Pham & Manning (2015), "general" and "dot" scores."""
import torch
from torch import nn


class LuongAttention(nn.Module):
    """Attention over the encoder states for a whole target sequence at once.

    Parameters
    ----------
    dec_hidden : Tensor (batch, tgt_len, hidden), top decoder states h_t
    memory : Tensor (batch, src_len, hidden), encoder states
    memory_lengths : LongTensor (batch,), number of valid states of each source

    Returns
    -------
    attn_h : (batch, tgt_len, hidden), h~_t = tanh(W_c [c_t ; h_t])
    align : (batch, tgt_len, src_len), each row sums to one over the source

    As in the paper the scores are not divided by sqrt(hidden).
    """

    def __init__(self, hidden, score="general"):
        super().__init__()
        if score not in ("general", "dot"):
            raise ValueError(score)
        self.score_type = score
        if score == "general":
            self.linear_in = nn.Linear(hidden, hidden, bias=False)
        self.linear_out = nn.Linear(2 * hidden, hidden, bias=False)

    def score(self, h_t, h_s):
        if self.score_type == "general":
            h_t = self.linear_in(h_t)
        return torch.bmm(h_t, h_s.transpose(1, 2))

    def forward(self, dec_hidden, memory, memory_lengths=None):
        align = self.score(dec_hidden, memory)
        if memory_lengths is not None:
            steps = torch.arange(memory.size(1), device=memory.device)
            valid = steps.unsqueeze(0) < memory_lengths.unsqueeze(1)
            align = align.masked_fill(~valid.unsqueeze(1), float("-inf"))
        align = torch.softmax(align, dim=-1)
        c = torch.bmm(align, memory)
        attn_h = torch.tanh(self.linear_out(torch.cat([c, dec_hidden], dim=2)))
        return attn_h, align


if __name__ == "__main__":
    att = LuongAttention(16)
    out, a = att(torch.randn(3, 5, 16), torch.randn(3, 8, 16), torch.tensor([8, 6, 2]))
    print(out.shape, a.sum(-1))
