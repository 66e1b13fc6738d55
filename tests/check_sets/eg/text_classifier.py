"""Text classification with a transformer encoder (news headlines, 10 classes)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Config(object):
    def __init__(self):
        self.num_classes = 10
        self.n_vocab = 60
        self.pad_size = 12
        self.embed = 24
        self.num_head = 4
        self.num_encoder = 2
        self.hidden = 48
        self.dropout = 0.2


class Scaled_Dot_Product_Attention(nn.Module):
    """Q, K, V: [batch, heads, len, dim_head] -> [batch, heads, len, dim_head]"""

    def forward(self, Q, K, V, scale=None):
        attention = torch.matmul(Q, K.transpose(-1, -2))
        if scale:
            attention = attention * scale
        attention = F.softmax(attention, dim=-1)
        return torch.matmul(attention, V)


class Multi_Head_Attention(nn.Module):
    """x: [batch, len, dim_model]. Head h works on features h*dim_head .. (h+1)*dim_head-1 of every
    projected word, and any word can attend to any other of the same text. Post-norm residual."""

    def __init__(self, dim_model, num_head, dropout=0.0):
        super(Multi_Head_Attention, self).__init__()
        self.num_head = num_head
        assert dim_model % num_head == 0
        self.dim_head = dim_model // self.num_head
        self.fc_Q = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_K = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_V = nn.Linear(dim_model, num_head * self.dim_head)
        self.attention = Scaled_Dot_Product_Attention()
        self.fc = nn.Linear(num_head * self.dim_head, dim_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(dim_model)

    def forward(self, x):
        batch_size, length = x.size(0), x.size(1)
        Q = self.fc_Q(x).view(batch_size, self.num_head, length, self.dim_head)
        K = self.fc_K(x).view(batch_size, self.num_head, length, self.dim_head)
        V = self.fc_V(x).view(batch_size, self.num_head, length, self.dim_head)
        context = self.attention(Q, K, V, K.size(-1) ** -0.5)
        context = context.view(batch_size, length, self.dim_head * self.num_head)
        out = self.dropout(self.fc(context))
        return self.layer_norm(out + x)


class Model(nn.Module):
    """ids [batch, pad_size] -> class scores [batch, num_classes]"""

    def __init__(self, config):
        super(Model, self).__init__()
        self.embedding = nn.Embedding(config.n_vocab, config.embed)
        self.position = nn.Parameter(torch.randn(config.pad_size, config.embed) * 0.1)
        self.encoders = nn.ModuleList([Multi_Head_Attention(config.embed, config.num_head, config.dropout)
                                       for _ in range(config.num_encoder)])
        self.fc1 = nn.Linear(config.pad_size * config.embed, config.num_classes)

    def forward(self, ids):
        out = self.embedding(ids) + self.position
        for encoder in self.encoders:
            out = encoder(out)
        return self.fc1(out.view(out.size(0), -1))
