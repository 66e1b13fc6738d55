# CS 287 HW4  --  fingerspelling video -> letters
# Part (b): encoder LSTM over hand keypoints, decoder GRU with Bahdanau attention.
# At each step we score the encoder states against the decoder state, softmax, and take
# the weighted sum of the encoder states.
import random
import string
import torch
import torch.nn as nn
import torch.nn.functional as F

LETTERS = string.ascii_lowercase
SOS = 26
EOS = 27
VOCAB = 28
MAX_FRAMES = 40


class Encoder(nn.Module):
    def __init__(self, in_size=42, hid=32):
        super(Encoder, self).__init__()
        self.lstm = nn.LSTM(in_size, hid // 2, batch_first=True, bidirectional=True)

    def forward(self, frames):
        out, _ = self.lstm(frames)
        return out                                  # (B, T, hid)


class AttnDecoder(nn.Module):
    def __init__(self, hid=32, max_frames=MAX_FRAMES):
        super(AttnDecoder, self).__init__()
        self.hid = hid
        self.emb = nn.Embedding(VOCAB, hid)
        self.W = nn.Linear(hid * 2, hid)
        self.v = nn.Linear(hid, max_frames)
        self.gru = nn.GRUCell(hid * 2, hid)
        self.out = nn.Linear(hid, VOCAB)

    def attend(self, state, letter, enc_out, n_frames):
        T = enc_out.size(1)
        energy = torch.tanh(self.W(torch.cat((state, letter), dim=1)))
        scores = self.v(energy)[:, :T]                            # (B, T)
        steps = torch.arange(T)
        scores = scores.masked_fill(steps[None, :] >= n_frames[:, None], -1e9)
        weights = F.softmax(scores, dim=1)
        context = torch.bmm(weights.unsqueeze(1), enc_out).squeeze(1)
        return context, weights

    def forward(self, enc_out, n_frames, targets=None, max_len=12, teacher=0.5):
        """enc_out (B, T, hid), n_frames (B,) true number of frames, targets (B, L) or None.
        Returns logits (B, L, VOCAB) and attention weights (B, L, T)."""
        B = enc_out.size(0)
        L = max_len if targets is None else targets.size(1)
        state = enc_out.new_zeros(B, self.hid)
        tok = torch.full((B,), SOS, dtype=torch.long)
        logits, attns = [], []
        for t in range(L):
            letter = self.emb(tok)
            context, weights = self.attend(state, letter, enc_out, n_frames)
            state = self.gru(torch.cat((letter, context), dim=1), state)
            o = self.out(state)
            logits.append(o)
            attns.append(weights)
            if targets is not None and random.random() < teacher:
                tok = targets[:, t]
            else:
                tok = o.argmax(dim=1)
        return torch.stack(logits, dim=1), torch.stack(attns, dim=1)


def decode_letters(ids):
    s = ""
    for i in ids.tolist():
        if i == EOS:
            break
        if i < 26:
            s += LETTERS[i]
    return s


def train_step(enc, dec, opt, frames, n_frames, targets):
    enc.train()
    dec.train()
    logits, _ = dec(enc(frames), n_frames, targets)
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(enc.parameters()) + list(dec.parameters()), 1.0)
    opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(287)
    enc, dec = Encoder(), AttnDecoder()
    opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=1e-2)
    frames = torch.randn(4, 30, 42)
    n = torch.tensor([30, 22, 25, 28])
    y = torch.randint(0, 26, (4, 6))
    for step in range(5):
        print(step, train_step(enc, dec, opt, frames, n, y))
    with torch.no_grad():
        lg, at = dec(enc(frames), n)
    print([decode_letters(r) for r in lg.argmax(-1)], at.shape)
