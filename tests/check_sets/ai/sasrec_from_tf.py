"""Next-item model of the shop, converted 1:1 from our TensorFlow 1 graph (SASRec family).

tf.split / tf.concat over the batch axis became torch.split / torch.cat.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize(width):
    return nn.LayerNorm(width, eps=1e-8)


class MultiheadAttention(nn.Module):
    """queries [N, T_q, C], keys [N, T_k, C] -> [N, T_q, C]

    key_masks [N, T_k]: 1 = item, 0 = filler (fillers stand on the left, at the start).
    With causality=True an event sees the events up to itself.
    """

    def __init__(self, num_units, num_heads=8, dropout_rate=0.0, causality=True):
        super().__init__()
        assert num_units % num_heads == 0
        self.num_heads = num_heads
        self.num_units = num_units
        self.causality = causality
        self.q_ = nn.Linear(num_units, num_units)
        self.k_ = nn.Linear(num_units, num_units)
        self.v_ = nn.Linear(num_units, num_units)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, queries, keys, key_masks):
        N, T_q, _ = queries.shape
        T_k = keys.shape[1]
        d = self.num_units // self.num_heads

        Q = self.q_(queries)  # (N, T_q, C)
        K = self.k_(keys)  # (N, T_k, C)
        V = self.v_(keys)  # (N, T_k, C)

        # Split and concat
        Q_ = torch.cat(torch.split(Q, d, dim=2), dim=0)  # (h*N, T_q, C/h)
        K_ = torch.cat(torch.split(K, d, dim=2), dim=0)  # (h*N, T_k, C/h)
        V_ = torch.cat(torch.split(V, d, dim=2), dim=0)  # (h*N, T_k, C/h)

        # Multiplication and scale
        outputs = torch.matmul(Q_, K_.transpose(1, 2)) / (K_.shape[-1] ** 0.5)  # (h*N, T_q, T_k)

        # Key masking
        blocked = (key_masks == 0).repeat(self.num_heads, 1).unsqueeze(1)  # (h*N, 1, T_k)
        outputs = outputs.masked_fill(blocked, -2.0 ** 31)

        # Future blinding
        if self.causality:
            future = torch.ones(T_q, T_k, dtype=torch.bool, device=queries.device).triu(1)
            outputs = outputs.masked_fill(future, -2.0 ** 32)

        outputs = self.dropout(F.softmax(outputs, dim=-1))

        # Weighted sum and restore shape
        outputs = torch.matmul(outputs, V_)  # (h*N, T_q, C/h)
        outputs = outputs.view(N, self.num_heads, T_q, d).transpose(1, 2).reshape(N, T_q, self.num_units)

        # Residual connection
        return outputs + queries


class PointwiseFeedForward(nn.Module):
    def __init__(self, width, dropout_rate):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, 1)
        self.conv2 = nn.Conv1d(width, width, 1)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, x):
        y = self.dropout(F.relu(self.conv1(x.transpose(1, 2))))
        return x + self.dropout(self.conv2(y).transpose(1, 2))


class SASRec(nn.Module):
    def __init__(self, itemnum, hidden_units=50, maxlen=50, num_blocks=2, num_heads=1, dropout_rate=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(itemnum + 1, hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden_units)
        self.drop = nn.Dropout(dropout_rate)
        self.norm_q = nn.ModuleList(normalize(hidden_units) for _ in range(num_blocks))
        self.norm_f = nn.ModuleList(normalize(hidden_units) for _ in range(num_blocks))
        self.att = nn.ModuleList(MultiheadAttention(hidden_units, num_heads, dropout_rate) for _ in range(num_blocks))
        self.ffn = nn.ModuleList(PointwiseFeedForward(hidden_units, dropout_rate) for _ in range(num_blocks))
        self.last = normalize(hidden_units)
        self.scale = hidden_units ** 0.5

    def encode(self, seq):
        mask = (seq != 0).float()
        x = self.item_emb(seq) * self.scale + self.pos_emb.weight[:seq.shape[1]]
        x = self.drop(x) * mask.unsqueeze(-1)
        for nq, nf, att, ffn in zip(self.norm_q, self.norm_f, self.att, self.ffn):
            x = att(nq(x), x, mask)
            x = ffn(nf(x)) * mask.unsqueeze(-1)
        return self.last(x)

    def forward(self, seq, pos, neg):
        h = self.encode(seq)
        return (h * self.item_emb(pos)).sum(-1), (h * self.item_emb(neg)).sum(-1)

    def predict(self, seq, candidates):
        return (self.encode(seq)[:, -1:] * self.item_emb(candidates)).sum(-1)
