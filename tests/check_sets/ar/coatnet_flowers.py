"""CoAtNet-0-ish for Oxford flowers: MBConv stages, then relative self-attention stages.
   relative bias: B[h, i-j] added before the softmax (Dai et al. 2021)."""
import torch
import torch.nn as nn


class MBConv(nn.Module):
    def __init__(self, i, o, down=False, expand=4):
        super().__init__()
        s, m = 2 if down else 1, i * expand
        self.f = nn.Sequential(nn.BatchNorm2d(i), nn.Conv2d(i, m, 1, s, bias=False), nn.BatchNorm2d(m), nn.GELU(),
                               nn.Conv2d(m, m, 3, 1, 1, groups=m, bias=False), nn.BatchNorm2d(m), nn.GELU(),
                               nn.Conv2d(m, o, 1, bias=False))
        self.skip = nn.Identity() if i == o and not down else nn.Sequential(
            nn.MaxPool2d(2) if down else nn.Identity(), nn.Conv2d(i, o, 1))

    def forward(self, x):
        return self.skip(x) + self.f(x)


class RelAttention(nn.Module):
    def __init__(self, c_in, c_out, size, heads=4, dim_head=8):
        super().__init__()
        self.ih, self.iw = size
        self.heads, self.dim_head = heads, dim_head
        inner = heads * dim_head
        self.scale = dim_head ** -0.5
        self.to_qkv = nn.Linear(c_in, 3 * inner, bias=False)
        self.bias_table = nn.Parameter(torch.randn((2 * self.ih - 1) * (2 * self.iw - 1), heads) * 0.02)
        ys, xs = torch.meshgrid(torch.arange(self.ih), torch.arange(self.iw), indexing="ij")
        c = torch.stack([ys.flatten(), xs.flatten()])
        r = c[:, :, None] - c[:, None, :]
        self.register_buffer("rel_index", (r[0] + self.ih - 1) * (2 * self.iw - 1) + r[1] + self.iw - 1)
        self.to_out = nn.Linear(inner, c_out)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = [t.view(b, n, self.heads, self.dim_head).permute(0, 2, 1, 3)
                   for t in self.to_qkv(x).chunk(3, dim=-1)]
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        dots = dots + self.bias_table[self.rel_index].permute(2, 0, 1).unsqueeze(0)
        attn = torch.softmax(dots, dim=-1)
        out = torch.matmul(attn, v)
        out = out.contiguous().view(b, n, self.heads * self.dim_head)
        return self.to_out(out)


class TransformerStage(nn.Module):
    def __init__(self, i, o, size):
        super().__init__()
        self.pool, self.proj = nn.MaxPool2d(2), nn.Conv2d(i, o, 1)
        self.n1, self.n2 = nn.LayerNorm(i), nn.LayerNorm(o)
        self.att = RelAttention(i, o, size)
        self.ff = nn.Sequential(nn.Linear(o, 4 * o), nn.GELU(), nn.Linear(4 * o, o))

    def forward(self, x):
        x = self.pool(x)
        b, _, h, w = x.shape
        y = self.proj(x).flatten(2).transpose(1, 2) + self.att(self.n1(x.flatten(2).transpose(1, 2)))
        y = y + self.ff(self.n2(y))
        return y.transpose(1, 2).reshape(b, -1, h, w)


class CoAtNet(nn.Module):
    def __init__(self, img=32, ch=(8, 16, 24), classes=102):
        super().__init__()
        self.s0 = nn.Sequential(nn.Conv2d(3, ch[0], 3, 2, 1), nn.BatchNorm2d(ch[0]), nn.GELU())
        self.s1 = MBConv(ch[0], ch[1], down=True)
        self.s2 = TransformerStage(ch[1], ch[2], (img // 8, img // 8))
        self.fc = nn.Linear(ch[2], classes)

    def forward(self, x):
        return self.fc(self.s2(self.s1(self.s0(x))).mean((2, 3)))


if __name__ == "__main__":
    print(CoAtNet()(torch.rand(2, 3, 32, 32)).shape)
