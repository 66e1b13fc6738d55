"""quarry_noise: predicts complaints of neighbours from blast recordings.

training loop = train, validate, train, validate ... ; `rate` is the attention
dropout during training, nothing is dropped during validation.
"""
import torch
from torch import nn
from torch.nn import functional as F


class BlastAttention(nn.Module):
    def __init__(self, dim: int, heads: int, rate: float = 0.1):
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.rate = rate
        self.w_in = nn.Parameter(torch.empty(3 * dim, dim))
        self.w_out = nn.Parameter(torch.empty(dim, dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.w_in)
        nn.init.xavier_uniform_(self.w_out)

    def forward(self, x, clipped=None):
        """x (B, T, dim); clipped (B, T) bool, True = microphone overdriven, ignore the frame"""
        if not self.training:
            self.rate = 0.0
        q, k, v = F.linear(x, self.w_in).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        keep = None if clipped is None else ~clipped[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=self.rate)
        return F.linear(y.transpose(1, 2).flatten(2), self.w_out)


class ComplaintNet(nn.Module):
    def __init__(self, bands=8, dim=16, heads=2):
        super().__init__()
        self.front = nn.Conv1d(bands, dim, 3, padding=1)
        self.att = BlastAttention(dim, heads)
        self.head = nn.Linear(dim, 1)

    def forward(self, spec, clipped=None):
        """spec (B, bands, T)"""
        h = self.front(spec).transpose(1, 2)
        h = F.layer_norm(h + self.att(h, clipped), h.shape[-1:])
        return self.head(h.amax(1)).squeeze(-1)


def fit(net, batches, held_out, epochs=2, lr=1e-3):
    opt = torch.optim.Adam(net.parameters(), lr)
    history = []
    for _ in range(epochs):
        net.train()
        for spec, y in batches:
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(net(spec), y).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            spec, y = held_out
            history.append(float(F.binary_cross_entropy_with_logits(net(spec), y)))
    return history


if __name__ == "__main__":
    data = [(torch.randn(4, 8, 10), torch.randint(0, 2, (4,)).float()) for _ in range(3)]
    print(fit(ComplaintNet(), data[:2], data[2]))
