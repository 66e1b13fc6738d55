"""Fuses question words with image regions and predicts an answer class."""
import torch
import torch.nn as nn
import torch.nn.functional as F

HP = dict(d=32, heads=4, words=100, region=20, answers=12, depth=2, drop=0.1)


class FusionLayer(nn.Module):
    def __init__(self, hp):
        super().__init__()
        d = hp["d"]
        self.attn = nn.MultiheadAttention(d, hp["heads"], dropout=hp["drop"])
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 4 * d)
        self.fc2 = nn.Linear(4 * d, d)

    def forward(self, tokens):
        y = self.ln1(tokens)
        tokens = tokens + self.attn(y, y, y, need_weights=False)[0]
        return tokens + self.fc2(F.gelu(self.fc1(self.ln2(tokens))))


class VQA(nn.Module):
    def __init__(self, hp=HP):
        super().__init__()
        d = hp["d"]
        self.word = nn.Embedding(hp["words"], d)
        self.order = nn.Parameter(torch.randn(1, 32, d) * 0.02)
        self.region = nn.Linear(hp["region"] + 4, d)
        self.kind = nn.Embedding(2, d)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.layers = nn.ModuleList([FusionLayer(hp) for _ in range(hp["depth"])])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, hp["answers"])

    def forward(self, question, regions, boxes):
        """
        question: (batch, words) ids
        regions:  (batch, n, region)
        boxes:    (batch, n, 4) normalised corners
        """
        q = self.word(question) + self.order[:, : question.size(1)] + self.kind.weight[0]
        r = self.region(torch.cat([regions, boxes], dim=-1)) + self.kind.weight[1]
        h = torch.cat([self.cls.expand(q.size(0), -1, -1), q, r], dim=1)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h[:, 0]))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = VQA().eval()
    print(net(torch.randint(0, 100, (3, 6)), torch.randn(3, 9, 20), torch.rand(3, 9, 4)).softmax(-1))
