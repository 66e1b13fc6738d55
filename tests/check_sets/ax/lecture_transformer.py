# My implementation of the encoder from lecture 9 ("Attention is all you need").
# Everything in one class so I can see it on one page :)
#
# slide 31:  Attention(Q,K,V) = softmax(Q K^T / sqrt(d_k)) V     for EACH head, d_k = d_model / h
# slide 44:  PE(pos, 2i)   = sin(pos / 10000^(2i/d_model))
#            PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))
import math

import torch
import torch.nn as nn


class LectureTransformer(nn.Module):
    def __init__(self, vocab_size, num_classes, d_model=64, h=4, N=2, d_ff=256, max_len=200, dropout=0.1):
        super().__init__()
        assert d_model % h == 0, "d_model must be divisible by h"
        self.d_model, self.h, self.N = d_model, h, N
        self.d_k = d_model // h

        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=0)
        self.register_buffer("pe", self.make_pe(max_len, d_model))

        self.W_q = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(N)])
        self.W_k = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(N)])
        self.W_v = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(N)])
        self.W_o = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(N)])
        self.ff1 = nn.ModuleList([nn.Linear(d_model, d_ff) for _ in range(N)])
        self.ff2 = nn.ModuleList([nn.Linear(d_ff, d_model) for _ in range(N)])
        self.norm1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(N)])
        self.norm2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(N)])
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(d_model, num_classes)

    @staticmethod
    def make_pe(max_len, d_model):
        pe = torch.zeros(max_len, d_model)
        for pos in range(max_len):
            for i in range(0, d_model, 2):
                # i = 0, 2, 4, ... are the even dimensions
                pe[pos, i] = math.sin(pos / (10000 ** ((2 * i) / d_model)))
                pe[pos, i + 1] = math.cos(pos / (10000 ** ((2 * i) / d_model)))
        return pe

    def attention(self, x, layer, mask):
        # x: (batch, seq_len, d_model)   mask: (batch, 1, 1, seq_len), 0 = padding
        batch, seq_len, _ = x.shape

        # (batch, seq_len, d_model) --> (batch, seq_len, h, d_k) --> (batch, h, seq_len, d_k)
        query = self.W_q[layer](x).view(batch, seq_len, self.h, self.d_k).transpose(1, 2)
        key = self.W_k[layer](x).view(batch, seq_len, self.h, self.d_k).transpose(1, 2)
        value = self.W_v[layer](x).view(batch, seq_len, self.h, self.d_k).transpose(1, 2)

        scores = (query @ key.transpose(-2, -1)) / math.sqrt(self.d_model)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        scores = scores.softmax(dim=-1)
        scores = self.dropout(scores)

        # (batch, h, seq_len, d_k) --> (batch, seq_len, h, d_k) --> (batch, seq_len, d_model)
        out = (scores @ value).transpose(1, 2).contiguous().view(batch, seq_len, self.h * self.d_k)
        return self.W_o[layer](out)

    def encode(self, ids):
        mask = (ids != 0)[:, None, None, :]
        # slide 40: multiply the embedding with sqrt(d_model)
        x = self.embedding(ids) * math.sqrt(self.d_model)
        x = self.dropout(x + self.pe[: ids.shape[1]])
        for l in range(self.N):
            x = self.norm1[l](x + self.dropout(self.attention(x, l, mask)))
            ff = self.ff2[l](self.dropout(torch.relu(self.ff1[l](x))))
            x = self.norm2[l](x + self.dropout(ff))
        return x

    def forward(self, ids):
        x = self.encode(ids)
        keep = (ids != 0).unsqueeze(-1).float()
        mean = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.classifier(mean)


def train(model, loader, epochs=3, lr=1e-3, device="cpu"):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loss_fn = nn.CrossEntropyLoss()
    history = []
    for epoch in range(epochs):
        model.train()
        total, correct, n = 0.0, 0, 0
        for ids, labels in loader:
            ids, labels = ids.to(device), labels.to(device)
            optimizer.zero_grad()
            logits = model(ids)
            loss = loss_fn(logits, labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
            n += len(labels)
        history.append((total / n, correct / n))
        print(f"epoch {epoch}: loss {total / n:.4f} acc {correct / n:.3f}")
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    X = torch.randint(1, 50, (64, 20))
    y = (X[:, 0] > 25).long()
    train(LectureTransformer(50, 2), [(X[i:i + 16], y[i:i + 16]) for i in range(0, 64, 16)])
