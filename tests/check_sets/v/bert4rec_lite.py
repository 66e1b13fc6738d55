import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, n_units, n_heads, p):
        super().__init__()
        self.n_heads, self.p = n_heads, p
        self.lin = nn.ModuleList([nn.Linear(n_units, n_units) for _ in range(3)])
        self.final = nn.Linear(n_units, n_units)

    def forward(self, x, mask):
        bs = x.size(0)
        q, k, v = [l(x).view(bs, -1, self.n_heads, x.size(2) // self.n_heads).transpose(1, 2) for l in self.lin]
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.to(q.dtype), dropout_p=self.p if self.training else 0.0
        )
        return self.final(out.transpose(1, 2).contiguous().view(bs, -1, x.size(2)))


class Bert4Rec(nn.Module):
    """Predicts the hidden items of a history. Item 0 is padding, n_items + 1 is the [MASK] item."""

    def __init__(self, n_items, n_units=24, n_heads=3, n_layers=2, maxlen=20, p=0.1):
        super().__init__()
        self.item = nn.Embedding(n_items + 2, n_units, padding_idx=0)
        self.pos = nn.Embedding(maxlen, n_units)
        self.drop = nn.Dropout(p)
        self.att = nn.ModuleList([MultiHead(n_units, n_heads, p) for _ in range(n_layers)])
        self.ffn = nn.ModuleList(
            [nn.Sequential(nn.Linear(n_units, 4 * n_units), nn.GELU(), nn.Linear(4 * n_units, n_units)) for _ in range(n_layers)]
        )
        self.ln = nn.ModuleList([nn.LayerNorm(n_units) for _ in range(2 * n_layers)])
        self.bias = nn.Parameter(torch.zeros(n_items + 2))

    def forward(self, seq):
        mask = (seq > 0)[:, None, None, :]
        x = self.drop(self.item(seq) + self.pos.weight[: seq.size(1)])
        for i, (att, ffn) in enumerate(zip(self.att, self.ffn)):
            x = self.ln[2 * i](x + self.drop(att(x, mask)))
            x = self.ln[2 * i + 1](x + self.drop(ffn(x)))
        return F.linear(x, self.item.weight, self.bias)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Bert4Rec(30)
    model.eval()
    history = torch.tensor([[4, 9, 31, 7, 0, 0, 0], [3, 3, 8, 31, 21, 30, 2]])
    print(model(history)[0, 2, :6])
