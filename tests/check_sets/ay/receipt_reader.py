"""Key information extraction from receipts: token labels (B-TOTAL, I-DATE, ...) from
words and their boxes. OCR output comes as words with [x0, y0, x1, y1] in 0..1000.
"""
import torch
from torch import nn
import torch.nn.functional as F

LABELS = ["O", "B-SHOP", "I-SHOP", "B-DATE", "I-DATE", "B-TOTAL", "I-TOTAL", "B-ITEM", "I-ITEM"]


def reading_order(boxes, line_tol=12):
    """Sort boxes line by line, left to right. boxes: list of [x0, y0, x1, y1]."""
    idx = sorted(range(len(boxes)), key=lambda i: boxes[i][1])
    lines, last = [], None
    for i in idx:
        if last is None or boxes[i][1] - last > line_tol:
            lines.append([])
            last = boxes[i][1]
        lines[-1].append(i)
    return [i for ln in lines for i in sorted(ln, key=lambda i: boxes[i][0])]


class BoxEmbedding(nn.Module):
    def __init__(self, dim, size=1001):
        super().__init__()
        self.x = nn.Embedding(size, dim)
        self.y = nn.Embedding(size, dim)
        self.h = nn.Embedding(size, dim)
        self.w = nn.Embedding(size, dim)

    def forward(self, box):
        x0, y0, x1, y1 = box.unbind(-1)
        return (self.x(x0) + self.y(y0) + self.x(x1) + self.y(y1)
                + self.h((y1 - y0).clamp(min=0)) + self.w((x1 - x0).clamp(min=0)))


class ReceiptSelfAttention(nn.Module):
    def __init__(self, dim, n_head, p=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_head = dim // n_head
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.p = p

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.n_head, self.d_head).transpose(1, 2)

    def forward(self, hidden, attention_mask):
        """
        hidden:         [batch, words, dim]
        attention_mask: [batch, words], 1 for words of the receipt, 0 for padding.
                        Padding words get no attention.
        """
        q = self.split(self.query(hidden))
        k = self.split(self.key(hidden))
        v = self.split(self.value(hidden))

        scores = torch.matmul(q, k.transpose(-1, -2)) / self.d_head ** 0.5
        scores = scores + attention_mask[:, None, None, :].to(scores.dtype)
        weights = F.dropout(scores.softmax(dim=-1), self.p, self.training)

        context = torch.matmul(weights, v).contiguous()
        context = context.view(hidden.size(0), hidden.size(1), -1)
        return self.out(context)


class ReceiptLayer(nn.Module):
    def __init__(self, dim, n_head):
        super().__init__()
        self.attn = ReceiptSelfAttention(dim, n_head)
        self.ln1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(0.1))
        self.ln2 = nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = self.ln1(x + self.attn(x, mask))
        return self.ln2(x + self.ff(x))


class ReceiptReader(nn.Module):
    def __init__(self, vocab, dim=128, n_head=4, layers=4, max_words=512):
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(max_words, dim)
        self.box = BoxEmbedding(dim)
        self.ln = nn.LayerNorm(dim)
        self.layers = nn.ModuleList([ReceiptLayer(dim, n_head) for _ in range(layers)])
        self.tag = nn.Linear(dim, len(LABELS))

    def forward(self, words, boxes, labels=None):
        mask = (words != 0).long()
        x = self.ln(self.word(words) + self.pos.weight[: words.size(1)] + self.box(boxes))
        for layer in self.layers:
            x = layer(x, mask)
        logits = self.tag(x)
        if labels is None:
            return logits
        active = mask.bool()
        return F.cross_entropy(logits[active], labels[active]), logits


def spans(tags):
    """BIO tags -> [(label, start, end)]"""
    found, start, name = [], None, None
    for i, t in enumerate(list(tags) + ["O"]):
        if start is not None and t != "I-" + name:
            found.append((name, start, i))
            start = None
        if t.startswith("B-"):
            start, name = i, t[2:]
    return found
