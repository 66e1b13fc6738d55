// Which weights dropout drops: Philox-4×32-10, a generator without state (Salmon et al. 2011).
// Word s mod 4 of the counter (s div 4, t, h, b) decides about a cell, forward and backward, in whatever order.
#pragma once
#include "tile.h"

namespace overt::OVERT_LEVEL {

typedef std::uint64_t Longs __attribute__((vector_size(kBytes)));
constexpr int kWords = kBytes / 4;

// Products of the lower halves of 64-bit lanes.
OVERT_INLINE Longs multiply_halves(Longs x, std::uint32_t factor) {
#if defined(__AVX512F__)
  return (Longs)_mm512_maskz_mul_epu32(0xff, (__m512i)x, _mm512_set1_epi64(factor));
#elif defined(__AVX2__)
  return (Longs)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(factor));
#else
  return (x & 0xffffffff) * factor;
#endif
}

OVERT_INLINE void multiply_wide(Words x, std::uint32_t factor, Words* high, Words* low) {
  const std::uint64_t lower = 0xffffffff;
  Longs even = multiply_halves((Longs)x, factor), odd = multiply_halves((Longs)x >> 32, factor);
  *low = (Words)((even & lower) | odd << 32);
  *high = (Words)(even >> 32 | (odd & ~lower));
}

// Four random words for each counter, in its place.
OVERT_INLINE void philox(Words* counter, std::uint64_t seed) {
  std::uint32_t key[2] = {std::uint32_t(seed), std::uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    Words high[2], low[2];
    multiply_wide(counter[0], 0xD2511F53, &high[0], &low[0]);
    multiply_wide(counter[2], 0xCD9E8D57, &high[1], &low[1]);
    counter[0] = high[1] ^ counter[1] ^ key[0];
    counter[1] = low[1];
    counter[2] = high[0] ^ counter[3] ^ key[1];
    counter[3] = low[0];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

// a₀ b₀ a₁ b₁ … of the lower or upper halves.
template <int from, int... I> OVERT_INLINE Words zip(Words a, Words b, Order<I...>) {
  return __builtin_shufflevector(a, b, (from + I / 2 + I % 2 * kWords)...);
}

// What dropout needs to know of a call.
template <class Acc> struct Dropping {
  const Problem& p;
  std::uint32_t threshold;
  Acc scale;

  explicit Dropping(const Problem& p)
      : p(p), threshold(std::uint32_t(p.dropout * 0x1p32)), scale(Acc(1 / (1 - p.dropout))) {}

  // Row `place` of a (B, H, T) array as the generator knows it.
  std::uint32_t query(Index place) const { return std::uint32_t(place % p.T + p.first_query); }
  std::uint32_t head(Index place) const { return std::uint32_t(place / p.T % p.H + p.first_head); }
  std::uint32_t batch(Index place) const { return std::uint32_t(place / p.T / p.H + p.first_batch); }

  // 1 or 0 for each word.
  OVERT_INLINE void keep(Words drawn, std::int32_t* kept) const {
    auto bits = (drawn >= threshold) & 1;
    __builtin_memcpy(kept, &bits, kBytes);
  }

  // Weights of a row, keys [begin, begin + width).
  void drop(Index place, int begin, int width, Acc* row) const {
    using All = typename Count<kWords>::Order;
    Words lane;
    for (int i = 0; i < kWords; ++i) lane[i] = i;
    // Words come in fours of keys of the whole, of which the first four may have begun before this part.
    const Index key = begin + p.first_key;
    for (int s = -int(key % 4); s < width; s += 4 * kWords) {
      Words word[4] = {std::uint32_t((key + s) / 4) + lane, query(place) - Words{}, head(place) - Words{},
                       batch(place) - Words{}};
      philox(word, p.seed);
      Words low02 = zip<0>(word[0], word[2], All{}), high02 = zip<kWords / 2>(word[0], word[2], All{});
      Words low13 = zip<0>(word[1], word[3], All{}), high13 = zip<kWords / 2>(word[1], word[3], All{});
      Words in_order[4] = {zip<0>(low02, low13, All{}), zip<kWords / 2>(low02, low13, All{}),
                           zip<0>(high02, high13, All{}), zip<kWords / 2>(high02, high13, All{})};
      alignas(64) std::int32_t kept[4 * kWords];
      for (int i = 0; i < 4; ++i) keep(in_order[i], kept + i * kWords);
      int some = smaller(4 * kWords, width - s);
      for (int i = larger(0, -s); i < some; ++i) row[s + i] *= scale * Acc(kept[i]);
    }
  }

  // Factors 0 or 1 / (1 − rate): a row for each key [begin, end), a column for each of kWords queries.
  void factors(int begin, int end, Words queries, Words heads, Words batches, Acc* out, Index stride) const {
    const Index first = begin + p.first_key, last = end + p.first_key;
    for (Index four = first / 4 * 4; four < last; four += 4) {
      Words word[4] = {std::uint32_t(four / 4) - Words{}, queries, heads, batches};
      philox(word, p.seed);
      for (Index s = larger(four, first); s < smaller(four + 4, last); ++s) {
        alignas(64) std::int32_t kept[kWords];
        keep(word[s - four], kept);
        for (int i = 0; i < kWords; ++i) out[(s - first) * stride + i] = scale * Acc(kept[i]);
      }
    }
  }
};

}  // namespace overt::OVERT_LEVEL
