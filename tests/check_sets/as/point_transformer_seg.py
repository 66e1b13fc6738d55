"""Point Transformer layer (Zhao et al., 2021) for semantic segmentation of rooms.

Vector attention: each of the k neighbours has a *vector* of weights, one for each
group of channels, normalised over the neighbours (eq. 3 of the paper).
"""
import torch
import torch.nn as nn


def pairwise_sq(a, b):
    return (a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(-1)


def knn(xyz, k):
    """[B, N, 3] -> indices [B, N, k], the point itself among them."""
    return pairwise_sq(xyz, xyz).topk(k, dim=-1, largest=False).indices


def gather(x, idx):
    """x [B, N, C], idx [B, N, k] -> [B, N, k, C]"""
    b = torch.arange(x.shape[0], device=x.device).view(-1, 1, 1)
    return x[b, idx]


def mlp(*widths, norm=False):
    mods = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        if i:
            mods.append(nn.ReLU(inplace=True))
        mods.append(nn.Linear(a, b))
        if norm and i < len(widths) - 2:
            mods.append(nn.LayerNorm(b))
    return nn.Sequential(*mods)


class PointTransformerLayer(nn.Module):
    def __init__(self, planes, share_planes=4, nsample=8):
        super().__init__()
        self.share, self.nsample = share_planes, nsample
        self.linear_q = nn.Linear(planes, planes)
        self.linear_k = nn.Linear(planes, planes)
        self.linear_v = nn.Linear(planes, planes)
        self.linear_p = mlp(3, 3, planes, norm=True)                            # theta: position encoding
        self.linear_w = mlp(planes, planes // share_planes, planes // share_planes)  # gamma
        self.softmax = nn.Softmax(dim=-2)

    def forward(self, px):
        p, x = px                                                # [B, N, 3], [B, N, C]
        idx = knn(p, min(self.nsample, p.shape[1]))
        q = self.linear_q(x).unsqueeze(2)                        # [B, N, 1, C]
        k = gather(self.linear_k(x), idx)                        # [B, N, k, C]
        v = gather(self.linear_v(x), idx)
        delta = self.linear_p(p.unsqueeze(2) - gather(p, idx))   # [B, N, k, C]

        w = self.linear_w(q - k + delta)                         # [B, N, k, C / share]
        w = self.softmax(w)
        B, N, n, c = v.shape
        v = (v + delta).view(B, N, n, self.share, c // self.share)
        return (v * w.unsqueeze(3)).sum(2).view(B, N, c)


class PointTransformerBlock(nn.Module):
    expansion = 1

    def __init__(self, planes, share_planes=4, nsample=8):
        super().__init__()
        self.linear1 = nn.Linear(planes, planes, bias=False)
        self.transformer = PointTransformerLayer(planes, share_planes, nsample)
        self.linear3 = nn.Linear(planes, planes, bias=False)
        self.bn1, self.bn2, self.bn3 = (nn.LayerNorm(planes) for _ in range(3))

    def forward(self, px):
        p, x = px
        y = self.bn1(self.linear1(x)).relu()
        y = self.bn2(self.transformer([p, y])).relu()
        y = self.bn3(self.linear3(y))
        return [p, (x + y).relu()]


class TransitionDown(nn.Module):
    def __init__(self, c_in, c_out, stride=4):
        super().__init__()
        self.stride, self.lin = stride, nn.Linear(c_in, c_out)

    def forward(self, px):
        p, x = px
        keep = torch.arange(0, p.shape[1], self.stride, device=p.device)
        idx = knn(p, min(8, p.shape[1]))
        pooled = gather(self.lin(x), idx).amax(2)
        return [p[:, keep], pooled[:, keep]]
