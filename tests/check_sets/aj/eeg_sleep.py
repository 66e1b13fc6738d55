import numpy as np
import torch
import torch.nn as nn


# Sleep staging from 30 s EEG epochs. A night has a variable number of epochs -> padded batches.
# Attention code after jadore801120's old transformer (heads folded into the batch dimension).

class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)
        self.softmax = nn.Softmax(dim=2)

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.transpose(1, 2))
        attn = attn / self.temperature
        if mask is not None:
            attn = attn.masked_fill(mask, -1e9)
        attn = self.softmax(attn)
        output = torch.bmm(self.dropout(attn), v)
        return output, attn


class NightAttention(nn.Module):
    """ q, k, v: b x len x d_model, mask: b x lq x lk bool, True = ignore (padding epoch) """

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        nn.init.normal_(self.w_qs.weight, mean=0, std=np.sqrt(2.0 / (d_model + d_k)))
        nn.init.normal_(self.w_ks.weight, mean=0, std=np.sqrt(2.0 / (d_model + d_k)))
        nn.init.normal_(self.w_vs.weight, mean=0, std=np.sqrt(2.0 / (d_model + d_v)))
        self.attention = ScaledDotProductAttention(temperature=np.power(d_k, 0.5), attn_dropout=dropout)
        self.layer_norm = nn.LayerNorm(d_model)
        self.fc = nn.Linear(n_head * d_v, d_model)
        nn.init.xavier_normal_(self.fc.weight)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        d_k, d_v, n_head = self.d_k, self.d_v, self.n_head
        sz_b, len_q, _ = q.size()
        len_k = k.size(1)
        residual = q

        q = self.w_qs(q).view(sz_b, len_q, n_head, d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, d_k)
        v = self.w_vs(v).view(sz_b, len_k, n_head, d_v)

        q = q.permute(2, 0, 1, 3).contiguous().view(-1, len_q, d_k)  # (n*b) x lq x dk
        k = k.permute(2, 0, 1, 3).contiguous().view(-1, len_k, d_k)  # (n*b) x lk x dk
        v = v.permute(2, 0, 1, 3).contiguous().view(-1, len_k, d_v)  # (n*b) x lv x dv

        if mask is not None:
            mask = mask.repeat_interleave(n_head, dim=0)  # one copy per head
        output, attn = self.attention(q, k, v, mask=mask)

        output = output.view(n_head, sz_b, len_q, d_v)
        output = output.permute(1, 2, 0, 3).contiguous().view(sz_b, len_q, -1)  # b x lq x (n*dv)
        output = self.dropout(self.fc(output))
        output = self.layer_norm(output + residual)
        return output, attn


class EpochCNN(nn.Module):
    """ 30 s at 100 Hz, 1 channel -> feature vector """

    def __init__(self, d_out):
        super().__init__()
        self.small = nn.Sequential(nn.Conv1d(1, 32, 50, 6, padding=24), nn.BatchNorm1d(32), nn.ReLU(),
                                   nn.MaxPool1d(8), nn.Conv1d(32, 64, 8, padding=4), nn.ReLU())
        self.large = nn.Sequential(nn.Conv1d(1, 32, 400, 50, padding=200), nn.BatchNorm1d(32), nn.ReLU(),
                                   nn.MaxPool1d(4), nn.Conv1d(32, 64, 6, padding=3), nn.ReLU())
        self.fc = nn.Linear(128, d_out)

    def forward(self, x):
        return self.fc(torch.cat([self.small(x).mean(-1), self.large(x).mean(-1)], -1))


def padding_mask(lengths, n):
    """ b x n x n, True in the columns of padding """
    cols = torch.arange(n, device=lengths.device)[None, :] >= lengths[:, None]
    return cols.unsqueeze(1).expand(-1, n, -1)


class SleepNet(nn.Module):
    def __init__(self, d_model=64, n_head=4, n_layers=3, n_classes=5):
        super().__init__()
        self.cnn = EpochCNN(d_model)
        d = d_model // n_head
        self.attn = nn.ModuleList([NightAttention(n_head, d_model, d, d) for _ in range(n_layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d_model, 128), nn.ReLU(), nn.Linear(128, d_model))
                                 for _ in range(n_layers)])
        self.out = nn.Linear(d_model, n_classes)

    def forward(self, x, lengths):
        b, n, s = x.shape
        h = self.cnn(x.reshape(b * n, 1, s)).view(b, n, -1)
        mask = padding_mask(lengths, n)
        for a, f in zip(self.attn, self.ff):
            h, _ = a(h, h, h, mask)
            h = h + f(h)
        return self.out(h)
