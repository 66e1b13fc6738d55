# coding: UTF-8
# 中文新闻标题分类, Transformer 编码器
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Config(object):
    """配置参数"""
    def __init__(self):
        self.model_name = 'Transformer'
        self.class_list = ['财经', '房产', '股票', '教育', '科技']
        self.num_classes = len(self.class_list)
        self.dropout = 0.5
        self.n_vocab = 4762
        self.pad_size = 32              # 每句话处理成的长度(短填长切)
        self.embed = 300
        self.dim_model = 300
        self.hidden = 1024
        self.num_head = 5
        self.num_encoder = 2


class Positional_Encoding(nn.Module):
    def __init__(self, embed, pad_size, dropout):
        super(Positional_Encoding, self).__init__()
        pos = torch.arange(pad_size, dtype=torch.float32).unsqueeze(1)
        div = torch.exp(torch.arange(0, embed, 2).float() * (-math.log(10000.0) / embed))
        pe = torch.zeros(pad_size, embed)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer('pe', pe)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x + self.pe)


class Multi_Head_Attention(nn.Module):
    '''
    多头自注意力, 每个头看到所有的词, 每个头的维度是 dim_model // num_head
    输入 x: [batch, seq_len, dim_model]   返回: [batch, seq_len, dim_model]
    '''
    def __init__(self, dim_model, num_head, dropout=0.0):
        super(Multi_Head_Attention, self).__init__()
        self.num_head = num_head
        assert dim_model % num_head == 0
        self.dim_head = dim_model // self.num_head
        self.fc_Q = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_K = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_V = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc = nn.Linear(num_head * self.dim_head, dim_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(dim_model)

    def forward(self, x):
        batch_size, seq_len = x.size(0), x.size(1)
        Q = self.fc_Q(x).view(batch_size, self.num_head, seq_len, self.dim_head)
        K = self.fc_K(x).view(batch_size, self.num_head, seq_len, self.dim_head)
        V = self.fc_V(x).view(batch_size, self.num_head, seq_len, self.dim_head)
        scale = x.size(-1) ** -0.5  # 缩放因子
        attention = torch.matmul(Q, K.permute(0, 1, 3, 2)) * scale
        attention = F.softmax(attention, dim=-1)
        context = torch.matmul(attention, V)

        context = context.permute(0, 2, 1, 3).contiguous().view(batch_size, seq_len, -1)
        out = self.fc(context)
        out = self.dropout(out)
        out = out + x  # 残差连接
        return self.layer_norm(out)


class Encoder(nn.Module):
    def __init__(self, dim_model, num_head, hidden, dropout):
        super(Encoder, self).__init__()
        self.attention = Multi_Head_Attention(dim_model, num_head, dropout)
        self.fc1 = nn.Linear(dim_model, hidden)
        self.fc2 = nn.Linear(hidden, dim_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(dim_model)

    def forward(self, x):
        out = self.attention(x)
        return self.layer_norm(out + self.dropout(self.fc2(F.relu(self.fc1(out)))))


class Model(nn.Module):
    def __init__(self, config):
        super(Model, self).__init__()
        self.embedding = nn.Embedding(config.n_vocab, config.embed, padding_idx=config.n_vocab - 1)
        self.postion_embedding = Positional_Encoding(config.embed, config.pad_size, config.dropout)
        encoder = Encoder(config.dim_model, config.num_head, config.hidden, config.dropout)
        self.encoders = nn.ModuleList([copy.deepcopy(encoder) for _ in range(config.num_encoder)])
        self.fc1 = nn.Linear(config.pad_size * config.dim_model, config.num_classes)

    def forward(self, x):
        out = self.postion_embedding(self.embedding(x[0]))
        for encoder in self.encoders:
            out = encoder(out)
        return self.fc1(out.view(out.size(0), -1))
