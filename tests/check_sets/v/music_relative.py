import torch
import torch.nn as nn


class RelativeGlobalAttention(nn.Module):
    """Music Transformer: the memory-efficient skewing of Huang et al. 2018"""

    def __init__(self, d_model, num_heads, max_len=64, dropout=0.1):
        super().__init__()
        d_head, remainder = divmod(d_model, num_heads)
        if remainder:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len, self.num_heads, self.d_head = max_len, num_heads, d_head
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(d_model, d_model)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))

    def forward(self, x):
        bsz, n, d = x.shape
        if n > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        q = self.query(x).reshape(bsz, n, self.num_heads, -1).transpose(1, 2)
        k_t = self.key(x).reshape(bsz, n, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(bsz, n, self.num_heads, -1).transpose(1, 2)

        Er_t = self.Er[self.max_len - n :].transpose(0, 1)
        srel = self.skew(q @ Er_t)
        attn = (q @ k_t + srel) / self.d_head**0.5
        future = torch.ones(n, n, device=x.device).triu(2).bool()
        attn = attn.masked_fill(future, float("-inf"))
        attn = torch.softmax(attn, dim=-1)
        out = (self.dropout(attn) @ v).transpose(1, 2).reshape(bsz, n, d)
        return self.fc(out)

    @staticmethod
    def skew(qer):
        b, h, n, _ = qer.shape
        return nn.functional.pad(qer, (1, 0)).reshape(b, h, n + 1, n)[:, :, 1:]


class MusicModel(nn.Module):
    def __init__(self, events=388, d_model=32, heads=4, layers=2, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(events, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(
                nn.ModuleDict(
                    dict(
                        attn=RelativeGlobalAttention(d_model, heads, max_len),
                        n1=nn.LayerNorm(d_model),
                        ff=nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model)),
                        n2=nn.LayerNorm(d_model),
                    )
                )
            )
        self.out = nn.Linear(d_model, events)

    def forward(self, midi):
        x = self.embed(midi)
        for b in self.blocks:
            x = b["n1"](x + b["attn"](x))
            x = b["n2"](x + b["ff"](x))
        return self.out(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    m = MusicModel().eval()
    print(m(torch.randint(0, 388, (2, 20))).logsumexp(-1).mean())
