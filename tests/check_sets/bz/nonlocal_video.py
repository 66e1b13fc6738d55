"""Non-local block (Wang et al., CVPR 2018), embedded Gaussian version, for video or images.

    y_i = 1/C(x) * sum_j exp(theta(x_i)^T phi(x_j)) g(x_j),   z = BN(W y) + x

As in the paper and the Caffe2 code the embedded Gaussian is NOT divided by sqrt(d); pass
``use_scale=True`` for the variant of later toolboxes.  phi and g may be max-pooled
(`sub_sample`), so that there are fewer keys than positions.  The last BN starts at zero
so that a fresh block is the identity.
"""
import torch
from torch import nn


class NonLocalBlock(nn.Module):
    def __init__(self, channels, inner=None, dims=2, sub_sample=False, use_scale=False, zero_init=True):
        super().__init__()
        assert dims in (2, 3)
        conv = {2: nn.Conv2d, 3: nn.Conv3d}[dims]
        norm = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims]
        self.inner = inner or max(channels // 2, 1)
        self.use_scale = use_scale
        self.theta = conv(channels, self.inner, 1)
        self.phi = conv(channels, self.inner, 1)
        self.g = conv(channels, self.inner, 1)
        self.out = nn.Sequential(conv(self.inner, channels, 1), norm(channels))
        if zero_init:
            nn.init.zeros_(self.out[1].weight)
        if sub_sample:
            # only over space, never over time
            self.pool = nn.MaxPool2d(2) if dims == 2 else nn.MaxPool3d((1, 2, 2))
        else:
            self.pool = nn.Identity()

    def forward(self, x):
        n = x.size(0)
        theta = self.theta(x).reshape(n, self.inner, -1)             # n, c, P
        phi = self.pool(self.phi(x)).reshape(n, self.inner, -1)      # n, c, S
        g = self.pool(self.g(x)).reshape(n, self.inner, -1)

        f = torch.bmm(phi.transpose(1, 2), theta)                    # n, S, P  (keys first)
        if self.use_scale:
            f = f * self.inner ** -0.5
        f = f.softmax(dim=1)
        y = torch.bmm(g, f)                                          # n, c, P
        y = y.reshape(n, self.inner, *x.shape[2:])
        return self.out(y) + x


if __name__ == "__main__":
    block = NonLocalBlock(8, dims=3, sub_sample=True)
    clip = torch.randn(1, 8, 2, 4, 4)
    print(torch.allclose(block(clip), clip))
