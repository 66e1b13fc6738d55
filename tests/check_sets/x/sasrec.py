import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden_units, dropout_rate):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout1 = nn.Dropout(p=dropout_rate)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout2 = nn.Dropout(p=dropout_rate)

    def forward(self, inputs):
        outputs = self.dropout2(self.conv2(self.relu(self.dropout1(self.conv1(inputs.transpose(-1, -2))))))
        return outputs.transpose(-1, -2) + inputs


class SelfAttn(nn.Module):
    def __init__(self, hidden_units, num_heads, dropout_rate):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_units // num_heads
        self.Q_w = nn.Linear(hidden_units, hidden_units)
        self.K_w = nn.Linear(hidden_units, hidden_units)
        self.V_w = nn.Linear(hidden_units, hidden_units)
        self.dropout = nn.Dropout(p=dropout_rate)

    def forward(self, queries, keys, attn_mask):
        Q, K, V = self.Q_w(queries), self.K_w(keys), self.V_w(keys)
        B, L, D = Q.shape
        # (B, h, L, d)
        Q_ = Q.reshape(B, self.num_heads, L, self.head_size)
        K_ = K.reshape(B, self.num_heads, L, self.head_size)
        V_ = V.reshape(B, self.num_heads, L, self.head_size)
        w = Q_.matmul(K_.transpose(2, 3)) / (self.head_size ** 0.5)
        w = w.masked_fill(attn_mask, -2 ** 32 + 1)
        w = self.dropout(torch.softmax(w, dim=-1))
        out = w.matmul(V_)
        return out.transpose(1, 2).reshape(B, L, D)


class SASRec(nn.Module):
    """log_seqs (B, maxlen) item ids, 0 = padding on the left; returns features (B, maxlen, hidden)"""

    def __init__(self, item_num=50, maxlen=12, hidden_units=32, num_blocks=2, num_heads=2, dropout_rate=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden_units)
        self.emb_dropout = nn.Dropout(p=dropout_rate)
        self.attention_layernorms = nn.ModuleList()
        self.attention_layers = nn.ModuleList()
        self.forward_layernorms = nn.ModuleList()
        self.forward_layers = nn.ModuleList()
        self.last_layernorm = nn.LayerNorm(hidden_units, eps=1e-8)
        for _ in range(num_blocks):
            self.attention_layernorms.append(nn.LayerNorm(hidden_units, eps=1e-8))
            self.attention_layers.append(SelfAttn(hidden_units, num_heads, dropout_rate))
            self.forward_layernorms.append(nn.LayerNorm(hidden_units, eps=1e-8))
            self.forward_layers.append(PointWiseFeedForward(hidden_units, dropout_rate))

    def forward(self, log_seqs):
        seqs = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        L = log_seqs.shape[1]
        seqs = self.emb_dropout(seqs + self.pos_emb(torch.arange(L, device=log_seqs.device)))
        timeline_mask = (log_seqs == 0).unsqueeze(-1)
        seqs = seqs.masked_fill(timeline_mask, 0.)
        future = ~torch.tril(torch.ones(L, L, dtype=torch.bool, device=log_seqs.device))
        for i in range(len(self.attention_layers)):
            Q = self.attention_layernorms[i](seqs)
            seqs = Q + self.attention_layers[i](Q, seqs, future)
            seqs = self.forward_layers[i](self.forward_layernorms[i](seqs))
            seqs = seqs.masked_fill(timeline_mask, 0.)
        return self.last_layernorm(seqs)
