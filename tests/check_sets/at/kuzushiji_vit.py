"""くずし字認識: 学習済み ViT (timm のチェックポイント) を辞書のまま動かす。

timm の `attn.qkv.weight` は [3*C, C] で、行の並びは q 全体、k 全体、v 全体
(つまり reshape すると (3, heads, head_dim)) である。
"""
import math
import torch
import torch.nn.functional as F


def 正規化(img, mean=0.5, std=0.5):
    return (img.float() / 255.0 - mean) / std


def patch_embed(img, W):
    w = W["patch_embed.proj.weight"]
    x = F.conv2d(img, w, W["patch_embed.proj.bias"], stride=w.shape[-1])
    x = x.flatten(2).transpose(1, 2)
    cls = W["cls_token"].expand(x.shape[0], -1, -1)
    return torch.cat([cls, x], 1) + W["pos_embed"]


def layer_norm(x, W, name):
    return F.layer_norm(x, x.shape[-1:], W[name + ".weight"], W[name + ".bias"], 1e-6)


def linear(x, W, name):
    return F.linear(x, W[name + ".weight"], W.get(name + ".bias"))


def 自己注意(x, W, name, heads):
    """x: [B, N, C]"""
    B, N, C = x.shape
    qkv = linear(x, W, name + ".qkv").reshape(B, N, heads, 3, C // heads)
    q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
    att = (q @ k.transpose(-2, -1)) / math.sqrt(C // heads)
    att = att.softmax(dim=-1)
    y = (att @ v).transpose(1, 2).reshape(B, N, C)
    return linear(y, W, name + ".proj")


def encoder_block(x, W, i, heads):
    p = f"blocks.{i}"
    x = x + 自己注意(layer_norm(x, W, p + ".norm1"), W, p + ".attn", heads)
    h = F.gelu(linear(layer_norm(x, W, p + ".norm2"), W, p + ".mlp.fc1"))
    return x + linear(h, W, p + ".mlp.fc2")


def 推論(img, W, depth, heads):
    x = patch_embed(正規化(img), W)
    for i in range(depth):
        x = encoder_block(x, W, i, heads)
    return linear(layer_norm(x, W, "norm")[:, 0], W, "head")


class Recognizer:
    def __init__(self, checkpoint, labels, heads=3):
        self.W = {k: v.float() for k, v in checkpoint.items()}
        self.labels = labels
        self.heads = heads
        self.depth = 1 + max(int(k.split(".")[1]) for k in self.W if k.startswith("blocks."))

    @torch.no_grad()
    def __call__(self, img, topk=5):
        p = 推論(img, self.W, self.depth, self.heads).softmax(-1)
        v, i = p.topk(min(topk, p.shape[-1]))
        return [[(self.labels[j], round(s, 4)) for j, s in zip(a.tolist(), b.tolist())] for a, b in zip(i, v)]


def 前処理(page, boxes, size=64):
    """ページ画像 [1, H, W] から文字を切り出す。"""
    crops = []
    for x, y, w, h in boxes:
        c = page[None, :, y:y + h, x:x + w].float()
        crops.append(F.interpolate(c, (size, size), mode="bilinear", align_corners=False))
    return torch.cat(crops)
