import torch
from torch import nn


class Subtitler(nn.Module):
    """GRU decoder with Bahdanau attention for subtitles.

    At every step each encoder state is compared with the decoder state and the
    best matching states make up the context.
    memory (B, S, enc), S <= max_src; src_len (B,) >= 1; prev (B, T) token ids.
    """

    def __init__(self, vocab, emb=16, enc=24, hid=24, max_src=50):
        super().__init__()
        self.hid = hid
        self.emb = nn.Embedding(vocab, emb)
        self.align = nn.Linear(emb + hid, max_src)
        self.merge = nn.Linear(emb + enc, hid)
        self.cell = nn.GRUCell(hid, hid)
        self.out = nn.Linear(hid, vocab)

    def forward(self, memory, src_len, prev):
        B, S, _ = memory.shape
        gone = torch.arange(S, device=memory.device) >= src_len[:, None]
        h = memory.new_zeros(B, self.hid)
        logits = []
        for t in range(prev.size(1)):
            e = self.emb(prev[:, t])
            energy = self.align(torch.cat([e, h], dim=1))[:, :S]
            w = energy.masked_fill(gone, float("-inf")).softmax(dim=1)
            ctx = torch.einsum("bs,bse->be", w, memory)
            h = self.cell(torch.relu(self.merge(torch.cat([e, ctx], dim=1))), h)
            logits.append(self.out(h))
        return torch.stack(logits, dim=1)
