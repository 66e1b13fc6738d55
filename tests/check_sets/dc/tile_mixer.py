import torch


def fuse(wq, wk, wv):
    """Stack three (D, D) matrices to one (3D, D): first all rows of q, then all of k, then all of v.
    Head h owns the rows h*d .. (h+1)*d - 1 of each matrix."""
    return torch.cat([wq, wk, wv], dim=0)


def tile_layer(img, wq, wk, wv, wo, heads=4, tile=4):
    """Self-attention inside tiles of a feature map.

    img (B, H, W, D) with H and W multiples of tile; y = x W^T for all weights. Same shape back.
    """
    B, H, W, D = img.shape
    d = D // heads
    x = img.reshape(B, H // tile, tile, W // tile, tile, D)
    x = x.transpose(2, 3).reshape(-1, tile * tile, D)
    n, L = x.shape[:2]

    qkv = (x @ fuse(wq, wk, wv).T).reshape(n, L, heads, 3, d)
    q, k, v = qkv.permute(3, 0, 2, 1, 4)
    s = q @ k.mT * d ** -0.5
    y = torch.softmax(s, -1) @ v
    y = y.transpose(1, 2).reshape(n, L, D) @ wo.T

    y = y.reshape(B, H // tile, W // tile, tile, tile, D)
    return y.transpose(2, 3).reshape(B, H, W, D)
