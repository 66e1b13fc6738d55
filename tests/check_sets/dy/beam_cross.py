"""Translation: cross attention in beam search without copying the encoder output.

BeamCross(dim, heads)
    remember(memory, src_pad)   memory (B, S, dim), src_pad (B, S) bool, True = padding;
                                each sentence has a real token.  Called once per batch.
    forward(x)                  x (B*K, 1, dim): K beams per sentence, beams of one sentence
                                next to each other (row b*K + i is beam i of sentence b)
    returns (B*K, 1, dim)
All K beams of a sentence attend to that sentence's real tokens; 1/sqrt(dim / heads).
Beams need no reordering here, whatever parents the search picks.
"""
import torch.nn as nn
import torch.nn.functional as F


class BeamCross(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wv, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.mem = None

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def remember(self, memory, src_pad):
        self.mem = (self._split(self.wk(memory)), self._split(self.wv(memory)),
                    ~src_pad[:, None, None, :])

    def forward(self, x):
        k, v, keep = self.mem
        B, D = k.size(0), x.size(-1)
        beams = x.size(0) // B
        q = self._split(self.wq(x).reshape(B, beams, D))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.wo(y.transpose(1, 2).reshape(B * beams, 1, D))
