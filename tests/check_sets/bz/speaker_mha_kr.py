"""화자 인식용 임베딩 추출기 (x-vector + self-attention).

프레임 특징 (B, T, F) 를 1D conv 로 인코딩하고, 한 발화 안의 프레임끼리 self-attention 을
적용한 뒤 평균/표준편차 통계 풀링으로 고정 길이 화자 벡터를 만든다.
발화는 배치 안에서 서로 독립이다.
"""
import torch
import torch.nn as nn


class TDNN(nn.Module):
    def __init__(self, in_ch, out_ch, kernel, dilation):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.conv = nn.Conv1d(in_ch, out_ch, kernel, dilation=dilation, padding=pad)
        self.norm = nn.LayerNorm(out_ch)

    def forward(self, x):                      # (B, T, C)
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(torch.relu(y))


class SpeakerEncoder(nn.Module):
    def __init__(self, n_mels=20, channels=32, n_heads=4, emb_dim=16):
        super().__init__()
        self.tdnn = nn.Sequential(
            TDNN(n_mels, channels, 5, 1),
            TDNN(channels, channels, 3, 2),
        )
        self.attn = nn.MultiheadAttention(channels, n_heads)
        self.norm = nn.LayerNorm(channels)
        self.fc = nn.Linear(2 * channels, emb_dim)

    def forward(self, feats):
        """feats: (B, T, n_mels) -> (B, emb_dim), L2 정규화된 화자 벡터"""
        h = self.tdnn(feats)
        ctx, _ = self.attn(h, h, h, need_weights=False)
        h = self.norm(h + ctx)
        mean = h.mean(dim=1)
        std = h.var(dim=1, unbiased=False).clamp(min=1e-6).sqrt()
        emb = self.fc(torch.cat([mean, std], dim=-1))
        return nn.functional.normalize(emb, dim=-1)


def cosine_score(enroll, test):
    """두 화자 벡터의 코사인 유사도"""
    return (enroll * test).sum(-1)


def verify(model, wav_feats_a, wav_feats_b, threshold=0.6):
    model.eval()
    with torch.no_grad():
        a, b = model(wav_feats_a), model(wav_feats_b)
    return cosine_score(a, b) > threshold


if __name__ == "__main__":
    enc = SpeakerEncoder()
    print(verify(enc, torch.randn(3, 50, 20), torch.randn(3, 50, 20)))
