import torch
import torch.nn as nn

# Video captioning: words query frame features. Frames are padded per clip.


def lengths_to_mask(lengths, max_len):
    """True at padded frames."""
    return torch.arange(max_len, device=lengths.device)[None] >= lengths[:, None]


class FrameAttention(nn.Module):
    """words (B, L, d_word) attend to frames (B, F, d_frame).
    frame_pad (B, F): True = padding, ignored."""

    def __init__(self, d_word, d_frame, d_model=32, n_head=4):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.w_q = nn.Linear(d_word, d_model)
        self.w_k = nn.Linear(d_frame, d_model)
        self.w_v = nn.Linear(d_frame, d_model)
        self.fc = nn.Linear(d_model, d_word)
        self.norm = nn.LayerNorm(d_word)

    def fold(self, x):
        b, l, _ = x.shape
        x = x.view(b, l, self.n_head, self.d_k)
        return x.permute(2, 0, 1, 3).contiguous().view(-1, l, self.d_k)  # (n*b) x l x dk

    def forward(self, words, frames, frame_pad=None):
        b, l, _ = words.shape
        q, k, v = self.fold(self.w_q(words)), self.fold(self.w_k(frames)), self.fold(self.w_v(frames))
        scores = torch.bmm(q, k.transpose(1, 2)) / self.d_k ** 0.5
        if frame_pad is not None:
            mask = frame_pad.unsqueeze(1).expand(-1, l, -1)
            mask = mask.repeat_interleave(self.n_head, dim=0)
            scores = scores.masked_fill(mask, float('-inf'))
        attn = torch.softmax(scores, dim=2)
        out = torch.bmm(attn, v).view(self.n_head, b, l, self.d_k)
        out = out.permute(1, 2, 0, 3).contiguous().view(b, l, -1)
        return self.norm(words + self.fc(out))


class CaptionHead(nn.Module):
    def __init__(self, vocab=100, d_word=24, d_frame=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_word)
        self.rnn = nn.GRU(d_word, d_word, batch_first=True)
        self.att = FrameAttention(d_word, d_frame)
        self.out = nn.Linear(d_word, vocab)

    def forward(self, tokens, frames, n_frames):
        h, _ = self.rnn(self.emb(tokens))
        return self.out(self.att(h, frames, lengths_to_mask(n_frames, frames.size(1))))


if __name__ == '__main__':
    net = CaptionHead()
    print(net(torch.randint(0, 100, (3, 6)), torch.randn(3, 9, 40), torch.tensor([9, 4, 2])).shape)
