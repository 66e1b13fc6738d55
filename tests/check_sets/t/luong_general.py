import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongAttention(nn.Module):
    """Global attention of Luong et al. 2015, score(h_t, h_s) = h_t^T W h_s.

    Inputs:
        outputs: (batch, tgt_len, hidden), all decoder states
        encoder_outputs: (batch, src_len, hidden)
    Returns:
        attentional states tanh(W_c [c_t; h_t]), (batch, tgt_len, hidden), and
        alignments over the source positions, (batch, tgt_len, src_len)
    """

    def __init__(self, hidden):
        super().__init__()
        self.W = nn.Linear(hidden, hidden, bias=False)
        self.W_c = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, outputs, encoder_outputs):
        energies = torch.bmm(outputs, self.W(encoder_outputs).transpose(1, 2))
        align = F.softmax(energies, dim=1)
        context = torch.bmm(align, encoder_outputs)
        return torch.tanh(self.W_c(torch.cat((context, outputs), dim=2))), align


class Decoder(nn.Module):
    """LSTM over the shifted targets, then attention on all steps at once."""

    def __init__(self, vocab, emb=24, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.LSTM(emb, hidden, batch_first=True)
        self.attn = LuongAttention(hidden)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, tgt, encoder_outputs, hx=None):
        out, hx = self.rnn(self.emb(tgt), hx)
        out, align = self.attn(out, encoder_outputs)
        return self.fc(out), align, hx
