# Irregular scene text recognition: "Show, Attend and Read" (Li et al., AAAI 2019).
# ResNet-ish backbone, LSTM encoder over the width, LSTM decoder with 2-D attention.
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
START, END, PADDING = len(ALPHABET), len(ALPHABET) + 1, len(ALPHABET) + 2
N_SYMBOLS = len(ALPHABET) + 3


def encode_word(word, max_len):
    ids = [ALPHABET.index(c) for c in word.lower() if c in ALPHABET][:max_len - 1]
    ids.append(END)
    return torch.tensor(ids + [PADDING] * (max_len - len(ids)))


def decode_word(ids):
    out = []
    for i in ids:
        if i == END:
            break
        if i < len(ALPHABET):
            out.append(ALPHABET[i])
    return "".join(out)


class Backbone(nn.Module):
    """[B, 3, 48, W] -> [B, C, 6, W/4]"""

    def __init__(self, c=128):
        super().__init__()
        def cbr(a, b, s):
            return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        self.net = nn.Sequential(cbr(3, c // 4, 2), cbr(c // 4, c // 2, 1), cbr(c // 2, c // 2, 2),
                                 cbr(c // 2, c, (2, 1)), cbr(c, c, 1))

    def forward(self, x):
        return self.net(x)


class GlimpseAttention2D(nn.Module):
    """Attention of the decoder state over all cells of the feature map, taking the 8
    neighbours of a cell into account (a 3x3 convolution instead of a 1x1):

        e_ij  = tanh( (W_v * V)_ij + W_h h ),   alpha = softmax over ALL (i, j) of w . e_ij
        glimpse = sum_ij alpha_ij v_ij

    Images of a batch have been padded on the right to one width; `valid_ratio` [B] is
    the fraction of the width that belongs to the image, columns beyond get no weight.
    """

    def __init__(self, c_feat, c_state, c_att):
        super().__init__()
        self.conv_feat = nn.Conv2d(c_feat, c_att, 3, padding=1)
        self.lin_state = nn.Linear(c_state, c_att, bias=False)
        self.lin_out = nn.Linear(c_att, 1)

    def project(self, feat):
        return self.conv_feat(feat)

    def forward(self, feat, feat_proj, state, valid_ratio=None):
        B, C, H, W = feat.shape
        e = torch.tanh(feat_proj + self.lin_state(state)[:, :, None, None])
        e = self.lin_out(e.permute(0, 2, 3, 1)).squeeze(-1)                 # [B, H, W]
        if valid_ratio is not None:
            width = torch.ceil(valid_ratio * W).clamp(1, W)
            outside = torch.arange(W, device=feat.device)[None, :] >= width[:, None]
            e = e.masked_fill(outside[:, None, :], float("-inf"))
        alpha = F.softmax(e.view(B, H * W), dim=1)
        glimpse = torch.bmm(feat.view(B, C, H * W), alpha.unsqueeze(2)).squeeze(2)
        return glimpse, alpha.view(B, H, W)


class SAR(nn.Module):
    def __init__(self, c=128, hidden=128, max_len=25):
        super().__init__()
        self.max_len = max_len
        self.backbone = Backbone(c)
        self.encoder = nn.LSTM(c, hidden, 2, batch_first=True)
        self.holistic = nn.Linear(hidden, hidden)
        self.embed = nn.Embedding(N_SYMBOLS, hidden)
        self.cells = nn.ModuleList([nn.LSTMCell(hidden, hidden), nn.LSTMCell(hidden, hidden)])
        self.attend = GlimpseAttention2D(c, hidden, 64)
        self.predict = nn.Linear(2 * hidden + c, N_SYMBOLS)

    def encode(self, feat, valid_ratio):
        cols = feat.max(dim=2).values.transpose(1, 2)                       # [B, W, C]
        out, _ = self.encoder(cols)
        if valid_ratio is None:
            last = out[:, -1]
        else:
            W = out.shape[1]
            at = (torch.ceil(valid_ratio * W).long() - 1).clamp(0, W - 1)
            last = out[torch.arange(len(out)), at]
        return self.holistic(last)

    def forward(self, images, words=None, valid_ratio=None):
        """words [B, max_len] for teacher forcing, None for greedy reading."""
        feat = self.backbone(images)
        proj = self.attend.project(feat)
        hol = self.encode(feat, valid_ratio)
        states = [(torch.zeros_like(hol), torch.zeros_like(hol)) for _ in self.cells]

        def tick(x):
            for n, cell in enumerate(self.cells):
                states[n] = cell(x, states[n])
                x = states[n][0]
            return x

        tick(hol)
        sym = torch.full((len(images),), START, device=images.device)
        logits = []
        for t in range(self.max_len):
            h = tick(self.embed(sym))
            g, _ = self.attend(feat, proj, h, valid_ratio)
            logits.append(self.predict(torch.cat([h, g, hol], dim=1)))
            sym = words[:, t] if words is not None else logits[-1].argmax(1)
        return torch.stack(logits, dim=1)


def sar_loss(logits, words):
    return F.cross_entropy(logits.flatten(0, 1), words.flatten(), ignore_index=PADDING)
