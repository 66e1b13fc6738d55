"""Chorale harmoniser: soprano in, bass line out (JSB chorales, 16th grid)

Port of the Kyubyong-style multihead_attention from TF1: the heads are split
along the channels and stacked on the batch axis, so everything stays 3-D.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, REST, FIRST_PITCH = 0, 1, 2
hp = {
    "d_model": 64,
    "num_heads": 4,
    "num_blocks": 2,
    "dropout_rate": 0.1,
    "vocab": 60,
    "maxlen": 256,
}


class FoldedMultihead(nn.Module):
    """queries (N, T_q, C), keys (N, T_k, C), key_mask (N, T_k): 1 real, 0 pad."""

    def __init__(self, d_model, num_heads, dropout_rate=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.Q = nn.Linear(d_model, d_model)
        self.K = nn.Linear(d_model, d_model)
        self.V = nn.Linear(d_model, d_model)
        self.ln = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, queries, keys, key_mask=None):
        Q, K, V = self.Q(queries), self.K(keys), self.V(keys)

        # split and concat: (h*N, T, C/h)
        Q_ = torch.cat(Q.split(self.d_head, dim=2), dim=0)
        K_ = torch.cat(K.split(self.d_head, dim=2), dim=0)
        V_ = torch.cat(V.split(self.d_head, dim=2), dim=0)

        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / self.d_head ** 0.5

        if key_mask is not None:
            # one copy of the mask for every head
            m = key_mask.bool().repeat_interleave(self.num_heads, dim=0)
            outputs = outputs.masked_fill(~m[:, None, :], -2.0 ** 32 + 1)

        outputs = self.dropout(F.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)

        # restore shape: (N, T_q, C)
        outputs = torch.cat(outputs.chunk(self.num_heads, dim=0), dim=2)
        return self.ln(outputs + queries)


class FeedForward(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.c1 = nn.Conv1d(d_model, 4 * d_model, 1)
        self.c2 = nn.Conv1d(4 * d_model, d_model, 1)
        self.ln = nn.LayerNorm(d_model)

    def forward(self, x):
        y = self.c2(F.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)
        return self.ln(x + y)


class Harmoniser(nn.Module):
    def __init__(self, hp=hp):
        super().__init__()
        d = hp["d_model"]
        self.pitch = nn.Embedding(hp["vocab"], d, padding_idx=PAD)
        self.beat = nn.Embedding(16, d)
        self.att = nn.ModuleList([
            FoldedMultihead(d, hp["num_heads"], hp["dropout_rate"])
            for _ in range(hp["num_blocks"])])
        self.ff = nn.ModuleList([FeedForward(d) for _ in range(hp["num_blocks"])])
        self.out = nn.Linear(d, hp["vocab"])

    def forward(self, soprano):
        beat = torch.arange(soprano.size(1), device=soprano.device) % 16
        mask = soprano.ne(PAD)
        x = self.pitch(soprano) + self.beat(beat)
        for att, ff in zip(self.att, self.ff):
            x = ff(att(x, x, mask))
        return self.out(x)


if __name__ == "__main__":
    batch = torch.randint(REST, 60, (3, 32))
    batch[1, 20:] = PAD
    print(Harmoniser()(batch).argmax(-1)[0])
