"""AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks (CIKM 2019).

CTR model on categorical fields.  An interacting layer lets every field attend to all fields:

    alpha^h_{m,k} = softmax_k <W_Q^h e_m, W_K^h e_k>
    e'_m          = ReLU( concat_h sum_k alpha^h_{m,k} W_V^h e_k + W_Res e_m )

Following the authors' code there is no 1/sqrt(d).  Default sizes are those of our ad log:
8 fields, 8 heads of 8.
"""
import torch
import torch.nn as nn


class InteractingLayer(nn.Module):
    def __init__(self, embed_dim=16, att_dim=8, heads=8, use_res=True):
        super().__init__()
        self.heads, self.att_dim = heads, att_dim
        self.W_Q = nn.Linear(embed_dim, heads * att_dim, bias=False)
        self.W_K = nn.Linear(embed_dim, heads * att_dim, bias=False)
        self.W_V = nn.Linear(embed_dim, heads * att_dim, bias=False)
        self.W_Res = nn.Linear(embed_dim, heads * att_dim, bias=False) if use_res else None

    def forward(self, e):
        # e: (batch, fields, embed_dim)
        b, m, _ = e.shape
        q = self.W_Q(e).view(b, m, self.heads, self.att_dim).transpose(1, 2)
        k = self.W_K(e).view(b, m, self.heads, self.att_dim).transpose(1, 2)
        v = self.W_V(e).view(b, m, self.heads, self.att_dim).transpose(1, 2)

        sim = torch.matmul(q, k.transpose(1, 2))
        alpha = sim / sim.sum(dim=-1, keepdim=True)
        out = torch.matmul(alpha, v).transpose(1, 2).reshape(b, m, -1)
        if self.W_Res is not None:
            out = out + self.W_Res(e)
        return torch.relu(out)


class AutoInt(nn.Module):
    def __init__(self, field_sizes, embed_dim=16, att_dim=8, heads=8, layers=2):
        super().__init__()
        offsets = torch.tensor([0] + list(field_sizes[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.embed = nn.Embedding(sum(field_sizes), embed_dim)
        dims = [embed_dim] + [heads * att_dim] * layers
        self.inter = nn.ModuleList([InteractingLayer(d, att_dim, heads) for d in dims[:-1]])
        self.final = nn.Linear(dims[-1] * len(field_sizes), 1)

    def forward(self, ids):
        """ids (batch, fields) -> click probability (batch,)"""
        e = self.embed(ids + self.offsets)
        for layer in self.inter:
            e = layer(e)
        return torch.sigmoid(self.final(e.flatten(1))).squeeze(1)


if __name__ == "__main__":
    sizes = [5, 9, 3, 12, 7, 2, 4, 6]
    ids = torch.stack([torch.randint(0, s, (4,)) for s in sizes], 1)
    print(AutoInt(sizes)(ids))
