import torch.nn as nn


class DetrDecoderLayer(nn.Module):
    """One decoder layer of DETR (post-norm).

    tgt, query_pos : (B, Q, D)   object queries
    mem, mem_pos   : (B, HW, D)  flattened backbone features and their positions
    mem_pad        : (B, HW) bool, True where the image was padded
    """

    def __init__(self, d=64, nhead=8, ff=128, drop=0.1):
        super().__init__()
        self.sa = nn.MultiheadAttention(d, nhead, dropout=drop, batch_first=True)
        self.ca = nn.MultiheadAttention(d, nhead, dropout=drop, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Dropout(drop), nn.Linear(ff, d))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))
        self.do = nn.Dropout(drop)

    @staticmethod
    def _with(x, pos):
        return x if pos is None else x + pos

    def forward(self, tgt, mem, query_pos=None, mem_pos=None, mem_pad=None):
        qk = self._with(tgt, query_pos)
        y, _ = self.sa(qk, qk, tgt, need_weights=False)
        tgt = self.n1(tgt + self.do(y))
        y, _ = self.ca(self._with(tgt, query_pos), self._with(mem, mem_pos), mem,
                       key_padding_mask=mem_pad, need_weights=False)
        tgt = self.n2(tgt + self.do(y))
        return self.n3(tgt + self.do(self.ffn(tgt)))
