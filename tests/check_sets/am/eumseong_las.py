"""한국어 음성 인식: Listen, Attend and Spell + 위치 인식(location-aware) 어텐션."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class 피라미드인코더(nn.Module):
    """층마다 시간 축을 반으로 줄인다"""

    def __init__(self, 입력, 은닉, 층수=2):
        super().__init__()
        self.층 = nn.ModuleList()
        for i in range(층수):
            self.층.append(nn.LSTM((입력 if i == 0 else 2 * 은닉) * 2, 은닉, bidirectional=True, batch_first=True))

    def forward(self, x, 길이):
        for rnn in self.층:
            b, t, c = x.shape
            x = x[:, : t // 2 * 2].reshape(b, t // 2, 2 * c)
            길이 = 길이 // 2
            x, _ = rnn(x)
        return x, 길이


class LocationAwareAttention(nn.Module):
    """e_ij = w^T tanh(W s_i + V h_j + U f_ij + b),  f_i = F * a_(i-1)   (Chorowski et al. 2015)"""

    def __init__(self, dec_dim, enc_dim, attn_dim, filters=10, kernel=15):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim)
        self.V = nn.Linear(enc_dim, attn_dim, bias=False)
        self.U = nn.Linear(filters, attn_dim, bias=False)
        self.conv = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.w = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, s, h, prev, 길이):
        """s (B, D), h (B, T, E), prev (B, T) 이전 정렬, 길이 (B,) 실제 프레임 수"""
        f = self.U(self.conv(prev.unsqueeze(1)).transpose(1, 2))
        e = self.w(torch.tanh(self.W(s).unsqueeze(1) + self.V(h) + f)).squeeze(-1)
        패딩 = torch.arange(h.size(1), device=h.device)[None, :] >= 길이[:, None]
        e = e.masked_fill(패딩, float("-inf"))
        a = F.softmax(e, dim=-1)
        return torch.einsum("bt,bte->be", a, h), a

    @staticmethod
    def 초기정렬(h, 길이):
        ok = (torch.arange(h.size(1), device=h.device)[None] < 길이[:, None]).to(h.dtype)
        return ok / ok.sum(1, keepdim=True)


class 철자기(nn.Module):
    def __init__(self, 어휘, 은닉=64, enc_dim=128, attn_dim=48):
        super().__init__()
        self.emb = nn.Embedding(어휘, 은닉)
        self.cell = nn.LSTMCell(은닉 + enc_dim, 은닉)
        self.attn = LocationAwareAttention(은닉, enc_dim, attn_dim)
        self.out = nn.Linear(은닉 + enc_dim, 어휘)

    def forward(self, y, h, 길이):
        B, E = h.size(0), h.size(2)
        상태 = (h.new_zeros(B, self.cell.hidden_size), h.new_zeros(B, self.cell.hidden_size))
        문맥 = h.new_zeros(B, E)
        정렬 = self.attn.초기정렬(h, 길이)
        logits, 정렬들 = [], []
        for t in range(y.size(1)):
            상태 = self.cell(torch.cat([self.emb(y[:, t]), 문맥], -1), 상태)
            문맥, 정렬 = self.attn(상태[0], h, 정렬, 길이)
            logits.append(self.out(torch.cat([상태[0], 문맥], -1)))
            정렬들.append(정렬)
        return torch.stack(logits, 1), torch.stack(정렬들, 1)


class LAS(nn.Module):
    def __init__(self, mel=40, 어휘=70, 은닉=64):
        super().__init__()
        self.listen = 피라미드인코더(mel, 은닉)
        self.spell = 철자기(어휘, 은닉, 2 * 은닉)

    def forward(self, x, 길이, y):
        h, 길이 = self.listen(x, 길이)
        return self.spell(y, h, 길이)
