// The only file that knows Python: checks every array, then hands plain pointers to a kernel.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace overt {
namespace {

// Of a level; None is the best.
using Name = std::optional<const char*>;

std::atomic<bool> poison_scratch{false};

[[noreturn]] void reject(const std::string& message) { throw nb::value_error(message.c_str()); }

// The kinds of element, by the letters that the buffer protocol uses for them.
struct Element {
  const char* letters;
  const char* name;
  Index size;
};
constexpr Element kFloat32 = {"f", "float32", 4}, kFloat64 = {"d", "float64", 8}, kHalf = {"H", "uint16", 2},
                  kInt32 = {"il", "int32", 4}, kInt64 = {"lq", "int64", 8}, kBool = {"?", "bool", 1};

// An array lent by Python for as long as this object lives, seen through the buffer protocol, which copies nothing and
// converts nothing.
class Array {
 public:
  Array() = default;
  Array(nb::handle object, const char* name, Element element, int axes, bool output = false) : name_(name) {
    int flags = PyBUF_FORMAT | (output ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_STRIDES);
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags)) {
      PyErr_Clear();
      reject(text() + (output ? " must be a writable C-contiguous array" : " must be an array"));
    }
    held_ = true;
    try {
      check(element, axes);
    } catch (...) {
      PyBuffer_Release(&buffer_);
      throw;
    }
  }
  Array(Array&& other) noexcept : buffer_(other.buffer_), held_(other.held_), name_(other.name_) { other.held_ = false; }
  Array& operator=(Array&&) = delete;
  ~Array() {
    if (held_) PyBuffer_Release(&buffer_);
  }

  void* data() const { return buffer_.buf; }
  Index size(int axis) const { return buffer_.shape[axis]; }
  // In elements.  The stride of an axis of one element means nothing, whatever it says.
  Index stride(int axis) const { return size(axis) > 1 ? buffer_.strides[axis] / buffer_.itemsize : 0; }

  // As (batch, head, row, last).
  View view() const {
    if (buffer_.ndim > 3 && size(3) > 1 && buffer_.strides[3] != buffer_.itemsize)
      reject(text() + " must have unit stride on its last axis");
    return {data(), stride(0), stride(1), stride(2)};
  }
  void expect(std::initializer_list<Index> shape) const {
    int axis = 0;
    for (Index n : shape) {
      if (size(axis) != n)
        reject(text() + " has " + std::to_string(size(axis)) + " elements on axis " + std::to_string(axis) + ", not " +
               std::to_string(n));
      ++axis;
    }
  }

 private:
  std::string text() const { return name_; }

  void check(Element element, int axes) const {
    if (buffer_.ndim != axes)
      reject(text() + " must have " + std::to_string(axes) + " axes, not " + std::to_string(buffer_.ndim));
    const char* format = buffer_.format ? buffer_.format : "B";
    if (*format == '@' || *format == '=') ++format;
    if (!*format || format[1] || !std::strchr(element.letters, *format) || buffer_.itemsize != element.size)
      reject(text() + " must be " + element.name + " in native byte order");
    bool empty = false;
    for (int axis = 0; axis < axes; ++axis) empty |= size(axis) == 0;
    if (empty) return;
    bool aligned = reinterpret_cast<std::uintptr_t>(buffer_.buf) % element.size == 0;
    for (int axis = 0; axis < axes; ++axis)
      aligned &= size(axis) == 1 || buffer_.strides[axis] % element.size == 0;
    if (!aligned) reject(text() + " must be aligned");
  }

  Py_buffer buffer_ = {};
  bool held_ = false;
  const char* name_ = "";
};

Type type_of(const char* name) {
  if (!std::strcmp(name, "float32")) return Type::float32;
  if (!std::strcmp(name, "float64")) return Type::float64;
  if (!std::strcmp(name, "float16")) return Type::float16;
  if (!std::strcmp(name, "bfloat16")) return Type::bfloat16;
  reject("dtype must be float16, bfloat16, float32 or float64, not " + std::string(name));
}
Element element_of(Type type) {
  return type == Type::float32 ? kFloat32 : type == Type::float64 ? kFloat64 : kHalf;
}

// A Problem and the arrays it points into.
struct HeldProblem : Problem {
  std::vector<Array> held;
  bool has_values;

  HeldProblem(const HeldProblem&) = delete;

  Element input() const { return element_of(type); }
  Element accumulator() const { return type == Type::float64 ? kFloat64 : kFloat32; }

  const Array& hold(nb::handle object, const char* name, Element element, int axes) {
    return held.emplace_back(object, name, element, axes);
  }

  HeldProblem(nb::object q_, nb::object k_, nb::object v_, const char* dtype, double scale_, double softcap_,
              nb::object first_, nb::object last_, nb::object bits_, nb::object bias_, nb::object sinks_,
              nb::object additive_, bool modest_, double dropout_, std::uint64_t seed_, Index first_query_,
              Index whole_rows_, Index whole_keys_) {
    held.reserve(9);
    type = type_of(dtype);
    scale = scale_;
    softcap = softcap_;
    const Array& queries = hold(q_, "q", input(), 4);
    B = queries.size(0), H = queries.size(1), T = queries.size(2), D = queries.size(3);
    q = queries.view();
    const Array& keys = hold(k_, "k", input(), 4);
    G = keys.size(1), S = keys.size(2);
    keys.expect({B, G, S, D});
    k = keys.view();
    if (G == 0 ? H != 0 : H % G != 0)
      reject("q has " + std::to_string(H) + " heads, which is no multiple of the " + std::to_string(G) + " heads of k");
    if (std::max(T, S) > INT_MAX - 4096) reject("q or k has too many positions");
    E = 0;
    has_values = !v_.is_none();
    if (has_values) {
      const Array& values = hold(v_, "v", input(), 4);
      E = values.size(3);
      values.expect({B, G, S, E});
      v = values.view();
    }
    first = span(first_, "first");
    last = span(last_, "last");
    bits = cells(bits_, "bits", kBool, S);
    // One number a row will do.
    even_bias = S > 1 && !bias_.is_none() && Array(bias_, "bias", accumulator(), 4).size(3) == 1;
    bias = cells(bias_, "bias", accumulator(), even_bias ? 1 : S);
    sinks = vector(sinks_, "sinks", H);
    additive = vector(additive_, "additive", D);
    modest = modest_;
    if (!(dropout_ >= 0 && dropout_ < 1)) reject("dropout must be at least 0 and below 1");
    dropout = dropout_;
    seed = seed_;
    first_query = first_query_;
    whole_rows = whole_rows_ ? whole_rows_ : G ? H / G * T : 0;
    whole_keys = whole_keys_ ? whole_keys_ : S;
  }

  const void* vector(const nb::object& object, const char* name, Index size) {
    if (object.is_none()) return nullptr;
    const Array& array = hold(object, name, accumulator(), 1);
    array.expect({size});
    if (size > 1 && array.stride(0) != 1) reject(std::string(name) + " must have unit stride");
    return array.data();
  }

  View span(const nb::object& object, const char* name) {
    if (object.is_none()) return {};
    const Array& array = hold(object, name, kInt32, 3);
    array.expect({B, H, T});
    return array.view();
  }
  View cells(const nb::object& object, const char* name, Element element, Index width) {
    if (object.is_none()) return {};
    const Array& array = hold(object, name, element, 4);
    array.expect({B, H, T, width});
    return array.view();
  }
  Array rows(const nb::object& object, const char* name) const {
    Array array(object, name, accumulator(), 3, true);
    array.expect({B, H, T});
    return array;
  }
  // What each key receives and how spread out each query's attention is, either or neither.
  std::pair<Array, Array> statistics(const nb::object& received_, const nb::object& entropy_) const {
    Array received = received_.is_none() ? Array() : Array(received_, "received", accumulator(), 3, true);
    Array entropy = entropy_.is_none() ? Array() : Array(entropy_, "entropy", accumulator(), 3, true);
    if (received.data()) received.expect({B, H, S});
    if (entropy.data()) entropy.expect({B, H, T});
    return {std::move(received), std::move(entropy)};
  }
};

// The log-sum of each row, held.
struct HeldLogSum {
  Array value, rest;
  HeldLogSum(const HeldProblem& p, const nb::object& value_, const nb::object& rest_)
      : value(p.rows(value_, "lse")), rest(rest_.is_none() ? Array() : p.rows(rest_, "rest")) {}
  operator LogSum() const { return {value.data(), rest.data()}; }
};

// Lets Python handle signals, which it does on its main thread only.
Call::Pause ask_python() {
  using namespace std::chrono_literals;
  auto start = std::chrono::steady_clock::now();
  nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals()) return Call::kStop;
  try {
    nb::module_ threading = nb::module_::import_("threading");
    if (!threading.attr("main_thread")().attr("ident").equal(threading.attr("get_ident")())) return Call::kNeverAgain;
  } catch (nb::python_error&) {
    return Call::kNeverAgain;
  }
  // Where other threads hold the lock for long, asking for it more often would take its time.
  std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  return std::clamp<std::chrono::nanoseconds>(10 * took, 20ms, 50ms).count();
}

// Calls of fewer products end within milliseconds on any machine; looking at a clock between their tasks is felt.
constexpr double kBrief = 1e7;

// Runs body(kernels, run) without the interpreter's lock.  Raises what a handler of a signal raised meanwhile.
template <class Body>
void compute(const HeldProblem& p, int threads, Name level_name, const Body& body, bool panels = false) {
  if (threads < 0) reject("threads must be 0 or more, not " + std::to_string(threads));
  const char* name = level_name.value_or(nullptr);
  const Level* chosen = level(name);
  if (!chosen) reject("this machine has no level " + std::string(name ? name : "at all"));
  // Every output has these axes.
  if (p.B * p.H == 0) return;
  Run run = {std::min(threads ? threads : default_threads(), most_threads()), poison_scratch, panels};
  bool enough_memory;
  const double products = double(p.B) * double(p.H) * double(p.T) * double(p.S) * double(p.D + p.E + 8);
  Call call(products < kBrief ? nullptr : ask_python);
  {
    nb::gil_scoped_release other_threads_may_run;
    enough_memory = body(chosen->kernels, run);
  }
  if (call.orphaned()) throw std::runtime_error("a process that was forked in the middle of a call cannot finish it");
  if (call.stopped()) throw nb::python_error();
  if (!enough_memory) throw std::bad_alloc();
}

// Rejects bins that are not whole intervals of [0, size).
void check_bins(const Array& bins, const char* name, Index size) {
  bins.expect({bins.size(0), 2});
  const std::int64_t* bin = static_cast<const std::int64_t*>(bins.data());
  for (Index i = 0; i < bins.size(0); ++i)
    if (bin[2 * i] < 0 || bin[2 * i] >= bin[2 * i + 1] || bin[2 * i + 1] > size)
      reject(std::string(name) + " must hold non-empty intervals [start, end) within 0 and " + std::to_string(size));
}

// Whether received and entropy were filled as well.
bool forward(const HeldProblem& p, nb::object output_, nb::object lse_, nb::object rest_, nb::object received_,
             nb::object entropy_, int threads, Name level, bool panels) {
  if (!p.has_values) reject("forward needs v");
  Array output(output_, "output", p.input(), 4, true);
  output.expect({p.B, p.H, p.T, p.E});
  std::optional<HeldLogSum> held;
  if (!lse_.is_none()) held.emplace(p, lse_, rest_);
  LogSum lse = held ? LogSum(*held) : LogSum{};
  auto statistics = p.statistics(received_, entropy_);
  Along along = {statistics.first.data(), statistics.second.data(), false};
  Along* wanted = along.received && along.entropy ? &along : nullptr;
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.forward(p, run, output.data(), held ? &lse : nullptr, wanted);
  }, panels);
  return along.found;
}

void backward(const HeldProblem& p, nb::object output_, nb::object lse_, nb::object rest_, nb::object dy_,
              nb::object dlse_, nb::object dq_, nb::object dk_, nb::object dv_, nb::object dbias_, nb::object dsinks_,
              nb::object dadditive_, int threads, Name level) {
  if (!p.has_values) reject("backward needs v");
  Array output(output_, "output", p.input(), 4), dy(dy_, "dy", p.input(), 4);
  HeldLogSum lse(p, lse_, rest_);
  Array dlse = dlse_.is_none() ? Array() : p.rows(dlse_, "dlse");
  for (const Array* array : {&output, &dy}) array->expect({p.B, p.H, p.T, p.E});
  Array dq(dq_, "dq", p.accumulator(), 4, true), dk(dk_, "dk", p.accumulator(), 4, true),
      dv(dv_, "dv", p.accumulator(), 4, true);
  dq.expect({p.B, p.H, p.T, p.D});
  dk.expect({p.B, p.G, p.S, p.D});
  dv.expect({p.B, p.G, p.S, p.E});
  Array dbias = dbias_.is_none() ? Array() : Array(dbias_, "dbias", p.accumulator(), 4, true);
  if (dbias.data()) dbias.expect({p.B, p.H, p.T, p.S});
  Array dsinks = dsinks_.is_none() ? Array() : Array(dsinks_, "dsinks", p.accumulator(), 1, true);
  if (dsinks.data()) dsinks.expect({p.H});
  if (dsinks.data() && !p.sinks) reject("dsinks asks for the gradient of sinks, and there are none");
  Array dadditive = dadditive_.is_none() ? Array() : Array(dadditive_, "dadditive", p.accumulator(), 1, true);
  if (dadditive.data()) dadditive.expect({p.D});
  if (p.D && !dadditive.data() != !p.additive) reject("dadditive belongs to the additive score, and to no other");
  Pull pull = {output.view(), dy.view(), lse,          dlse.data(),   dq.data(),
               dk.data(),     dv.data(), dbias.data(), dsinks.data(), dadditive.data()};
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) { return kernels.backward(p, run, pull); });
}

void statistics(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object received_, nb::object entropy_, int threads,
                Name level) {
  HeldLogSum lse(p, lse_, rest_);
  auto wanted = p.statistics(received_, entropy_);
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.statistics(p, run, lse, wanted.first.data(), wanted.second.data());
  });
}

void top(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object indices_, nb::object weights_, int threads,
         Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array indices(indices_, "indices", kInt64, 4, true), weights(weights_, "weights", p.accumulator(), 4, true);
  Index count = indices.size(3);
  if (count < 1 || count > p.S)
    reject("indices asks for " + std::to_string(count) + " of " + std::to_string(p.S) + " keys");
  indices.expect({p.B, p.H, p.T, count});
  weights.expect({p.B, p.H, p.T, count});
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.top(p, run, lse, count, static_cast<std::int64_t*>(indices.data()), weights.data());
  });
}

void map(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object row_bins_, nb::object col_bins_, nb::object out_,
         const char* pool, int threads, Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array rows(row_bins_, "row_bins", kInt64, 2, true), columns(col_bins_, "col_bins", kInt64, 2, true);
  check_bins(rows, "row_bins", p.T);
  check_bins(columns, "col_bins", p.S);
  Array out(out_, "out", p.accumulator(), 4, true);
  out.expect({p.B, p.H, rows.size(0), columns.size(0)});
  bool mean = !std::strcmp(pool, "mean");
  if (!mean && std::strcmp(pool, "max")) reject("pool must be max or mean, not " + std::string(pool));
  Bins bins = {static_cast<const std::int64_t*>(rows.data()), rows.size(0),
               static_cast<const std::int64_t*>(columns.data()), columns.size(0), mean};
  compute(p, threads, level,
          [&](const Kernels& kernels, const Run& run) { return kernels.map(p, run, lse, bins, out.data()); });
}

void weights(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object out_, int threads, Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array out(out_, "out", p.accumulator(), 4, true);
  out.expect({p.B, p.H, p.T, p.S});
  compute(p, threads, level,
          [&](const Kernels& kernels, const Run& run) { return kernels.weights(p, run, lse, out.data()); });
}

}  // namespace
}  // namespace overt

NB_MODULE(_native, m) {
  using namespace overt;
  nb::class_<HeldProblem>(m, "Problem")
      .def(nb::init<nb::object, nb::object, nb::object, const char*, double, double, nb::object, nb::object, nb::object,
                    nb::object, nb::object, nb::object, bool, double, std::uint64_t, Index, Index, Index>(),
           "q"_a, "k"_a, "v"_a.none(), nb::kw_only(), "dtype"_a = "float32", "scale"_a, "softcap"_a = 0.0,
           "first"_a = nb::none(), "last"_a = nb::none(), "bits"_a = nb::none(), "bias"_a = nb::none(),
           "sinks"_a = nb::none(), "additive"_a = nb::none(), "modest"_a = false, "dropout"_a = 0.0, "seed"_a = 0,
           "first_query"_a = 0, "whole_rows"_a = 0, "whole_keys"_a = 0);
  m.def("forward", &forward, "problem"_a, "output"_a, "lse"_a = nb::none(), "rest"_a = nb::none(), "received"_a = nb::none(),
        "entropy"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "level"_a = nb::none(), "panels"_a = false);
  m.def("backward", &backward, "problem"_a, "output"_a, "lse"_a, "rest"_a.none(), "dy"_a, "dlse"_a.none(), "dq"_a, "dk"_a, "dv"_a,
        "dbias"_a = nb::none(), "dsinks"_a = nb::none(), "dadditive"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "level"_a = nb::none());
  m.def("statistics", &statistics, "problem"_a, "lse"_a, "rest"_a.none(), "received"_a = nb::none(), "entropy"_a = nb::none(),
        nb::kw_only(), "threads"_a = 0, "level"_a = nb::none());
  m.def("top", &top, "problem"_a, "lse"_a, "rest"_a.none(), "indices"_a, "weights"_a, nb::kw_only(), "threads"_a = 0,
        "level"_a = nb::none());
  m.def("map", &map, "problem"_a, "lse"_a, "rest"_a.none(), "row_bins"_a, "col_bins"_a, "out"_a, "pool"_a, nb::kw_only(),
        "threads"_a = 0, "level"_a = nb::none());
  m.def("weights", &weights, "problem"_a, "lse"_a, "rest"_a.none(), "out"_a, nb::kw_only(), "threads"_a = 0, "level"_a = nb::none());
  m.def("levels", [] {
    std::vector<std::string> names;
    for (const Level* l = kLevels; l->name; ++l)
      if (supported(*l)) names.push_back(l->name);
    return names;
  });
  m.def(
      "features",
      [](const char* name) {
        const Level* chosen = level(name);
        std::vector<std::string> names;
        for (const Feature* f = kFeatures; chosen && f->name; ++f)
          if (f->rank <= chosen->rank) names.push_back(f->name);
        return names;
      },
      "level"_a);
  m.def("threads", &default_threads);
  m.def("poison", [](bool on) { poison_scratch = on; }, "on"_a);
}
