// Chooses the level.  The only file that knows which there are.
#include "dispatch.h"

#include <cstring>

#if defined(OVERT_WITH_amx) && !defined(OVERT_EMULATE_TILES)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace overt {

#define OVERT_DECLARE(name)                                                                                       \
  namespace name {                                                                                                \
  bool forward(const Problem&, const Run&, void* output, void* lse);                                              \
  bool backward(const Problem&, const Run&, const Pull&);                                                         \
  bool statistics(const Problem&, const Run&, const void* lse, void* received, void* entropy);                    \
  bool top(const Problem&, const Run&, const void* lse, Index count, std::int64_t* indices, void* weights);       \
  bool map(const Problem&, const Run&, const void* lse, const Bins&, void* out);                                  \
  bool weights(const Problem&, const Run&, const void* lse, void* out);                                           \
  constexpr Kernels kernels = {forward, backward, statistics, top, map, weights};                                 \
  }

// Spelled as features: GCC 11 and Clang before 18 do not know "x86-64-v3" here.
#define OVERT_HAS(feature) bool(__builtin_cpu_supports(#feature))

#if defined(__x86_64__)
// A build may leave levels out (OVERT_LEVELS in CMakeLists.txt).
#ifdef OVERT_WITH_v2
OVERT_DECLARE(v2)
#endif
#ifdef OVERT_WITH_v3
OVERT_DECLARE(v3)
#endif
#ifdef OVERT_WITH_v4
OVERT_DECLARE(v4)
#endif

static bool has_v4() {
  return OVERT_HAS(avx512f) && OVERT_HAS(avx512bw) && OVERT_HAS(avx512cd) && OVERT_HAS(avx512dq) && OVERT_HAS(avx512vl) &&
         OVERT_HAS(avx2) && OVERT_HAS(fma) && OVERT_HAS(bmi2);
}

#ifdef OVERT_WITH_amx
// v4, but for the forward pass.
namespace amx {
bool forward(const Problem&, const Run&, void* output, void* lse);
}

static bool has_amx() {
  if (!has_v4() || !OVERT_HAS(avx512bf16)) return false;
#ifdef OVERT_EMULATE_TILES
  return true;
#else
  // The CPU has tiles of bfloat16, and the kernel saves them: a process must ask for that, once.
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return false;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr long request = 0x1023, tile_data = 18;
  return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, request, tile_data) == 0;
#endif
}
#endif

const Level kLevels[] = {
#ifdef OVERT_WITH_amx
    {"amx", {amx::forward, v4::backward, v4::statistics, v4::top, v4::map, v4::weights}, has_amx},
#endif
#ifdef OVERT_WITH_v4
    {"v4", v4::kernels, has_v4},
#endif
#ifdef OVERT_WITH_v3
    {"v3", v3::kernels, [] { return OVERT_HAS(avx2) && OVERT_HAS(fma) && OVERT_HAS(bmi) && OVERT_HAS(bmi2); }},
#endif
#ifdef OVERT_WITH_v2
    {"v2", v2::kernels, [] { return OVERT_HAS(sse4.2) && OVERT_HAS(ssse3) && OVERT_HAS(popcnt); }},
#endif
    {},
};
#else
OVERT_DECLARE(base)

const Level kLevels[] = {
    {"base", base::kernels, [] { return true; }},
    {},
};
#endif

const Level* level(const char* name) {
  for (const Level* l = kLevels; l->name; ++l)
    if ((!name || !std::strcmp(name, l->name)) && l->supported()) return l;
  return nullptr;
}

}  // namespace overt
