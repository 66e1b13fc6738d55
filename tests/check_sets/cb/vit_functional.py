"""ViT forward pass as pure functions over a timm state dict.

I wanted to see every tensor. Keys are timm's (`blocks.0.attn.qkv.weight`, ...), so
    params = timm.create_model("vit_tiny_patch16_224", pretrained=True).state_dict()
works as is. In timm the rows of qkv.weight are all of q, then all of k, then all of v,
each of them head after head.
"""
import torch
import torch.nn.functional as F


def sub(params, prefix):
    n = len(prefix)
    return {k[n:]: v for k, v in params.items() if k.startswith(prefix)}


def patchify(p, img):
    x = F.conv2d(img, p["weight"], p["bias"], stride=p["weight"].shape[-1])
    return x.flatten(2).transpose(1, 2)


def layer_norm(p, x):
    return F.layer_norm(x, x.shape[-1:], p["weight"], p["bias"], eps=1e-6)


def attention(p, x, num_heads):
    B, N, C = x.shape
    qkv = F.linear(x, p["qkv.weight"], p["qkv.bias"])
    qkv = qkv.reshape(B, N, num_heads, 3, C // num_heads)
    q, k, v = qkv.permute(3, 0, 2, 1, 4)               # each (B, heads, N, head_dim)
    attn = (q * (C // num_heads) ** -0.5) @ k.transpose(-2, -1)
    attn = attn.softmax(dim=-1)
    x = (attn @ v).transpose(1, 2).reshape(B, N, C)
    return F.linear(x, p["proj.weight"], p["proj.bias"])


def mlp(p, x):
    x = F.gelu(F.linear(x, p["fc1.weight"], p["fc1.bias"]))
    return F.linear(x, p["fc2.weight"], p["fc2.bias"])


def block(p, x, num_heads):
    x = x + attention(sub(p, "attn."), layer_norm(sub(p, "norm1."), x), num_heads)
    return x + mlp(sub(p, "mlp."), layer_norm(sub(p, "norm2."), x))


def vit(params, img, num_heads=3):
    """img [B, 3, H, W] -> class logits"""
    x = patchify(sub(params, "patch_embed.proj."), img)
    x = torch.cat([params["cls_token"].expand(len(x), -1, -1), x], dim=1)
    x = x + params["pos_embed"]
    depth = 1 + max(int(k.split(".")[1]) for k in params if k.startswith("blocks."))
    for i in range(depth):
        x = block(sub(params, f"blocks.{i}."), x, num_heads)
    x = layer_norm(sub(params, "norm."), x)[:, 0]
    return F.linear(x, params["head.weight"], params["head.bias"])


def random_params(dim=24, depth=2, patch=4, side=16, classes=10):
    g = torch.Generator().manual_seed(0)
    r = lambda *s: torch.randn(*s, generator=g) * 0.1
    p = {"cls_token": r(1, 1, dim), "pos_embed": r(1, (side // patch) ** 2 + 1, dim),
         "patch_embed.proj.weight": r(dim, 3, patch, patch), "patch_embed.proj.bias": r(dim),
         "norm.weight": torch.ones(dim), "norm.bias": torch.zeros(dim),
         "head.weight": r(classes, dim), "head.bias": r(classes)}
    for i in range(depth):
        b = f"blocks.{i}."
        for n in ("norm1", "norm2"):
            p[b + n + ".weight"], p[b + n + ".bias"] = torch.ones(dim), torch.zeros(dim)
        for n, o, j in (("attn.qkv", 3 * dim, dim), ("attn.proj", dim, dim), ("mlp.fc1", 4 * dim, dim), ("mlp.fc2", dim, 4 * dim)):
            p[b + n + ".weight"], p[b + n + ".bias"] = r(o, j), r(o)
    return p


if __name__ == "__main__":
    print(vit(random_params(), torch.randn(2, 3, 16, 16)).shape)
