import argparse

import numpy as np
import torch


class PointWise(torch.nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.conv1 = torch.nn.Conv1d(d, d, kernel_size=1)
        self.conv2 = torch.nn.Conv1d(d, d, kernel_size=1)
        self.drop = torch.nn.Dropout(p)

    def forward(self, x):
        h = self.drop(torch.relu(self.conv1(x.transpose(1, 2))))
        return x + self.drop(self.conv2(h)).transpose(1, 2)


class NextItem(torch.nn.Module):
    def __init__(self, n_items, args):
        super().__init__()
        d = args.hidden
        self.items = torch.nn.Embedding(n_items + 1, d, padding_idx=0)
        self.places = torch.nn.Embedding(args.maxlen, d)
        self.drop = torch.nn.Dropout(args.dropout)
        self.ln_q = torch.nn.ModuleList([torch.nn.LayerNorm(d) for _ in range(args.blocks)])
        self.mha = torch.nn.ModuleList(
            [torch.nn.MultiheadAttention(d, args.heads, args.dropout) for _ in range(args.blocks)]
        )
        self.ln_f = torch.nn.ModuleList([torch.nn.LayerNorm(d) for _ in range(args.blocks)])
        self.ffn = torch.nn.ModuleList([PointWise(d, args.dropout) for _ in range(args.blocks)])
        self.last = torch.nn.LayerNorm(d)

    def encode(self, log):
        h = self.items(log) * self.items.embedding_dim ** 0.5
        h = self.drop(h + self.places(torch.arange(log.shape[1], device=log.device)))
        pad = (log == 0).unsqueeze(-1)
        h = h.masked_fill(pad, 0)
        n = log.shape[1]
        future = ~torch.tril(torch.ones((n, n), dtype=torch.bool, device=log.device))
        for ln_q, mha, ln_f, ffn in zip(self.ln_q, self.mha, self.ln_f, self.ffn):
            h = torch.transpose(h, 0, 1)
            q = ln_q(h)
            o, _ = mha(q, h, h, attn_mask=future)
            h = torch.transpose(q + o, 0, 1)
            h = ffn(ln_f(h)).masked_fill(pad, 0)
        return self.last(h)

    def forward(self, log):
        """log: LongTensor (users, maxlen), 0 pads on the left -> scores of every item after each step"""
        return self.encode(log) @ self.items.weight.t()


def parse(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--maxlen", type=int, default=12)
    ap.add_argument("--blocks", type=int, default=2)
    ap.add_argument("--heads", type=int, default=2)
    ap.add_argument("--dropout", type=float, default=0.2)
    return ap.parse_args(argv)


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = NextItem(50, parse([])).eval()
    log = torch.from_numpy(rng.integers(1, 51, (4, 12)))
    log[1, :5] = 0
    print(model(log)[:, -1].topk(5).indices)
