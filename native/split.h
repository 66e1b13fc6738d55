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
// not belong.  Such numbers are packed as 0, noted, and dealt with one by one.
constexpr int kTameExponent = 54;
constexpr float kTame = 0x1p54f;
OVERT_INLINE Lane<float> tamed(Lane<float> x, bool& odd) {
  __mmask16 tame = _mm512_cmp_ps_mask((__m512)((Words)x & 0x7fffffffu), (__m512)all(kTame), _CMP_LE_OQ);
  odd |= tame != 0xffff;
  return (Lane<float>)_mm512_maskz_mov_ps(tame, (__m512)x);
}

// The nearest bfloat16, as a float.
OVERT_INLINE Lane<float> leading(Lane<float> x) {
  return (Lane<float>)(widened((Halves)_mm512_cvtneps_pbh((__m512)x)) << 16);
}
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

// The 32 numbers from d on of a row of D, as words of terms: of the i-th and the 16th after it or, where there is nothing
// to split, of neighbours.
template <class In> OVERT_INLINE void split_row(const In* row, Index d, Index D, float factor, bool& odd, Words* words) {
  split<kTerms<In>>(tamed(load_some(row + d, larger<Index>(D - d, 0)) * factor, odd),
                    tamed(load_some(row + d + 16, larger<Index>(D - d - 16, 0)) * factor, odd), words);
}
template <>
OVERT_INLINE void split_row<BFloat16>(const BFloat16* row, Index d, Index D, float, bool& odd, Words* words) {
  __mmask32 there = D - d >= kDeep ? ~0u : (1u << (D - d)) - 1;
  __m512i x = _mm512_maskz_loadu_epi16(there, row + d);
  constexpr short highest = (127 + kTameExponent) << 7;
  __mmask32 wild = _mm512_cmpgt_epu16_mask(_mm512_and_si512(x, _mm512_set1_epi16(0x7fff)), _mm512_set1_epi16(highest));
  odd |= wild != 0;
  *words = (Words)_mm512_maskz_mov_epi16(~wild, x);
}

// A square of rows: words[i] are the 32 numbers from d on of row(i), or of none.  Returns one bit for each odd row.
template <class In, class Row>
OVERT_INLINE std::uint32_t split_rows(Row row, Index d, Index D, float factor, Words (*words)[kTileRows]) {
  constexpr int N = kTerms<In>;
  std::uint32_t odd = 0;
  for (int i = 0; i < kTileRows; ++i) {
    Words parts[N] = {};
    if (const In* p = row(i)) {
      bool any = false;
      split_row<In>(p, d, D, factor, any, parts);
      odd |= std::uint32_t(any) << i;
    }
    OVERT_UNROLL
    for (int n = 0; n < N; ++n) words[n][i] = parts[n];
  }
  return odd;
}

// Queries [term][rows / 16][D / 32] tiles, rows down.  The factor goes into them if they do not get longer from it.
template <class In>
std::uint32_t pack_query_tiles(const In* const* rows, int count, int size, Index D, float factor, float* out) {
  constexpr int N = kTerms<In>;
  Index chunks = ceil_div(D, kDeep);
  std::uint32_t odd = 0;
  for (int first = 0; first < size; first += kTileRows)
    for (Index c = 0; c < chunks; ++c) {
      Words words[N][kTileRows];
      odd |= split_rows<In>([&](int i) { return first + i < count ? rows[first + i] : nullptr; }, c * kDeep, D,
                            N == 3 ? factor : 1.0f, words)
             << first;
      for (int n = 0; n < N; ++n)
        __builtin_memcpy(reinterpret_cast<char*>(out) + ((n * (size / kTileRows) + first / kTileRows) * chunks + c) * kTileSize,
                         words[n], kTileSize);
    }
  return odd;
}

// A panel of keys as [term][D / 32][2] tiles, keys across.
template <class In> void pack_key_tiles(const In* keys, Index stride, Index count, Index D, float* panel) {
  constexpr int N = kTerms<In>;
  Index chunks = ceil_div(D, kDeep);
  std::uint32_t odd = 0;
  for (int half = 0; half < 2; ++half)
    for (Index c = 0; c < chunks; ++c) {
      Words words[N][kTileRows];
      int first = half * kTileRows;
      odd |= split_rows<In>([&](int i) { return first + i < count ? keys + (first + i) * stride : nullptr; }, c * kDeep,
                            D, 1.0f, words)
             << first;
      for (int n = 0; n < N; ++n) {
        transpose<float>(reinterpret_cast<Lane<float>*>(words[n]));
        __builtin_memcpy(reinterpret_cast<char*>(panel) + ((n * chunks + c) * 2 + half) * kTileSize, words[n], kTileSize);
      }
    }
  note_odd_keys(panel, packed_keys(N, D), odd);
}

// A panel of values as [term][E / 16] tiles, keys down in pairs.  Which keys make a pair is the order in which
// split_weights packs them.
template <class In> void pack_value_tiles(const In* values, Index stride, Index count, Index E, float* panel) {
  constexpr int N = kTerms<In>;
  Index columns = ceil_div(E, kTileRows);
  std::uint32_t odd = 0;
  for (int i = 0; i < kTileRows; ++i) {
    int pair[2] = {N == 1 ? 2 * i : i, N == 1 ? 2 * i + 1 : i + kTileRows};
    for (Index c = 0; c < columns; ++c) {
      Lane<float> x[2];
      for (int side = 0; side < 2; ++side) {
        bool any = false;
        int s = pair[side];
        x[side] = s < count ? tamed(load_some(values + s * stride + c * kTileRows, E - c * kTileRows), any) : Lane<float>{};
        odd |= std::uint32_t(any) << s;
      }
      Words words[N];
      split<N>(x[0], x[1], words);
      for (int n = 0; n < N; ++n)
        store_words(reinterpret_cast<char*>(panel) + (n * columns + c) * kTileSize + i * kTileBytes, words[n]);
    }
  }
  note_odd_keys(panel, packed_values(N, E), odd);
}

}  // namespace overt::OVERT_LEVEL
