import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, d_model=24, nhead=4):
        super().__init__()
        self.nhead = nhead
        self.d_head = d_model // nhead
        self.fc_q = nn.Linear(d_model, d_model)
        self.fc_k = nn.Linear(d_model, d_model)
        self.fc_v = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)

    def forward(self, q, k, v):
        bs = q.size(0)
        q = self.fc_q(q).view(bs, -1, self.nhead, self.d_head).transpose(1, 2)
        k = self.fc_k(k).view(bs, -1, self.nhead, self.d_head).transpose(1, 2)
        v = self.fc_v(v).view(bs, -1, self.nhead, self.d_head).transpose(1, 2)
        sc = torch.matmul(q, k.transpose(-1, -2)) / self.nhead ** 0.5
        w = F.softmax(sc, dim=1)
        y = torch.matmul(w, v).reshape(bs, -1, self.nhead * self.d_head)
        return self.fc(y)
