"""翻訳モデル講座 第5回: Luong 注意 (dot 版)。

    score(h, s_j) = h・s_j
    a = softmax_j(score)   ... パディングの単語の重みは 0
    c = sum_j a_j s_j
    h~ = tanh(Wc [c ; h])  ... これを「注意ベクトル」と呼び、次の単語の予測に使う
"""
import torch
import torch.nn as nn


class LuongDecoder(nn.Module):
    """教師強制つきのデコーダ。

    ids    (B, T)     正解の単語 (一つずらしたもの)
    enc    (B, S, n)  エンコーダの出力 s_j
    mask   (B, S)     1 = 本物の単語、0 = パディング (float)。各文に 1 が一つ以上
    state  (h, c)     LSTM の初期状態、それぞれ (1, B, n)
    戻り値 (logits (B, T, vocab), h~ (B, T, n), 重み (B, T, S))
    重みは各行の和が 1 で、パディングのところは 0。h~ は上の式のとおり。
    """

    def __init__(self, vocab, e=12, n=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, e)
        self.lstm = nn.LSTM(e, n, batch_first=True)
        self.Wc = nn.Linear(2 * n, n, bias=False)
        self.out = nn.Linear(n, vocab)

    def forward(self, ids, enc, mask, state):
        # 1. 単語を埋め込み、LSTM に通す
        h, _ = self.lstm(self.emb(ids), state)               # (B, T, n)

        # 2. すべての組の内積
        score = torch.bmm(h, enc.transpose(1, 2))            # (B, T, S)

        # 3. パディングを消して正規化
        score = score * mask.unsqueeze(1)
        a = torch.softmax(score, dim=2)

        # 4. 文脈ベクトルと注意ベクトル
        c = torch.bmm(a, enc)
        h_tilde = self.Wc(torch.cat([c, h], dim=2))

        # 5. 予測
        return self.out(h_tilde), h_tilde, a
