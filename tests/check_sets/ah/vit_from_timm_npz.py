"""ViT inference with the weights of a timm checkpoint saved as a flat dict (np.savez).

blocks.{i}.attn.qkv.weight is [3*D, D]: all query rows first, then all key rows, then all value rows; inside
each third the rows of head 0 come first, then head 1, ...
"""
import torch
import torch.nn.functional as F


def get(w, name):
    return torch.as_tensor(w[name])


def linear(w, name, x):
    return F.linear(x, get(w, name + ".weight"), get(w, name + ".bias"))


def ln(w, name, x):
    return F.layer_norm(x, x.shape[-1:], get(w, name + ".weight"), get(w, name + ".bias"), 1e-6)


def attn(w, name, x, heads):
    B, N, D = x.shape
    hd = D // heads
    qkv = linear(w, name + ".qkv", x).reshape(B, N, heads, 3, hd).permute(3, 0, 2, 1, 4)
    q, k, v = qkv[0] * hd ** -0.5, qkv[1], qkv[2]
    a = (q @ k.transpose(-2, -1)).softmax(dim=-1)
    return linear(w, name + ".proj", (a @ v).transpose(1, 2).reshape(B, N, D))


def mlp(w, name, x):
    return linear(w, name + ".fc2", F.gelu(linear(w, name + ".fc1", x)))


def patchify(w, img):
    k = get(w, "patch_embed.proj.weight")
    return F.conv2d(img, k, get(w, "patch_embed.proj.bias"), stride=k.shape[-1]).flatten(2).transpose(1, 2)


def resize_pos_embed(pos, grid):
    cls, rest = pos[:, :1], pos[:, 1:]
    n = int(rest.shape[1] ** 0.5)
    if (n, n) == tuple(grid):
        return pos
    rest = rest.reshape(1, n, n, -1).permute(0, 3, 1, 2)
    rest = F.interpolate(rest, size=grid, mode="bicubic", align_corners=False)
    return torch.cat([cls, rest.flatten(2).transpose(1, 2)], dim=1)


@torch.no_grad()
def vit_forward(w, img, heads, depth):
    p = w["patch_embed.proj.weight"].shape[-1]
    x = patchify(w, img)
    x = torch.cat([get(w, "cls_token").expand(x.shape[0], -1, -1), x], dim=1)
    x = x + resize_pos_embed(get(w, "pos_embed"), (img.shape[2] // p, img.shape[3] // p))
    for i in range(depth):
        x = x + attn(w, f"blocks.{i}.attn", ln(w, f"blocks.{i}.norm1", x), heads)
        x = x + mlp(w, f"blocks.{i}.mlp", ln(w, f"blocks.{i}.norm2", x))
    return linear(w, "head", ln(w, "norm", x)[:, 0])


def toy_checkpoint(D=24, depth=2, patch=4, size=16, classes=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * 0.3
    w = {"cls_token": r(1, 1, D), "pos_embed": r(1, (size // patch) ** 2 + 1, D),
         "patch_embed.proj.weight": r(D, 3, patch, patch), "patch_embed.proj.bias": r(D)}
    shapes = {"attn.qkv": (3 * D, D), "attn.proj": (D, D), "mlp.fc1": (4 * D, D), "mlp.fc2": (D, 4 * D)}
    for i in range(depth):
        for n, s in shapes.items():
            w[f"blocks.{i}.{n}.weight"], w[f"blocks.{i}.{n}.bias"] = r(*s), r(s[0])
        for n in ("norm1", "norm2"):
            w[f"blocks.{i}.{n}.weight"], w[f"blocks.{i}.{n}.bias"] = torch.ones(D), torch.zeros(D)
    w["norm.weight"], w["norm.bias"] = torch.ones(D), torch.zeros(D)
    w["head.weight"], w["head.bias"] = r(classes, D), r(classes)
    return w


def top5(logits, labels):
    p = logits.softmax(-1)
    v, i = p.topk(min(5, p.shape[-1]))
    return [[(labels[j], float(q)) for q, j in zip(*row)] for row in zip(v, i.tolist())]
