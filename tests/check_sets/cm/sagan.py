"""Self-attention map for the generator (SAGAN, Zhang et al., 2019)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttn2d(nn.Module):
    """x: (B, C, H, W). Dot-product attention of every pixel to a 2x2 max-pooled map,
    unscaled as in the paper, added to x through a learned gate gamma."""

    def __init__(self, ch=16, gamma=0.5):
        super().__init__()
        self.theta = nn.Conv2d(ch, ch // 8, 1, bias=False)
        self.phi = nn.Conv2d(ch, ch // 8, 1, bias=False)
        self.g = nn.Conv2d(ch, ch // 2, 1, bias=False)
        self.o = nn.Conv2d(ch // 2, ch, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(gamma))

    def forward(self, x):
        B, C, H, W = x.shape
        theta = self.theta(x).flatten(2)  # (B, C/8, HW)
        phi = F.max_pool2d(self.phi(x), 2).flatten(2)  # (B, C/8, HW/4)
        g = F.max_pool2d(self.g(x), 2).flatten(2)  # (B, C/2, HW/4)
        # keys first: columns of beta belong to the querying pixels
        beta = torch.softmax(torch.bmm(phi.transpose(1, 2), theta), dim=1)  # (B, HW/4, HW)
        out = torch.bmm(g, beta).view(B, C // 2, H, W)
        return x + self.gamma * self.o(out)


if __name__ == "__main__":
    net = SelfAttn2d(16)
    print(net(torch.randn(2, 16, 8, 8)).shape)
