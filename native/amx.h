// The tile registers of AMX: eight squares of 16 rows of 64 bytes, and the one product they know.
// A build with OVERT_EMULATE_TILES computes the same with plain loops, so that what is built on them is tested anywhere.
#pragma once
#include "pack.h"

namespace overt::OVERT_LEVEL {

constexpr int kTileRows = 16, kTileBytes = 64, kTileSize = kTileRows * kTileBytes;

#if defined(OVERT_EMULATE_TILES)

struct Tile {
  Words row[kTileRows];
};
inline thread_local Tile emulated[8];
inline thread_local bool configured = false;

// Of a thread, while it lives.  Whoever stops in between to call a kernel in turn has them back, without what they held.
struct TileRegisters {
  const bool before = configured;
  TileRegisters() {
    configured = true;
    __builtin_memset(emulated, 0xff, sizeof emulated);
  }
  ~TileRegisters() {
    configured = before;
    __builtin_memset(emulated, 0xff, sizeof emulated);
  }
};
template <int C> OVERT_INLINE void tile_zero() {
  if (!configured) __builtin_trap();
  emulated[C] = {};
}
template <int C> OVERT_INLINE void tile_load(const void* rows, Index stride) {
  for (int i = 0; i < kTileRows; ++i)
    __builtin_memcpy(&emulated[C].row[i], static_cast<const char*>(rows) + i * stride, kTileBytes);
}
template <int C> OVERT_INLINE void tile_store(void* rows, Index stride) {
  for (int i = 0; i < kTileRows; ++i)
    __builtin_memcpy(static_cast<char*>(rows) + i * stride, &emulated[C].row[i], kTileBytes);
}
// Subnormal numbers count as 0, before and after.  What is read and written here are the squares alone, and most of the
// time of the tests under a sanitizer went into watching that.
#define OVERT_UNWATCHED __attribute__((no_sanitize("address", "undefined", "thread"))) inline
OVERT_UNWATCHED Lane<float> flushed(Lane<float> x) { return (Lane<float>)(((Words)x & 0x7f800000) != 0 ? (Words)x : Words{}); }
OVERT_UNWATCHED Lane<float> high_halves(Words x) { return flushed((Lane<float>)(x & 0xffff0000)); }
template <int C, int A, int B> OVERT_UNWATCHED void tile_dot() {
  for (int m = 0; m < kTileRows; ++m) {
    Lane<float> low = {}, high = {};
    for (int k = 0; k < kTileRows; ++k) {
      Words a = Words{} + emulated[A].row[m][k], b = emulated[B].row[k];
      low = flushed(low + high_halves(a << 16) * high_halves(b << 16));
      high = flushed(high + high_halves(a) * high_halves(b));
    }
    emulated[C].row[m] = (Words)flushed((Lane<float>)emulated[C].row[m] + flushed(low + high));
  }
}

#else

// Of a thread, while it lives.  Whoever stops in between to call a kernel in turn has them back, without what they held.
struct TileRegisters {
  struct alignas(64) Shape {
    std::uint8_t palette, start, reserved[14];
    std::uint16_t bytes[16];
    std::uint8_t rows[16];
  };
  Shape before;
  TileRegisters() {
    asm volatile("sttilecfg %0" : "=m"(before));
    Shape shape = {};
    shape.palette = 1;
    for (int i = 0; i < 8; ++i) shape.bytes[i] = kTileBytes, shape.rows[i] = kTileRows;
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }
  ~TileRegisters() {
    // Released, and not merely shaped as nothing, the registers no longer burden a switch of threads.
    if (before.palette) asm volatile("ldtilecfg %0" ::"m"(before));
    else asm volatile("tilerelease");
  }
  TileRegisters(const TileRegisters&) = delete;
};
template <int C> OVERT_INLINE void tile_zero() { asm volatile("tilezero %%tmm%c0" ::"i"(C)); }
template <int C> OVERT_INLINE void tile_load(const void* rows, Index stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(C) : "memory");
}
template <int C> OVERT_INLINE void tile_store(void* rows, Index stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(C) : "memory");
}
// C += A · B: rows m of A and columns n of B hold 32 bfloat16 each, of B in pairs: word n of row k are its 2k and 2k + 1.
template <int C, int A, int B> OVERT_INLINE void tile_dot() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

#endif

}  // namespace overt::OVERT_LEVEL
