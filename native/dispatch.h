// The levels of this machine.
#pragma once
#include "problem.h"

namespace overt {

struct Level {
  const char* name;
  Kernels kernels;
  bool (*supported)();
};

// Best first, ended by a level without a name.
extern const Level kLevels[];

// Null name: the best this machine runs.  Null result: there is none of that name.
const Level* level(const char* name);

}  // namespace overt
