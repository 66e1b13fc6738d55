import torch
import torch.nn as nn


class FeatureEmbedding(nn.Module):
    def __init__(self, field_dims, embed_dim):
        super().__init__()
        self.embedding = nn.Embedding(sum(field_dims), embed_dim)
        offs = [0]
        for n in field_dims[:-1]:
            offs.append(offs[-1] + n)
        self.register_buffer("offsets", torch.tensor(offs))

    def forward(self, x):
        return self.embedding(x + self.offsets)


class InteractingLayer(nn.Module):
    """
    Multi-head self-attention over feature fields (AutoInt, CIKM'19)
    Input shape
        - 3D tensor with shape: ``(batch_size, field_size, embedding_size)``.
    Output shape
        - 3D tensor with shape: ``(batch_size, field_size, att_embedding_size * head_num)``.
    """

    def __init__(self, embedding_size, att_embedding_size=8, head_num=2, use_res=True):
        super().__init__()
        self.att_size = att_embedding_size
        self.head_num = head_num
        self.use_res = use_res
        width = att_embedding_size * head_num
        self.W_Query = nn.Linear(embedding_size, width, bias=False)
        self.W_Key = nn.Linear(embedding_size, width, bias=False)
        self.W_Value = nn.Linear(embedding_size, width, bias=False)
        if use_res:
            self.W_Res = nn.Linear(embedding_size, width, bias=False)

    def forward(self, inputs):
        bs, nf, _ = inputs.shape
        # 拆成多头: bs, head, field, att
        querys = self.W_Query(inputs).view(bs, self.head_num, nf, self.att_size)
        keys = self.W_Key(inputs).view(bs, self.head_num, nf, self.att_size)
        values = self.W_Value(inputs).view(bs, self.head_num, nf, self.att_size)

        inner_product = torch.einsum('bnik,bnjk->bnij', querys, keys)
        inner_product /= self.att_size ** 0.5
        weight = torch.softmax(inner_product, dim=-1)
        result = torch.matmul(weight, values)

        result = result.transpose(1, 2).reshape(bs, nf, -1)
        # 残差
        if self.use_res:
            result = result + self.W_Res(inputs)
        return torch.relu(result)


class AutoInt(nn.Module):
    def __init__(self, field_dims, embed_dim=16, att_embedding_size=8, head_num=2, n_layers=2):
        super().__init__()
        self.emb = FeatureEmbedding(field_dims, embed_dim)
        width = att_embedding_size * head_num
        self.layers = nn.ModuleList(
            InteractingLayer(embed_dim if i == 0 else width, att_embedding_size, head_num) for i in range(n_layers)
        )
        self.out = nn.Linear(len(field_dims) * width, 1)

    def forward(self, x):
        e = self.emb(x)
        for layer in self.layers:
            e = layer(e)
        return torch.sigmoid(self.out(e.flatten(1))).squeeze(1)
