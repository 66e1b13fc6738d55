import torch
import torch.nn as nn
import torch.nn.functional as F


class MyAttention(nn.Module):
    """
    My version of multi head attention :)
    query (N, T, E), key and value (N, S, E)
    mask  (N, 1, T, S) or (N, 1, 1, S): 1 = look, 0 = don't look (always something to look at)
    p     dropout on the attention weights while training
    """

    def __init__(self, embed=20, heads=4, p=0.2):
        super().__init__()
        self.heads = heads
        self.hd = embed // heads
        self.p = p
        self.fq = nn.Linear(embed, embed)
        self.fk = nn.Linear(embed, embed)
        self.fv = nn.Linear(embed, embed)
        self.fo = nn.Linear(embed, embed)

    def forward(self, query, key, value, mask=None):
        N, T, E = query.shape
        q = self.fq(query).view(N, T, self.heads, self.hd).transpose(1, 2)
        k = self.fk(key).view(N, -1, self.heads, self.hd).transpose(1, 2)
        v = self.fv(value).view(N, -1, self.heads, self.hd).transpose(1, 2)

        # scaled dot product
        energy = torch.matmul(q, k.transpose(2, 3)) / self.hd

        attention = torch.softmax(energy, dim=-1)
        if mask is not None:
            attention = attention * mask
        attention = F.dropout(attention, self.p)

        out = torch.matmul(attention, v)
        out = out.transpose(1, 2).contiguous().view(N, T, E)
        return self.fo(out)
