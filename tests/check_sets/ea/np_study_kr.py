"""넘파이로 만드는 멀티 헤드 셀프 어텐션 (스터디 3주차)

입력
    X      : (문장 길이 T, 차원 D) 한 문장
    W      : dict, 'q','k','v'는 (헤드 수, D, d), 'o'는 (헤드 수 * d, D)
    length : 실제 단어 개수 (1 이상 T 이하). length 뒤는 패딩이라서 보지 않는다.

출력
    Y      : (T, D)
    A      : (헤드 수, T, T), A[h, i, j] = i번째 단어가 j번째 단어를 보는 비율 (행의 합 = 1)

식: softmax(Q K^T / sqrt(d)) V, d는 헤드 하나의 차원.
패딩 위치의 출력 행은 의미가 없으니 쓰지 마세요.
"""
import numpy as np


def softmax_row(z):
    z = z - np.max(z)
    e = np.exp(z)
    return e / e.sum()


def self_attention(X, W, length):
    T = X.shape[0]
    H, _, d = W['q'].shape
    A = np.zeros((H, T, T))
    heads = []
    for h in range(H):
        Q = X @ W['q'][h]
        K = X @ W['k'][h]
        V = X @ W['v'][h]
        Z = np.zeros((T, d))
        for i in range(T):                      # 쿼리 하나씩
            s = np.array([Q[i] @ K[j] for j in range(length)]) / np.sqrt(d)
            A[h, i, :length] = softmax_row(s)   # 나머지는 0으로 남는다
            Z[i] = A[h, i] @ V
        heads.append(Z)
    return np.concatenate(heads, axis=-1) @ W['o'], A


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    D, H = 12, 3
    W = {n: rng.normal(size=(H, D, D // H)) * 0.3 for n in 'qkv'}
    W['o'] = rng.normal(size=(D, D)) * 0.3
    Y, A = self_attention(rng.normal(size=(6, D)), W, 4)
    print(Y.shape, A.sum(-1))
