import math
import torch, torch.nn as nn, torch.nn.functional as F

NUC = {c: i for i, c in enumerate("ACGTN")}


def tokenize(s):
    return torch.tensor([NUC.get(c, 4) for c in s.upper()])


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadRMS(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.w


class DiffAttn(nn.Module):
    """Differential attention over promoter sequences (bidirectional).

    h "double" heads: q and k have 2h heads of size d, v has h heads of size 2d.
    weights = softmax(q1 k1) - lambda * softmax(q2 k2)
    pad: bool (B, L), True where the base is padding.
    """

    def __init__(self, width, h, depth):
        super().__init__()
        self.h = h
        self.d = width // h // 2
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4))
        self.sub = HeadRMS(2 * self.d)

    def lam(self):
        return (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.lambda_init

    def forward(self, x, pad=None):
        B, L, E = x.shape
        q = self.wq(x).view(B, L, 2 * self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(B, L, 2 * self.h, self.d).transpose(1, 2)
        v = self.wv(x).view(B, L, self.h, 2 * self.d).transpose(1, 2)
        s = torch.matmul(q * self.d**-0.5, k.transpose(-1, -2))
        if pad is not None:
            s = s.masked_fill(pad[:, None, None, :], torch.finfo(s.dtype).min)
        a = F.softmax(s, -1, dtype=torch.float32).type_as(s)
        a = a.view(B, self.h, 2, L, L)
        a = a[:, :, 0] - self.lam() * a[:, :, 1]
        o = self.sub(a @ v) * (1 - self.lambda_init)
        return self.wo(o.transpose(1, 2).reshape(B, L, E))


if __name__ == "__main__":
    emb = nn.Embedding(5, 32)
    print(DiffAttn(32, 2, 1)(emb(tokenize("ACGTTGCANN"))[None]).shape)
