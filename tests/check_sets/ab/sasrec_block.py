# Self-attentive sequential recommendation. PyTorch port of the TF1 code we used for the paper.
import torch
import torch.nn as nn


class ItemEmbedding(nn.Module):
    def __init__(self, n_items, hidden, maxlen):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.pos = nn.Embedding(maxlen, hidden)
        self.hidden = hidden

    def forward(self, seq):
        x = self.item(seq) * self.hidden ** 0.5
        x = x + self.pos(torch.arange(seq.shape[1], device=seq.device))
        return x * (seq > 0).unsqueeze(-1)


class SelfAttn(nn.Module):
    """
    x:    (N, T, C) item embeddings of N users
    seen: (N, T)    True where the user has a real item, False for the left padding
    """

    def __init__(self, hidden=64, num_heads=2, p=0.2):
        super().__init__()
        self.num_heads = num_heads
        self.Q = nn.Linear(hidden, hidden)
        self.K = nn.Linear(hidden, hidden)
        self.V = nn.Linear(hidden, hidden)
        self.ln = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(p)

    def forward(self, x, seen):
        N, T, C = x.shape
        h = self.num_heads
        queries = self.ln(x)
        # Split and concat: (h*N, T, C/h)
        Q_ = torch.cat(self.Q(queries).split(C // h, dim=2), dim=0)
        K_ = torch.cat(self.K(x).split(C // h, dim=2), dim=0)
        V_ = torch.cat(self.V(x).split(C // h, dim=2), dim=0)

        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / (C // h) ** 0.5

        # Key masking
        key_masks = seen.repeat_interleave(h, dim=0)
        key_masks = key_masks.unsqueeze(1).expand(-1, T, -1)
        paddings = torch.full_like(outputs, -2.0 ** 32 + 1)
        outputs = torch.where(key_masks, outputs, paddings)

        # Future blinding
        tril = torch.tril(torch.ones(T, T, dtype=torch.bool, device=x.device))
        outputs = torch.where(tril.unsqueeze(0), outputs, paddings)

        outputs = self.drop(torch.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)
        outputs = torch.cat(outputs.split(N, dim=0), dim=2)
        return queries + outputs


class SASRec(nn.Module):
    def __init__(self, n_items, hidden=64, maxlen=50, blocks=2):
        super().__init__()
        self.emb = ItemEmbedding(n_items, hidden, maxlen)
        self.attn = nn.ModuleList([SelfAttn(hidden) for _ in range(blocks)])
        self.last = nn.LayerNorm(hidden)

    def forward(self, seq):
        x = self.emb(seq)
        for a in self.attn:
            x = a(x, seq > 0) * (seq > 0).unsqueeze(-1)
        return self.last(x) @ self.emb.item.weight.t()
