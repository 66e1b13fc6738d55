import torch
import torch.nn as nn


class MHA(nn.Module):
    """queries (N, Tq, C), keys (N, Tk, C), key_mask (N, Tk) bool: True = token, False = pad.
    Every sentence has at least one token.
    """

    def __init__(self, num_units, num_heads=8, dropout=0.1):
        super(MHA, self).__init__()
        self.num_units = num_units
        self.num_heads = num_heads
        self.Q_proj = nn.Linear(num_units, num_units)
        self.K_proj = nn.Linear(num_units, num_units)
        self.V_proj = nn.Linear(num_units, num_units)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(num_units)

    def forward(self, queries, keys, key_mask):
        h = self.num_heads
        Q = self.Q_proj(queries)
        K = self.K_proj(keys)
        V = self.V_proj(keys)

        # split and concat
        Q_ = torch.cat(torch.chunk(Q, h, dim=2), dim=0)  # (h*N, T_q, C/h)
        K_ = torch.cat(torch.chunk(K, h, dim=2), dim=0)
        V_ = torch.cat(torch.chunk(V, h, dim=2), dim=0)

        outputs = torch.bmm(Q_, K_.permute(0, 2, 1))
        outputs = outputs / (K_.size(-1) ** 0.5)

        # key masking
        key_masks = key_mask.repeat_interleave(h, dim=0)            # (h*N, T_k)
        key_masks = key_masks.unsqueeze(1).expand(-1, queries.size(1), -1)
        outputs = outputs.masked_fill(~key_masks, float('-inf'))

        outputs = torch.softmax(outputs, dim=-1)
        outputs = self.dropout(outputs)
        outputs = torch.bmm(outputs, V_)

        # restore shape
        outputs = torch.cat(torch.chunk(outputs, h, dim=0), dim=2)  # (N, T_q, C)
        return self.norm(outputs + queries)
