"""One decoder layer of DETR (Carion et al., 2020, appendix A.3), post-norm variant.

Positions are added to queries and keys in *every* layer and never to values:

    self attention   q = k = tgt + query_pos,           v = tgt
    cross attention  q = tgt + query_pos, k = mem + pos, v = mem
"""
import torch.nn as nn
import torch.nn.functional as F


class DETRDecoderLayer(nn.Module):
    """All sequences are laid out length first, as in the original repository.

    tgt         (Q, B, C)   object slots (zeros for the first layer)
    memory      (HW, B, C)  flattened image features from the encoder
    query_pos   (Q, B, C)   learned object queries
    pos         (HW, B, C)  sine embedding of the pixels
    memory_pad  (B, HW)     bool, True for the pixels that only pad the image to the
                            size of the batch; every image has real pixels
    returns     (Q, B, C)
    """

    def __init__(self, d_model=32, nhead=4, d_ff=64, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, tgt, memory, query_pos, pos, memory_pad=None):
        qk = tgt + query_pos
        # the slots form a set: they all see each other, no causal mask
        upd = self.self_attn(qk, qk, value=tgt, need_weights=False)[0]
        tgt = self.norm1(tgt + self.drop(upd))

        upd = self.multihead_attn(
            query=tgt + query_pos,
            key=memory + pos,
            value=memory,
            key_padding_mask=memory_pad,
            need_weights=False,
        )[0]
        tgt = self.norm2(tgt + self.drop(upd))

        upd = self.linear2(self.drop(F.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.drop(upd))
