"""Tea leaf disease classifier for the tablet app (MLP-Mixer, small)."""
import torch
import torch.nn as nn

CLASSES = ["healthy", "blister blight", "red rust", "brown blight", "grey blight", "algal spot"]


class Mlp(nn.Module):
    def __init__(self, n, hidden, p=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(n, hidden), nn.Linear(hidden, n)
        self.act, self.drop = nn.GELU(), nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class MixerBlock(nn.Module):
    """Mixes along the patches with one MLP, then along the channels with another."""

    def __init__(self, tokens, dim, token_hidden, channel_hidden, p=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mix = Mlp(tokens, token_hidden, p)
        self.channel_mix = Mlp(dim, channel_hidden, p)

    def forward(self, x):
        """x (B, tokens, dim)"""
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token_mix(y).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class TeaMixer(nn.Module):
    def __init__(self, image=128, patch=16, dim=96, depth=4, classes=len(CLASSES), p=0.1):
        super().__init__()
        if image % patch:
            raise ValueError("image size must be a multiple of the patch size")
        n = (image // patch) ** 2
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(*[MixerBlock(n, dim, dim // 2, dim * 4, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


@torch.no_grad()
def diagnose(model, img, threshold=0.6):
    """img (3, H, W) in [0, 1]"""
    model.eval()
    p = model((img[None] - 0.5) / 0.25).softmax(-1)[0]
    i = int(p.argmax())
    return (CLASSES[i], float(p[i])) if p[i] >= threshold else ("unsure", float(p[i]))
