// Products of float32 and of half types on tiles of bfloat16: each number is split into terms of 8 bits,
// a = a₀ + a₁ + a₂, and a · b is the sum of the aᵢ bⱼ with i + j < terms.  Three terms are all of a float32, so that only
// products below 2⁻²⁴ of the whole are left out (2⁻²² where weights meet values); two are all of a float16, and a bfloat16
// is its own one.
#pragma once
#include "amx.h"
#include "pack.h"

namespace overt::OVERT_LEVEL {

template <class In> constexpr int kTerms = 3;
template <> constexpr int kTerms<Float16> = 2;
template <> constexpr int kTerms<BFloat16> = 1;

inline int terms(Type type) { return type == Type::float32 ? 3 : type == Type::float16 ? 2 : 1; }

// A tile holds 32 numbers of a row, as 16 words of two.
constexpr int kDeep = 32;

// Beyond this size a sum of products could overflow before it is scaled; infinities and NaN would spread to where they do
// not belong.  Such numbers are packed as 0, noted, and dealt with one by one.  Not so in queries and keys of one term:
// there each spoils its own scores, as it should, and nothing overflows below 2⁶⁰ or so.
constexpr int kTameExponent = 54;
constexpr float kTame = 0x1p54f;
OVERT_INLINE Lane<float> tamed(Lane<float> x) {
  return (Lane<float>)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)((Words)x & 0x7fffffffu), (__m512)all(kTame), _CMP_LE_OQ),
                                          (__m512)x);
}

// The nearest bfloat16, as a float.  Of two that are as near it is the larger one: what is left over is exact anyway.
OVERT_INLINE Lane<float> leading(Lane<float> x) { return (Lane<float>)(((Words)x + 0x8000u) & 0xffff0000u); }
// The same, nearer to 0: cheaper, and what is left over has one sign.
OVERT_INLINE Lane<float> truncated(Lane<float> x) { return (Lane<float>)((Words)x & 0xffff0000u); }
// Two vectors of bfloat16 as words: first[i] below second[i].
OVERT_INLINE Words paired(Lane<float> first, Lane<float> second) { return (Words)first >> 16 | (Words)second; }

OVERT_INLINE void store_words(void* to, Words x) { __builtin_memcpy(to, &x, kTileBytes); }

// Terms of pairs of numbers, each word of term i to words[i].
template <int N> OVERT_INLINE void split(Lane<float> first, Lane<float> second, Words* words) {
  OVERT_UNROLL
  for (int i = 0; i < N; ++i) {
    // What is left for the last term has no more than its 8 bits, unless it is subnormal.
    Lane<float> a = i + 1 < N ? leading(first) : first, b = i + 1 < N ? leading(second) : truncated(second);
    words[i] = paired(a, b);
    first -= a, second -= b;
  }
}

// Floats that a group of queries takes, and each of the keys and values of a panel, whose last word notes the odd ones.
inline Index packed_queries(int terms, Index D) { return terms * kRows * round_up(D, kDeep) / 2; }
inline Index packed_keys(int terms, Index D) { return terms * round_up(D, kDeep) / 2 + 1; }
inline Index packed_values(int terms, Index E) { return terms * round_up(E, kTileRows) / 2 + 1; }
OVERT_INLINE std::uint32_t odd_keys(const float* panel, Index size) {
  std::uint32_t odd;
  __builtin_memcpy(&odd, panel + kPanel<float> * size - 1, sizeof odd);
  return odd;
}
OVERT_INLINE void note_odd_keys(float* panel, Index size, std::uint32_t odd) {
  __builtin_memcpy(panel + kPanel<float> * size - 1, &odd, sizeof odd);
}

// The 32 numbers from d on of a row of bfloat16, words of neighbours.
OVERT_INLINE Words load_neighbours(const BFloat16* row, Index count) {
  return (Words)_mm512_maskz_loadu_epi16(count >= kDeep ? ~0u : (1u << count) - 1, row);
}

// The sizes of the numbers of a row of D times a factor, folded into one vector by the largest; NaN is the largest of all.
template <class In> OVERT_INLINE __m512i sizes(const In* row, Index D, float factor) {
  __m512i most = {};
  for (Index d = 0; d < D; d += kLanes<float>)
    most = _mm512_maskz_max_epu32(0xffff, most, (__m512i)((Words)(load_some(row + d, D - d) * factor) & 0x7fffffffu));
  return most;
}
template <> OVERT_INLINE __m512i sizes(const BFloat16* row, Index D, float) {
  __m512i most = {};
  for (Index d = 0; d < D; d += kDeep)
    most = _mm512_maskz_max_epu16(~0u, most, (__m512i)(load_neighbours(row + d, D - d) & 0x7fff7fffu));
  return _mm512_maskz_max_epu32(0xffff, (__m512i)((Words)most << 16), most);
}
// One bit for each of `count` rows of D that holds a number which is not tame.
template <class In, class Row> OVERT_INLINE std::uint32_t odd_rows(Row row, Index count, Index D, float factor = 1) {
  auto wild = [](__m512i most) {
    return _mm512_cmpgt_epu32_mask(most, _mm512_set1_epi32((127 + kTameExponent) << 23)) != 0;
  };
  __m512i most = {};
  for (Index i = 0; i < count; ++i) most = _mm512_maskz_max_epu32(0xffff, most, sizes(row(i), D, factor));
  if (!wild(most)) return 0;
  std::uint32_t odd = 0;
  for (Index i = 0; i < count; ++i) odd |= std::uint32_t(wild(sizes(row(i), D, factor))) << i;
  return odd;
}

// Queries [term][rows / 16][D / 32] tiles, rows down: words of a number and the 16th after it or, where there is nothing
// to split, of neighbours.  The factor goes into them if they do not get longer from it.
template <class In>
std::uint32_t pack_query_tiles(const In* const* rows, int count, int size, Index D, float factor, float* out) {
  constexpr int N = kTerms<In>;
  const Index chunks = ceil_div(D, kDeep), term = size / kTileRows * chunks * kTileSize;
  if (N < 3) factor = 1;
  std::uint32_t odd = N == 1 ? 0 : odd_rows<In>([&](Index i) { return rows[i]; }, count, D, factor);
  for (int r = 0; r < size; ++r)
    for (Index c = 0; c < chunks; ++c) {
      char* to = reinterpret_cast<char*>(out) + (r / kTileRows * chunks + c) * kTileSize + r % kTileRows * kTileBytes;
      Words words[N] = {};
      if (r < count) {
        const In* row = rows[r] + c * kDeep;
        Index left = D - c * kDeep;
        if constexpr (N == 1) {
          words[0] = load_neighbours(row, left);
        } else {
          Lane<float> x = load_some(row, left) * factor, y = load_some(row + 16, larger<Index>(left - 16, 0)) * factor;
          if (odd) x = tamed(x), y = tamed(y);
          split<N>(x, y, words);
        }
      }
      for (int n = 0; n < N; ++n) store_words(to + n * term, words[n]);
    }
  return odd;
}

// A panel of keys as [term][D / 32][2] tiles, keys across, words like those of queries.
template <class In> void pack_key_tiles(const In* keys, Index stride, Index count, Index D, float* panel) {
  constexpr int N = kTerms<In>;
  const Index chunks = ceil_div(D, kDeep);
  std::uint32_t odd = N == 1 ? 0 : odd_rows<In>([&](Index i) { return keys + i * stride; }, count, D);
  for (int half = 0; half < 2; ++half)
    for (Index c = 0; c < chunks; ++c) {
      char* to = reinterpret_cast<char*>(panel) + (c * 2 + half) * kTileSize;
      const In* first = keys + half * kTileRows * stride;
      Index here = larger<Index>(count - half * kTileRows, 0), left = D - c * kDeep;
      if constexpr (N == 1) {
        Words x[kTileRows];
        auto row = [&](int i) { return load_neighbours(first + i * stride + c * kDeep, left); };
        if (here >= kTileRows) {
          OVERT_UNROLL
          for (int i = 0; i < kTileRows; ++i) x[i] = row(i);
        } else {
          for (int i = 0; i < kTileRows; ++i) x[i] = i < here ? row(i) : Words{};
        }
        transpose<float>(reinterpret_cast<Lane<float>*>(x));
        __builtin_memcpy(to, x, kTileSize);
      } else {
        Lane<float> x[kTileRows], y[kTileRows];
        auto row = [&](int i) { return first + i * stride + c * kDeep; };
        load_transposed<In>(row, here, 0, left, x);
        load_transposed<In>(row, here, 16, larger<Index>(left, 16), y);
        if (odd) {
          OVERT_UNROLL
          for (int i = 0; i < kTileRows; ++i) x[i] = tamed(x[i]), y[i] = tamed(y[i]);
        }
        OVERT_UNROLL
        for (int i = 0; i < kTileRows; ++i) {
          Words words[N];
          split<N>(x[i], y[i], words);
          for (int n = 0; n < N; ++n) store_words(to + n * chunks * 2 * kTileSize + i * kTileBytes, words[n]);
        }
      }
    }
  note_odd_keys(panel, packed_keys(N, D), odd);
}

// A panel of values as [term][E / 16] tiles, keys down in pairs.  Which keys make a pair is the order in which
// split_weights packs them.
template <class In> void pack_value_tiles(const In* values, Index stride, Index count, Index E, float* panel) {
  constexpr int N = kTerms<In>;
  const Index columns = ceil_div(E, kTileRows);
  std::uint32_t odd = odd_rows<In>([&](Index i) { return values + i * stride; }, count, E);
  for (int i = 0; i < kTileRows; ++i) {
    Index s = N == 1 ? 2 * i : i, other = N == 1 ? s + 1 : s + kTileRows;
    const In *first = values + s * stride, *second = values + other * stride;
    char* to = reinterpret_cast<char*>(panel) + i * kTileBytes;
    for (Index c = 0; c < columns; ++c, first += kTileRows, second += kTileRows, to += kTileSize) {
      Index left = E - c * kTileRows;
      Words words[N];
      if (count == kPanel<float> && left >= kTileRows && !odd) {
        if constexpr (N == 1) words[0] = widened(load_halves(first)) | widened(load_halves(second)) << 16;
        else split<N>(load_lanes(first), load_lanes(second), words);
      } else {
        split<N>(tamed(load_some(first, s < count ? left : 0)), tamed(load_some(second, other < count ? left : 0)), words);
      }
      for (int n = 0; n < N; ++n) store_words(to + n * columns * kTileSize, words[n]);
    }
  }
  note_odd_keys(panel, packed_values(N, E), odd);
}

}  // namespace overt::OVERT_LEVEL
