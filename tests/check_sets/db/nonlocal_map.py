import torch
from torch import nn


class NonLocal(nn.Module):
    """Embedded-Gaussian non-local block; keys and values are pooled to a coarser grid.

    img (B, C, H, W), H and W even. Every pixel takes a weighted mean over the coarse grid.
    """

    def __init__(self, C=16, inner=8):
        super().__init__()
        self.inner = inner
        self.theta = nn.Conv2d(C, inner, 1)
        self.phi = nn.Conv2d(C, inner, 1)
        self.g = nn.Conv2d(C, inner, 1)
        self.pool = nn.MaxPool2d(2)
        self.back = nn.Conv2d(inner, C, 1)

    def forward(self, img):
        B, C, H, W = img.shape
        small = self.pool(img)
        t = self.theta(img).view(B, self.inner, H * W).permute(0, 2, 1)
        p = self.phi(small).view(B, self.inner, -1)
        g = self.g(small).view(B, self.inner, -1).permute(0, 2, 1)
        f = torch.bmm(t, p) / self.inner ** 0.5          # B, HW, HW/4
        f = torch.softmax(f, dim=1)
        y = torch.bmm(f, g).permute(0, 2, 1).reshape(B, self.inner, H, W)
        return img + self.back(y)
