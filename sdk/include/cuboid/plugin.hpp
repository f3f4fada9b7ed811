// plugin.hpp - the C++17 layer over plugin.h. Header-only; nothing of C++ crosses the border.
//
//   #include <cuboid/plugin.hpp>
//   using namespace cuboid::sdk;
//   struct Above {
//     static constexpr auto meta = decl("demo.above/1", "x:T[n] -> y:T[<=n]", "Values greater than t, in order.")
//                                      .types("T=f4|f8").param(real("t", 0)).call_bytes("0", exact)
//                                      .outside_bytes("0", exact).flags(pure | reentrant).splittable("n");
//     template <class T> static void run(Call& c) {          // instantiated for every type of T
//       const auto x = c.in<T, 1>(0);
//       auto y = c.rows<T>(0);
//       for (int64_t i = 0; i < x.extent(0); ++i) if (x(i) > c.real("t")) y.add(x(i));
//       y.finish();
//     }
//   };
//   CUBOID_PLUGIN("demo", "1.0.0", Above)
//
// One file on purpose: plugin.h and this are all that a plugin's author has to copy.
// Three parts: the manifest's grammar, checked at compile time; views, parameters and memory of a call; the border.
// Grammar and meaning of every field: docs/plugin-manifest.md.
#ifndef CUBOID_PLUGIN_HPP
#define CUBOID_PLUGIN_HPP

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <exception>
#include <limits>
#include <memory_resource>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plugin.h"

namespace cuboid::sdk {

using Text = std::string_view;

// ---- Part 1: the manifest
// --------------------------------------------------------------------------------------------

// How far a number may be trusted (plugin.h), and promises of a function.
enum class Trust : std::uint16_t { unknown = CUBOID_UNKNOWN, exact, bound, guess };
inline constexpr Trust exact = Trust::exact, bound = Trust::bound, guess = Trust::guess;
inline constexpr std::uint32_t pure = CUBOID_F_PURE, reentrant = CUBOID_F_REENTRANT, state_local = CUBOID_F_STATE_LOCAL,
                               threads = CUBOID_F_THREADS, in_place = CUBOID_F_INPLACE, fork_safe = CUBOID_F_FORK_SAFE;

namespace detail {

// In a constant expression a false `ok` is a compile error that shows `what`; at run time it throws.
constexpr void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) { return is_lower(c) || is_upper(c) || is_digit(c) || c == '_'; }

struct Scanner {
  Text text;
  std::size_t at = 0;

  constexpr void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
  }
  constexpr bool done() {
    skip();
    return at == text.size();
  }
  constexpr bool eat(Text token) {
    skip();
    if (text.substr(at, token.size()) != token) return false;
    at += token.size();
    return true;
  }
  constexpr Text word() {
    skip();
    const std::size_t from = at;
    while (at < text.size() && is_word(text[at])) ++at;
    return text.substr(from, at - from);
  }
};

constexpr bool is_identifier(Text word) {
  if (word.empty() || word.size() > 64 || !is_lower(word[0])) return false;
  for (const char c : word)
    if (is_upper(c)) return false;
  return true;
}
constexpr bool is_reserved(Text word) {
  for (const Text name : {"min", "max", "floor", "ceil", "log2", "unknown", "callback", "boundary", "boundary_value"})
    if (word == name) return true;
  return word.substr(0, 5) == "halo_" || word.substr(0, 5) == "size_";
}

// Formulas: parsed by recursive descent and, where `names` knows values, evaluated on the way. `names(word, value&)`
// tells whether a name is visible. A division by zero or a logarithm of nothing positive gives NaN.
template <class Names>
class Formula {
 public:
  constexpr Formula(Text text, const Names& names, bool evaluate) : scan_{text}, names_(names), evaluate_(evaluate) {}
  constexpr double value() {
    const double result = conditional();
    require(scan_.done(), "formula: something is left over behind its end");
    return result;
  }

 private:
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  constexpr double conditional() {
    require(++depth_ <= 32, "formula: nested deeper than 32");
    double result = comparison();
    if (scan_.eat("?")) {
      const double yes = conditional();
      require(scan_.eat(":"), "formula: ':' expected");
      const double no = conditional();
      result = result != result ? kNaN : result != 0 ? yes : no;
    }
    --depth_;
    return result;
  }
  constexpr double comparison() {
    const double a = sum();
    for (const Text op : {"<=", ">=", "==", "!=", "<", ">"}) {
      if (!scan_.eat(op)) continue;
      const double b = sum();
      if (a != a || b != b) return kNaN;
      return op == "<="   ? a <= b
             : op == ">=" ? a >= b
             : op == "==" ? a == b
             : op == "!=" ? a != b
             : op == "<"  ? a < b
                          : a > b;
    }
    return a;
  }
  constexpr double sum() {
    double a = product();
    for (;;) {
      if (scan_.eat("+"))
        a += product();
      else if (scan_.eat("-"))
        a -= product();
      else
        return a;
    }
  }
  constexpr double product() {
    double a = unary();
    for (;;) {
      if (scan_.eat("*")) {
        a *= unary();
      } else if (scan_.eat("/")) {
        const double b = unary();
        a = !evaluate_ ? 0 : b != 0 ? a / b : kNaN;
      } else {
        return a;
      }
    }
  }
  constexpr double unary() { return scan_.eat("-") ? -primary() : primary(); }
  constexpr double primary() {
    scan_.skip();
    if (scan_.eat("(")) {
      const double a = conditional();
      require(scan_.eat(")"), "formula: a closing parenthesis is missing");
      return a;
    }
    if (scan_.at < scan_.text.size() && is_digit(scan_.text[scan_.at])) return number();
    const Text word = scan_.word();
    require(!word.empty(), "formula: a number, a name or '(' expected");
    if (scan_.eat("(")) return function(word);
    double a = 0;
    require(names_(word, a), "formula: a name that is not visible here");
    return a;
  }
  constexpr double function(Text name) {
    const bool least = name == "min", most = name == "max";
    double a = conditional();
    int count = 1;
    while (scan_.eat(",")) {
      const double b = conditional();
      a = a != a || b != b ? kNaN : least ? (b < a ? b : a) : (b > a ? b : a);
      require(++count <= 16 && (least || most), "formula: too many arguments");
    }
    require(scan_.eat(")"), "formula: a closing parenthesis is missing");
    if (least || most) return a;
    if (name == "floor") return evaluate_ ? std::floor(a) : 0;
    if (name == "ceil") return evaluate_ ? std::ceil(a) : 0;
    require(name == "log2", "formula: the functions are min, max, floor, ceil, log2");
    return !evaluate_ ? 0 : a > 0 ? std::log2(a) : kNaN;
  }
  constexpr double number() {
    double a = 0, scale = 1;
    for (; digit(); ++scan_.at) a = a * 10 + (scan_.text[scan_.at] - '0');
    if (scan_.text.substr(scan_.at, 1) == ".") {
      ++scan_.at;
      require(digit(), "formula: a digit expected behind the point");
      for (; digit(); ++scan_.at, scale *= 10) a = a * 10 + (scan_.text[scan_.at] - '0');
    }
    if (scan_.text.substr(scan_.at, 1) == "e") {
      ++scan_.at;
      const bool down = scan_.text.substr(scan_.at, 1) == "-";
      if (down || scan_.text.substr(scan_.at, 1) == "+") ++scan_.at;
      require(digit(), "formula: a digit expected in the exponent");
      int exponent = 0;
      for (; digit(); ++scan_.at) exponent = exponent * 10 + (scan_.text[scan_.at] - '0');
      require(exponent <= 15, "formula: an exponent above 15");
      for (; exponent > 0; --exponent) (down ? scale : a) *= 10;
    }
    return a / scale;
  }
  constexpr bool digit() const { return scan_.at < scan_.text.size() && is_digit(scan_.text[scan_.at]); }

  Scanner scan_;
  const Names& names_;
  bool evaluate_;
  int depth_ = 0;
};

// Element types by their short names.
struct NamedType {
  Text name;
  cuboid_dtype dtype;
};
inline constexpr NamedType kTypes[] = {
    {"b1", {'b', 0, 1}}, {"i1", {'i', 0, 1}}, {"i2", {'i', 0, 2}},  {"i4", {'i', 0, 4}}, {"i8", {'i', 0, 8}},
    {"u1", {'u', 0, 1}}, {"u2", {'u', 0, 2}}, {"u4", {'u', 0, 4}},  {"u8", {'u', 0, 8}}, {"f4", {'f', 0, 4}},
    {"f8", {'f', 0, 8}}, {"c8", {'c', 0, 8}}, {"c16", {'c', 0, 16}}};
constexpr int type_index(Text name) {
  for (int i = 0; i < 13; ++i)
    if (kTypes[i].name == name) return i;
  return -1;
}

// ---- signatures
enum class Extent : std::uint8_t { exact, bound, guess, callback };
struct ArrayDecl {
  Text name, type;
  std::uint16_t rank = 0;
  std::array<Text, CUBOID_MAX_RANK> extent{};
  Extent kind = Extent::exact;  // of the first extent; all others are exact
};
struct Signature {
  std::array<ArrayDecl, 16> arrays{};  // inputs, then outputs
  std::uint32_t n_in = 0, n_out = 0;
  constexpr const ArrayDecl& out(std::uint32_t k) const { return arrays[n_in + k]; }
  constexpr bool has_axis(Text name) const {
    for (std::uint32_t k = 0; k < n_in; ++k)
      for (std::uint16_t d = 0; d < arrays[k].rank; ++d)
        if (arrays[k].extent[d] == name) return true;
    return false;
  }
};

constexpr Text trimmed(Text text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

constexpr void parse_extent(ArrayDecl& array, Text text, bool output) {
  text = trimmed(text);
  require(!text.empty() && array.rank < CUBOID_MAX_RANK, "signature: an empty extent, or more than 16");
  Extent kind = Extent::exact;
  if (text == "?") {
    kind = Extent::callback;
  } else if (text.substr(0, 3) == "~<=") {
    kind = Extent::guess;
    text = trimmed(text.substr(3));
  } else if (text.substr(0, 2) == "<=") {
    kind = Extent::bound;
    text = trimmed(text.substr(2));
  }
  require(kind == Extent::exact || (output && array.rank == 0),
          "signature: only the first extent of an output may depend on data");
  if (array.rank == 0) array.kind = kind;
  if (!output) {
    bool number = true;
    for (const char c : text) number = number && is_digit(c);
    require(number || (is_identifier(text) && !is_reserved(text)),
            "signature: an input's extent is an axis or a number");
  }
  array.extent[array.rank++] = text;
}

constexpr ArrayDecl parse_array(Scanner& scan, bool output) {
  ArrayDecl array;
  array.name = scan.word();
  require(is_identifier(array.name), "signature: the name of an array expected");
  require(scan.eat(":"), "signature: ':' expected behind the name of an array");
  array.type = scan.word();
  require(type_index(array.type) >= 0 || (!array.type.empty() && array.type.size() <= 16 && is_upper(array.type[0])),
          "signature: an element type (f8, ...) or a type variable (T) expected");
  require(scan.eat("["), "signature: '[' expected behind the element type");
  int depth = 0;
  std::size_t from = scan.at;
  for (; scan.at < scan.text.size(); ++scan.at) {
    const char c = scan.text[scan.at];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth > 0 || (c != ',' && c != ']')) continue;
    const Text extent = scan.text.substr(from, scan.at - from);
    if (c == ',' || array.rank > 0 || !trimmed(extent).empty()) parse_extent(array, extent, output);
    from = scan.at + 1;
    if (c == ']') break;
  }
  require(scan.eat("]"), "signature: ']' expected");
  return array;
}

constexpr Signature parse_signature(Text text, bool partial = false) {
  Signature signature;
  Scanner scan{text};
  bool output = partial;
  if (!partial && scan.eat("->")) output = true;
  for (;;) {
    require(signature.n_in + signature.n_out < 16, "signature: more than 16 arrays");
    const ArrayDecl array = parse_array(scan, output);
    for (std::uint32_t k = 0; k < signature.n_in + signature.n_out; ++k)
      require(signature.arrays[k].name != array.name, "signature: two arrays of one name");
    signature.arrays[signature.n_in + signature.n_out] = array;
    ++(output ? signature.n_out : signature.n_in);
    if (scan.done()) break;
    if (!output && scan.eat("->")) {
      output = true;
      continue;
    }
    require(scan.eat(","), "signature: ',' or '->' expected between arrays");
  }
  require(signature.n_out > 0, "signature: no output");
  return signature;
}

// ---- "T=f4|f8, U=i4"
struct TypeVariable {
  Text name;
  std::uint32_t mask = 0;  // bits by type_index
};
struct TypeVariables {
  std::array<TypeVariable, 8> list{};
  std::uint32_t count = 0;
  constexpr const TypeVariable* find(Text name) const {
    for (std::uint32_t i = 0; i < count; ++i)
      if (list[i].name == name) return &list[i];
    return nullptr;
  }
};
constexpr TypeVariables parse_types(Text text) {
  TypeVariables variables;
  Scanner scan{text};
  while (!scan.done()) {
    require(variables.count < 8, "types: more than 8 variables");
    TypeVariable variable{scan.word(), 0};
    require(!variable.name.empty() && is_upper(variable.name[0]) && !variables.find(variable.name),
            "types: a new type variable (T) expected");
    require(scan.eat("="), "types: '=' expected");
    do {
      const int index = type_index(scan.word());
      require(index >= 0 && !(variable.mask >> index & 1), "types: an element type (f8, ...) not yet named expected");
      variable.mask |= 1u << index;
    } while (scan.eat("|"));
    variables.list[variables.count++] = variable;
    if (!scan.done()) require(scan.eat(","), "types: ',' expected");
  }
  return variables;
}

}  // namespace detail

// A parameter: `real("sigma", 1.5).min(0).help("...")`; without a default it is required.
class Param {
 public:
  enum Kind : char { kBool = 'b', kInt = 'i', kReal = 'f', kText = 's', kInts = 'I', kReals = 'F', kTexts = 'S' };
  constexpr Param() = default;
  constexpr Param(Kind kind, const char* name) : kind_(kind), name_(name) {}
  constexpr Param initial(double value, std::int64_t whole, const char* text) const {
    Param p = *this;
    p.has_default_ = true, p.number_ = value, p.whole_ = whole, p.text_ = text;
    return p;
  }
  constexpr Param min(double value) const {
    Param p = *this;
    p.has_min_ = true, p.min_ = value;
    return p;
  }
  constexpr Param max(double value) const {
    Param p = *this;
    p.has_max_ = true, p.max_ = value;
    return p;
  }
  constexpr Param choices(const char* list) const {  // "reflect|wrap"
    Param p = *this;
    p.choices_ = list;
    return p;
  }
  constexpr Param items(int least, int most) const {
    Param p = *this;
    p.min_items_ = least, p.max_items_ = most;
    return p;
  }
  constexpr Param help(const char* doc) const {
    Param p = *this;
    p.doc_ = doc;
    return p;
  }
  constexpr Text name() const { return name_; }
  constexpr Kind kind() const { return kind_; }
  constexpr bool numeric() const { return kind_ == kBool || kind_ == kInt || kind_ == kReal; }

  Kind kind_ = kReal;
  const char* name_ = "";
  bool has_default_ = false, has_min_ = false, has_max_ = false;
  double number_ = 0, min_ = 0, max_ = 0;
  std::int64_t whole_ = 0;
  const char *text_ = "", *choices_ = "", *doc_ = "";  // text_: of a list, its default as JSON
  int min_items_ = -1, max_items_ = -1;
};
constexpr Param boolean(const char* name, bool value) { return Param(Param::kBool, name).initial(0, value, ""); }
constexpr Param integer(const char* name) { return {Param::kInt, name}; }
constexpr Param integer(const char* name, std::int64_t value) { return Param(Param::kInt, name).initial(0, value, ""); }
constexpr Param real(const char* name) { return {Param::kReal, name}; }
constexpr Param real(const char* name, double value) { return Param(Param::kReal, name).initial(value, 0, ""); }
constexpr Param text(const char* name) { return {Param::kText, name}; }
constexpr Param text(const char* name, const char* value) { return Param(Param::kText, name).initial(0, 0, value); }
// Lists; a default is JSON: "[1, 2]".
constexpr Param integers(const char* name) { return {Param::kInts, name}; }
constexpr Param integers(const char* name, const char* json) { return Param(Param::kInts, name).initial(0, 0, json); }
constexpr Param reals(const char* name) { return {Param::kReals, name}; }
constexpr Param reals(const char* name, const char* json) { return Param(Param::kReals, name).initial(0, 0, json); }
constexpr Param texts(const char* name) { return {Param::kTexts, name}; }
constexpr Param texts(const char* name, const char* json) { return Param(Param::kTexts, name).initial(0, 0, json); }

// How an output is handed over (docs/plugin-manifest.md, Outputs).
enum class Delivery : std::uint8_t { automatic, fill, trim, emit, grow, push };

// The declaration of a function: what its manifest entry says. Each member returns a changed copy; all is checked when
// the plugin is compiled. Every text must be a string literal.
class decl {
 public:
  constexpr decl(const char* id, const char* signature, const char* doc) : id_(id), signature_(signature), doc_(doc) {}
#define CUBOID_SDK_SET(...) \
  {                         \
    decl d = *this;         \
    __VA_ARGS__;            \
    return d;               \
  }
  constexpr decl types(const char* list) const CUBOID_SDK_SET(d.types_ = list);
  constexpr decl param(Param p) const CUBOID_SDK_SET(d.params_[d.n_params_++] = p);
  // Regions: `same` unless one of these is given. `modes`: "reflect|nearest", the first is the default.
  constexpr decl halo(const char* axis, const char* formula) const
      CUBOID_SDK_SET(d.regions_ = 'h', d.halo_[d.n_halo_++] = Pair{axis, formula});
  constexpr decl modes(const char* list) const CUBOID_SDK_SET(d.modes_ = list);
  constexpr decl all() const CUBOID_SDK_SET(d.regions_ = 'a');
  constexpr decl callback_regions() const CUBOID_SDK_SET(d.regions_ = 'c');
  constexpr decl core(const char* axes) const CUBOID_SDK_SET(d.core_ = axes);  // "k, l"
  // Memory; a formula and its trust, or "unknown", or "callback" (with an `infer` of the function's own).
  constexpr decl call_bytes(const char* formula, Trust trust = Trust::unknown) const
      CUBOID_SDK_SET(d.call_ = (Bytes{formula, trust}));
  constexpr decl state_bytes(const char* formula, Trust trust = Trust::unknown) const
      CUBOID_SDK_SET(d.state_ = (Bytes{formula, trust}));
  constexpr decl outside_bytes(const char* formula, Trust trust = Trust::unknown) const
      CUBOID_SDK_SET(d.outside_ = (Bytes{formula, trust}));
  // How output `name` is delivered; `likely` rows, and the largest `slab` of rows in one push.
  constexpr decl output(const char* name, Delivery delivery, const char* likely = "", const char* slab = "") const
      CUBOID_SDK_SET(d.outputs_[d.n_outputs_++] = (Output{name, delivery, likely, slab}));
  constexpr decl flags(std::uint32_t bits) const CUBOID_SDK_SET(d.flags_ = bits);
  constexpr decl splittable(const char* axes) const CUBOID_SDK_SET(d.splittable_ = axes);  // "y, x"
  constexpr decl combine(const char* partial) const CUBOID_SDK_SET(d.partial_ = partial);
  constexpr decl example(const char* json) const CUBOID_SDK_SET(d.examples_[d.n_examples_++] = json);
#undef CUBOID_SDK_SET

  constexpr int find_param(Text name) const {
    for (int i = 0; i < n_params_; ++i)
      if (params_[std::size_t(i)].name() == name) return i;
    return -1;
  }

  struct Pair {
    const char *name = "", *text = "";
  };
  struct Bytes {
    const char* formula = "";
    Trust trust = Trust::unknown;
  };
  struct Output {
    const char* name = "";
    Delivery delivery = Delivery::automatic;
    const char *likely = "", *slab = "";
  };
  const char *id_, *signature_, *doc_, *types_ = "", *modes_ = "", *core_ = "", *splittable_ = "", *partial_ = "";
  char regions_ = 's';
  std::uint32_t flags_ = 0;
  int n_params_ = 0, n_halo_ = 0, n_outputs_ = 0, n_examples_ = 0;
  Bytes call_, state_{"0", Trust::exact}, outside_;
  std::array<Param, 24> params_{};
  std::array<Pair, 8> halo_{};
  std::array<Output, 8> outputs_{};
  std::array<const char*, 8> examples_{};
};

namespace detail {

// Which names a formula may use.
struct Visible {
  const decl& meta;
  const Signature& signature;
  const TypeVariables& types;
  bool axes, halos_and_sizes;

  constexpr bool operator()(Text name, double&) const {
    const int param = meta.find_param(name);
    if (param >= 0) return meta.params_[std::size_t(param)].numeric();
    if (axes && signature.has_axis(name)) return true;
    if (!halos_and_sizes) return false;
    if (name.substr(0, 5) == "halo_") return signature.has_axis(name.substr(5));
    return name.substr(0, 5) == "size_" && types.find(name.substr(5)) != nullptr;
  }
};

constexpr void check_formula(Text text, const Visible& names) {
  require(!text.empty() && text.size() <= 1024, "formula: empty, or longer than 1024 bytes");
  Formula<Visible>(text, names, false).value();
}

constexpr void check_id(Text id) {
  Scanner scan{id};
  const Text vendor = scan.word();
  require(is_identifier(vendor) && scan.eat("."), "id: 'vendor.name/revision' expected");
  require(is_identifier(scan.word()) && scan.eat("/"), "id: 'vendor.name/revision' expected");
  const Text revision = scan.word();
  require(!revision.empty() && revision.size() <= 6 && revision[0] != '0', "id: a revision of 1 to 999999 expected");
  for (const char c : revision) require(is_digit(c), "id: a revision of 1 to 999999 expected");
  require(scan.done() && id.find(' ') == Text::npos, "id: something behind the revision");
}

// Calls `each(item)` for the items of "a, b" or "a|b".
template <class Each>
constexpr void split(Text list, char separator, Each each) {
  while (!trimmed(list).empty()) {
    const std::size_t end = list.find(separator);
    each(trimmed(list.substr(0, end)));
    if (end == Text::npos) return;
    list.remove_prefix(end + 1);
  }
}

struct EachMode {
  constexpr void operator()(Text mode) const {
    require(mode == "reflect" || mode == "nearest" || mode == "constant" || mode == "wrap" || mode == "clip",
            "modes: of reflect, nearest, constant, wrap, clip");
  }
};
struct EachAxis {
  const Signature& signature;
  constexpr void operator()(Text axis) const { require(signature.has_axis(axis), "an axis that no input has"); }
};

constexpr void check_types(const Signature& signature, const TypeVariables& types) {
  for (std::uint32_t k = 0; k < signature.n_in + signature.n_out; ++k) {
    const Text type = signature.arrays[k].type;
    if (type_index(type) >= 0) continue;
    require(types.find(type) != nullptr, "signature: a type variable that `types` does not list");
    bool in_input = false;
    for (std::uint32_t i = 0; i < signature.n_in; ++i) in_input = in_input || signature.arrays[i].type == type;
    require(in_input, "signature: a type variable of an output that no input has");
  }
}

constexpr void check_params(const decl& meta, const Signature& signature) {
  for (int i = 0; i < meta.n_params_; ++i) {
    const Text name = meta.params_[std::size_t(i)].name();
    require(is_identifier(name) && !is_reserved(name) && !signature.has_axis(name) && meta.find_param(name) == i,
            "parameter: its name is no identifier, reserved, that of an axis, or taken");
  }
}

constexpr void check_bytes(const decl::Bytes& bytes, const Visible& names) {
  const Text formula = bytes.formula;
  require(!formula.empty(), "memory: call_bytes and outside_bytes have no default: state them, or \"unknown\"");
  const bool word = formula == "unknown" || formula == "callback";
  require(word == (bytes.trust == Trust::unknown), "memory: a formula needs a trust; unknown and callback have none");
  if (!word) check_formula(formula, names);
}

constexpr bool check(const decl& meta) {
  check_id(meta.id_);
  const Signature signature = parse_signature(meta.signature_);
  const TypeVariables types = parse_types(meta.types_);
  check_types(signature, types);
  check_params(meta, signature);
  const Visible params{meta, signature, types, false, false}, extents{meta, signature, types, true, false},
      all{meta, signature, types, true, true};
  for (std::uint32_t k = 0; k < signature.n_out; ++k)
    for (std::uint16_t d = 0; d < signature.out(k).rank; ++d)
      if (signature.out(k).extent[d] != "?") check_formula(signature.out(k).extent[d], extents);
  for (int i = 0; i < meta.n_halo_; ++i) {
    require(signature.has_axis(meta.halo_[std::size_t(i)].name), "halo: an axis that no input has");
    check_formula(meta.halo_[std::size_t(i)].text, params);
  }
  require((meta.n_halo_ > 0) == (Text(meta.modes_).size() > 0), "halo: `halo` and `modes` go together");
  split(meta.modes_, '|', EachMode{});
  split(meta.core_, ',', EachAxis{signature});
  split(meta.splittable_, ',', EachAxis{signature});
  check_bytes(meta.call_, all);
  check_bytes(meta.state_, all);
  check_bytes(meta.outside_, all);
  for (int i = 0; i < meta.n_outputs_; ++i) {
    const decl::Output& output = meta.outputs_[std::size_t(i)];
    bool found = false;
    for (std::uint32_t k = 0; k < signature.n_out; ++k) found = found || signature.out(k).name == output.name;
    require(found, "output: a name that the signature does not have");
    require((output.delivery == Delivery::push) == (Text(output.slab).size() > 0), "output: `slab` goes with push");
    if (!Text(output.likely).empty()) check_formula(output.likely, extents);
    if (!Text(output.slab).empty()) check_formula(output.slab, all);
  }
  if (!Text(meta.partial_).empty()) parse_signature(meta.partial_, true);
  return true;
}

// Writes JSON; with a null destination it only counts.
struct Sink {
  char* to = nullptr;
  std::size_t size = 0;

  constexpr void put(char c) {
    if (to) to[size] = c;
    ++size;
  }
  constexpr void raw(Text text) {
    for (const char c : text) put(c);
  }
  constexpr void quoted(Text text) {
    put('"');
    for (const char c : text) {
      if (c == '"' || c == '\\') put('\\');
      if (c == '\n') {
        raw("\\n");
        continue;
      }
      require(static_cast<unsigned char>(c) >= 0x20, "text: a control character");
      put(c);
    }
    put('"');
  }
  constexpr void whole(std::int64_t value) {
    char digits[20]{};
    int count = 0;
    std::uint64_t rest = value < 0 ? 0 - std::uint64_t(value) : std::uint64_t(value);
    do digits[count++] = char('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) put('-');
    while (count) put(digits[--count]);
  }
  // Decimal m * 10^-k or m * 10^k with m below 2^53 and k at most 22 is exact: reading it gives the same double.
  constexpr void number(double value) {
    if (value < 0) put('-');
    const double magnitude = value < 0 ? -value : value;
    constexpr double kLimit = 9007199254740992.0;
    double power = 1;
    for (int k = 0; k <= 22; ++k, power *= 10) {
      if (magnitude * power < kLimit) {
        const auto digits = std::int64_t(magnitude * power + 0.5);
        if (double(digits) / power == magnitude) return scientific(digits, -k);
      }
      const auto digits = std::int64_t(magnitude / power < kLimit ? magnitude / power + 0.5 : 0);
      if (double(digits) * power == magnitude) return scientific(digits, k);
    }
    require(false, "parameter: a number that needs more than 15 digits, or is beyond 1e37");
  }
  constexpr void key(Text name, bool& first) {
    if (!first) put(',');
    first = false;
    quoted(name);
    put(':');
  }

 private:
  constexpr void scientific(std::int64_t digits, int exponent) {
    if (exponent >= 0 || exponent < -15) {
      whole(digits);
      if (exponent == 0) return;
      put('e');
      return whole(exponent);
    }
    std::int64_t power = 1;
    for (int i = 0; i > exponent; --i) power *= 10;
    whole(digits / power);
    put('.');
    for (std::int64_t rest = digits % power; power > 1; rest %= power) put(char('0' + rest / (power /= 10)));
  }
};

constexpr void write_list(Sink& out, Text list, char separator, bool quote) {
  bool first = true;
  out.put('[');
  while (!trimmed(list).empty()) {
    const std::size_t end = list.find(separator);
    if (!first) out.put(',');
    first = false;
    const Text item = trimmed(list.substr(0, end));
    quote ? out.quoted(item) : out.raw(item);
    list = end == Text::npos ? Text() : list.substr(end + 1);
  }
  out.put(']');
}

constexpr Text type_name(Param::Kind kind) {
  switch (kind) {
    case Param::kBool:
      return "bool";
    case Param::kInt:
      return "int";
    case Param::kReal:
      return "float";
    case Param::kText:
      return "string";
    case Param::kInts:
      return "int[]";
    case Param::kReals:
      return "float[]";
    case Param::kTexts:
      break;
  }
  return "string[]";
}

constexpr void write_param(Sink& out, const Param& p) {
  bool first = true;
  out.put('{');
  out.key("name", first), out.quoted(p.name());
  out.key("type", first), out.quoted(type_name(p.kind()));
  if (!p.has_default_) {
    out.key("required", first), out.raw("true");
  } else {
    out.key("default", first);
    if (p.kind() == Param::kBool)
      out.raw(p.whole_ ? "true" : "false");
    else if (p.kind() == Param::kInt)
      out.whole(p.whole_);
    else if (p.kind() == Param::kReal)
      out.number(p.number_);
    else if (p.kind() == Param::kText)
      out.quoted(p.text_);
    else
      out.raw(p.text_);
  }
  if (p.has_min_) out.key("min", first), out.number(p.min_);
  if (p.has_max_) out.key("max", first), out.number(p.max_);
  if (p.min_items_ >= 0) out.key("min_items", first), out.whole(p.min_items_);
  if (p.max_items_ >= 0) out.key("max_items", first), out.whole(p.max_items_);
  if (!Text(p.choices_).empty())
    out.key("choices", first), write_list(out, p.choices_, '|', p.kind() == Param::kText || p.kind() == Param::kTexts);
  if (!Text(p.doc_).empty()) out.key("doc", first), out.quoted(p.doc_);
  out.put('}');
}

constexpr void write_regions(Sink& out, const decl& d) {
  bool first = true;
  out.put('{');
  out.key("kind", first);
  out.quoted(d.regions_ == 'h' ? "halo" : d.regions_ == 'a' ? "all" : d.regions_ == 'c' ? "callback" : "same");
  if (d.regions_ == 'h') {
    out.key("halo", first), out.put('{');
    bool first_axis = true;
    for (int i = 0; i < d.n_halo_; ++i)
      out.key(d.halo_[std::size_t(i)].name, first_axis), out.quoted(d.halo_[std::size_t(i)].text);
    out.put('}');
    out.key("modes", first), write_list(out, d.modes_, '|', true);
    out.key("default", first), out.quoted(trimmed(Text(d.modes_).substr(0, Text(d.modes_).find('|'))));
  }
  if (!Text(d.core_).empty()) out.key("core", first), write_list(out, d.core_, ',', true);
  out.put('}');
}

constexpr void write_bytes(Sink& out, Text name, const decl::Bytes& bytes, bool& first) {
  out.key(name, first), out.put('{');
  bool inner = true;
  out.key("expr", inner), out.quoted(bytes.formula);
  if (bytes.trust != Trust::unknown) {
    out.key("trust", inner);
    out.quoted(bytes.trust == Trust::exact ? "exact" : bytes.trust == Trust::bound ? "bound" : "guess");
  }
  out.put('}');
}

constexpr void write_outputs(Sink& out, const decl& d) {
  constexpr Text kDelivery[] = {"", "fill", "trim", "emit", "grow", "push"};
  bool first = true;
  out.put('{');
  for (int i = 0; i < d.n_outputs_; ++i) {
    const decl::Output& output = d.outputs_[std::size_t(i)];
    out.key(output.name, first), out.put('{');
    bool inner = true;
    if (output.delivery != Delivery::automatic)
      out.key("delivery", inner), out.quoted(kDelivery[std::size_t(output.delivery)]);
    if (!Text(output.likely).empty()) out.key("likely", inner), out.quoted(output.likely);
    if (!Text(output.slab).empty()) out.key("slab", inner), out.quoted(output.slab);
    out.put('}');
  }
  out.put('}');
}

constexpr void write_types(Sink& out, const decl& d) {
  const TypeVariables types = parse_types(d.types_);
  bool first = true;
  out.put('{');
  for (std::uint32_t i = 0; i < types.count; ++i) {
    out.key(types.list[i].name, first), out.put('[');
    bool any = false;
    for (int t = 0; t < 13; ++t) {
      if (!(types.list[i].mask >> t & 1)) continue;
      if (any) out.put(',');
      any = true;
      out.quoted(kTypes[t].name);
    }
    out.put(']');
  }
  out.put('}');
}

constexpr void write_flags(Sink& out, std::uint32_t flags) {
  constexpr Text kNames[] = {"pure", "reentrant", "state_local", "threads", "in_place", "fork_safe"};
  bool any = false;
  out.put('[');
  for (int i = 0; i < 6; ++i) {
    if (!(flags >> i & 1)) continue;
    if (any) out.put(',');
    any = true;
    out.quoted(kNames[i]);
  }
  out.put(']');
}

constexpr void write_function(Sink& out, const decl& d) {
  bool first = true;
  out.put('{');
  out.key("id", first), out.quoted(d.id_);
  out.key("doc", first), out.quoted(d.doc_);
  out.key("signature", first), out.quoted(d.signature_);
  if (!Text(d.types_).empty()) out.key("types", first), write_types(out, d);
  out.key("params", first), out.put('[');
  for (int i = 0; i < d.n_params_; ++i) {
    if (i) out.put(',');
    write_param(out, d.params_[std::size_t(i)]);
  }
  out.put(']');
  out.key("regions", first), write_regions(out, d);
  if (d.n_outputs_) out.key("outputs", first), write_outputs(out, d);
  out.key("memory", first), out.put('{');
  bool inner = true;
  write_bytes(out, "call_bytes", d.call_, inner);
  write_bytes(out, "state_bytes", d.state_, inner);
  write_bytes(out, "outside_bytes", d.outside_, inner);
  out.put('}');
  out.key("flags", first), write_flags(out, d.flags_);
  out.key("splittable", first), write_list(out, d.splittable_, ',', true);
  if (!Text(d.partial_).empty()) {
    out.key("combine", first), out.put('{');
    bool only = true;
    out.key("partial", only), out.quoted(d.partial_), out.put('}');
  }
  out.key("examples", first), out.put('[');
  for (int i = 0; i < d.n_examples_; ++i) {
    if (i) out.put(',');
    out.raw(d.examples_[std::size_t(i)]);
  }
  out.raw("]}");
}

// What CUBOID_PLUGIN names is a function (has `meta`) or a recipe (has `recipe`: its manifest entry as JSON).
template <class F, class = void>
struct IsRecipe : std::false_type {};
template <class F>
struct IsRecipe<F, std::void_t<decltype(F::recipe)>> : std::true_type {};

template <class F>
constexpr void write_one(Sink& out, bool recipes, bool& any) {
  if constexpr (IsRecipe<F>::value) {
    if (!recipes) return;
    if (any) out.put(',');
    any = true;
    out.raw(F::recipe);
  } else {
    if (recipes) return;
    if (any) out.put(',');
    any = true;
    write_function(out, F::meta);
  }
}

template <class Identity, class... Functions>
constexpr std::size_t write_manifest(char* to) {
  Sink out{to};
  bool first = true;
  out.put('{');
  out.key("schema", first), out.put('1');
  out.key("name", first), out.quoted(Identity::name);
  out.key("version", first), out.quoted(Identity::version);
  out.key("abi", first);
  out.raw("{\"major\":"), out.whole(CUBOID_MAJOR), out.raw(",\"needs_minor\":"), out.whole(CUBOID_NEEDS_MINOR),
      out.put('}');
  for (const bool recipes : {false, true}) {
    if (recipes && !(IsRecipe<Functions>::value || ...)) break;
    out.key(recipes ? "recipes" : "functions", first), out.put('[');
    bool any = false;
    (write_one<Functions>(out, recipes, any), ...);
    out.put(']');
  }
  out.put('}');
  return out.size;
}

template <std::size_t Size>
struct Blob {
  cuboid_blob_head head;
  char json[Size];
};
template <class Identity, class... Functions>
constexpr auto make_blob() {
  constexpr std::size_t size = write_manifest<Identity, Functions...>(nullptr);
  Blob<size> blob{
      {{'C', 'U', 'B', 'O', 'I', 'D', 'M', '1'}, sizeof(cuboid_blob_head), CUBOID_MAJOR, CUBOID_NEEDS_MINOR, size}, {}};
  write_manifest<Identity, Functions...>(blob.json);
  return blob;
}

}  // namespace detail

// ---- Part 2: a call
// --------------------------------------------------------------------------------------------------

// Thrown by everything below; the border turns it into a status. `needed`: bytes the whole call needs, where known.
class Failure : public std::exception {
 public:
  Failure(cuboid_status status, std::string message, std::uint64_t needed = 0)
      : status_(status), needed_(needed), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  cuboid_status status() const { return status_; }
  std::uint64_t needed() const { return needed_; }

 private:
  cuboid_status status_;
  std::uint64_t needed_;
  std::string message_;
};
// A refusal by the host's allocator.
struct Refused : std::bad_alloc {
  const char* what() const noexcept override { return "the host refused memory"; }
};

template <class T>
constexpr cuboid_dtype dtype_of() {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, bool>)
    return {'b', 0, 1};
  else if constexpr (std::is_floating_point_v<Plain>)
    return {'f', 0, sizeof(Plain)};
  else if constexpr (std::is_integral_v<Plain>)
    return {std::uint8_t(std::is_signed_v<Plain> ? 'i' : 'u'), 0, sizeof(Plain)};
  else
    return {'c', 0, sizeof(Plain)};  // std::complex
}
constexpr bool same(cuboid_dtype a, cuboid_dtype b) { return a.kind == b.kind && a.bytes == b.bytes; }

// `count` elements that somebody else owns.
template <class T>
class Span {
 public:
  constexpr Span(T* data, std::size_t count) : data_(data), count_(count) {}
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_;
  std::size_t count_;
};

// A typed window with R axes. Extents and strides are copied into it, so that a compiler keeps them in registers. For
// speed work on rows (runs along the last axis), not on single elements.
template <class T, int R>
class View {
  static constexpr std::size_t kSlots = R > 0 ? R : 1;
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;

 public:
  explicit View(const cuboid_view& v) : data_(static_cast<Byte*>(v.data)), view_(&v) {
    if (v.rank != R || !same(v.dtype, dtype_of<T>()))
      throw Failure(CUBOID_E_DTYPE, "a view was asked for with another type or rank than the signature's");
    for (int d = 0; d < R; ++d) shape_[std::size_t(d)] = v.shape[d], stride_[std::size_t(d)] = v.stride_bytes[d];
  }
  std::int64_t extent(int d) const { return shape_[std::size_t(d)]; }
  std::int64_t stride_bytes(int d) const { return stride_[std::size_t(d)]; }
  const std::array<std::int64_t, kSlots>& shape() const { return shape_; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int d = 0; d < R; ++d) n *= extent(d);
    return n;
  }
  // The element at the given index; not checked.
  template <class... I>
  T& operator()(I... i) const {
    static_assert(sizeof...(I) == R, "one index per axis");
    return *reinterpret_cast<T*>(data_ + offset(i...));
  }

  // Place in the whole array, and the interior (the block without halo) as indices into this view.
  std::int64_t origin(int d) const { return view_->origin[d]; }
  std::int64_t whole(int d) const { return view_->whole[d]; }
  std::int64_t inner_origin(int d) const { return view_->inner_origin[d]; }
  std::int64_t inner_extent(int d) const { return view_->inner_shape[d]; }

  // Whether rows are contiguous: then row(i...) is the row itself.
  bool unit_stride() const { return stride_[kSlots - 1] == std::int64_t(sizeof(T)) || extent(R - 1) <= 1; }
  template <class... I>
  T* row(I... i) const {
    static_assert(sizeof...(I) == R - 1, "one index per axis but the last");
    return reinterpret_cast<T*>(data_ + offset(i...));
  }
  // The row as contiguous elements: itself, or a copy in `spare` (extent(R-1) elements).
  template <class... I>
  const T* read_row(std::remove_const_t<T>* spare, I... i) const {
    const T* from = row(i...);
    if (unit_stride()) return from;
    const Byte* at = reinterpret_cast<const char*>(from);
    for (std::int64_t x = 0; x < extent(R - 1); ++x, at += stride_[kSlots - 1])
      spare[x] = *reinterpret_cast<const T*>(at);
    return spare;
  }
  // Where to write a row contiguously, and its end: begin_row gives the row itself, or `spare`, which end_row copies.
  template <class... I>
  T* begin_row(T* spare, I... i) const {
    return unit_stride() ? row(i...) : spare;
  }
  template <class... I>
  void end_row(const T* written, I... i) const {
    T* to = row(i...);
    if (to == written) return;
    Byte* at = reinterpret_cast<Byte*>(to);
    for (std::int64_t x = 0; x < extent(R - 1); ++x, at += stride_[kSlots - 1]) *reinterpret_cast<T*>(at) = written[x];
  }
  const cuboid_view& raw() const { return *view_; }

 private:
  template <class... I>
  std::int64_t offset(I... i) const {
    std::int64_t bytes = 0;
    std::size_t d = 0;
    ((bytes += std::int64_t(i) * stride_[d++]), ...);
    return bytes;
  }

  Byte* data_;
  std::array<std::int64_t, kSlots> shape_{}, stride_{};
  const cuboid_view* view_;
};

// Memory of the host as a std::pmr resource: any pmr container is accounted. Not for several threads at once.
class Accounted final : public std::pmr::memory_resource {
 public:
  explicit Accounted(cuboid_call* call) : call_(call) {}
  void bind(cuboid_call* call) { call_ = call; }  // null: nothing may be allocated

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    void* memory = nullptr;
    if (!call_ || call_->host->acquire(call_, bytes, align, "std::pmr", &memory) != CUBOID_OK) throw Refused();
    return memory;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    if (call_) call_->host->release(call_, memory);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  cuboid_call* call_;
};

template <class T>
class Rows;

// What a function sees. Every member throws Failure or Refused where the host says no; let them pass.
class Call {
 public:
  Call(cuboid_call* call, const decl& meta, void* state, std::pmr::memory_resource* memory)
      : call_(call), meta_(&meta), state_(state), own_memory_(call), memory_(memory ? memory : &own_memory_) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  template <class T, int R>
  View<const T, R> in(std::uint32_t k) const {
    return View<const T, R>(*call_->in[k]);
  }
  template <class T, int R>
  View<T, R> out(std::uint32_t k) const {
    return View<T, R>(*call_->out[k]);
  }
  // Output k with a first extent that depends on data, filled row by row (delivery trim or grow).
  template <class T>
  Rows<T> rows(std::uint32_t k) {
    return Rows<T>(*this, k);
  }

  bool boolean(Text name) const { return value(name, Param::kBool).u.i != 0; }
  std::int64_t integer(Text name) const { return value(name, Param::kInt).u.i; }
  double real(Text name) const { return value(name, Param::kReal).u.f; }
  Text text(Text name) const {
    const cuboid_value& v = value(name, Param::kText);
    return {v.u.s, v.count};
  }
  Span<const std::int64_t> integers(Text name) const {
    const cuboid_value& v = value(name, Param::kInts);
    return {v.u.iv, v.count};
  }
  Span<const double> reals(Text name) const {
    const cuboid_value& v = value(name, Param::kReals);
    return {v.u.fv, v.count};
  }
  Span<const char* const> texts(Text name) const {
    const cuboid_value& v = value(name, Param::kTexts);
    return {v.u.sv, v.count};
  }

  // `count` elements, not initialised, gone when the function returns; counts as one request.
  template <class T>
  Span<T> scratch(std::int64_t count) const {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (count < 0 || std::uint64_t(count) > std::numeric_limits<std::uint64_t>::max() / 2 / sizeof(T))
      throw Failure(CUBOID_E_INTERNAL, "scratch of an impossible size");
    void* memory = nullptr;
    if (host().scratch(call_, std::uint64_t(count) * sizeof(T), alignof(T) < 64 ? 64 : alignof(T), &memory))
      throw Refused();
    return {static_cast<T*>(memory), std::size_t(count)};
  }
  std::pmr::memory_resource* memory() const { return memory_; }
  // Memory that goes past the host, around its use.
  void charge(std::int64_t delta) const {
    if (host().charge(call_, delta)) throw Refused();
  }
  std::uint64_t headroom() const {
    std::uint64_t limit = 0, used = 0;
    host().headroom(call_, &limit, &used);
    return limit > used ? limit - used : 0;
  }

  void trim(std::uint32_t k, std::int64_t rows) const {
    std::array<std::int64_t, CUBOID_MAX_RANK> shape{};
    for (int d = 0; d < call_->out[k]->rank; ++d) shape[std::size_t(d)] = d ? call_->out[k]->shape[d] : rows;
    check(host().trim(call_, k, shape.data()), "the result does not fit its capacity");
  }
  // The buffer of an output with delivery emit, at its final shape.
  template <class T, int R>
  View<T, R> emit(std::uint32_t k, const std::array<std::int64_t, std::size_t(R)>& shape) const {
    const cuboid_view* view = nullptr;
    check(host().emit(call_, k, shape.data(), &view), "no buffer of the final shape");
    return View<T, R>(*view);
  }
  void grow(std::uint32_t k, std::int64_t rows) const {
    std::array<std::int64_t, CUBOID_MAX_RANK> shape{};
    for (int d = 0; d < call_->out[k]->rank; ++d) shape[std::size_t(d)] = d ? call_->out[k]->shape[d] : rows;
    const cuboid_view* view = nullptr;
    check(host().grow(call_, k, shape.data(), &view), "the result cannot grow further");
  }
  // Appends `rows` contiguous rows of output k (delivery push).
  template <class T>
  void push(std::uint32_t k, const T* data, std::int64_t rows) const {
    const cuboid_view& out = *call_->out[k];
    if (!same(out.dtype, dtype_of<T>())) throw Failure(CUBOID_E_DTYPE, "pushed rows are of another type");
    std::array<std::int64_t, CUBOID_MAX_RANK> shape{}, stride{};
    std::int64_t step = sizeof(T);
    for (int d = out.rank - 1; d >= 0; --d) {
      shape[std::size_t(d)] = d ? out.shape[d] : rows;
      stride[std::size_t(d)] = step;
      step *= shape[std::size_t(d)];
    }
    cuboid_view slab{};
    slab.size = sizeof slab, slab.rank = out.rank, slab.dtype = out.dtype, slab.alignment = alignof(T);
    slab.flags = CUBOID_V_READONLY | CUBOID_V_ROWMAJOR;
    slab.data = const_cast<T*>(data), slab.shape = shape.data(), slab.stride_bytes = stride.data();
    check(host().push(call_, k, &slab), "the host did not take a slab");
  }

  // Throws where the call was cancelled; cheap: once per row.
  void poll() const {
    if (host().cancelled(call_)) throw Failure(CUBOID_E_CANCELLED, "cancelled");
  }
  void progress(double fraction) const { host().progress(call_, fraction); }
  void log(const char* message, int level = 1) const { host().log(call_, level, message); }
  std::uint32_t lanes() const { return call_->lanes; }
  // body(i, lane) for i < n on the host's threads; lane < lanes(). In a body no member but poll() may be used. Of
  // several exceptions that of the lowest i is thrown again.
  template <class Body>
  void spread(std::uint64_t n, Body&& body) const {
    Spread<Body> job{body, {}, n, {}};
    const cuboid_status status = host().spread(call_, n, &job, &Spread<Body>::run);
    if (job.error) std::rethrow_exception(job.error);
    check(status, "parallel loop stopped");
  }
  template <class State>
  State& state() const {
    return *static_cast<State*>(state_);
  }
  cuboid_call* raw() const { return call_; }
  void check(cuboid_status status, const char* message) const {
    if (status != CUBOID_OK) throw Failure(status, message);
  }

 private:
  template <class Body>
  struct Spread {
    Body& body;
    std::mutex mutex;
    std::uint64_t first;
    std::exception_ptr error;
    static void run(void* self, std::uint64_t i, std::uint32_t lane) noexcept {
      auto& job = *static_cast<Spread*>(self);
      try {
        job.body(i, lane);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(job.mutex);
        if (i < job.first || !job.error) job.first = i, job.error = std::current_exception();
      }
    }
  };
  const cuboid_host& host() const { return *call_->host; }
  const cuboid_value& value(Text name, Param::Kind kind) const {
    const int i = meta_->find_param(name);
    if (i < 0 || meta_->params_[std::size_t(i)].kind() != kind || std::uint32_t(i) >= call_->n_param)
      throw Failure(CUBOID_E_INTERNAL, "no parameter '" + std::string(name) + "' of the type asked for");
    return *call_->param[i];
  }

  cuboid_call* call_;
  const decl* meta_;
  void* state_;
  Accounted own_memory_;
  std::pmr::memory_resource* memory_;
};

// Fills an output whose first extent depends on data, in order. Counts on past the capacity without writing, so that
// `finish` fails with the number of rows needed; with delivery grow it asks for more room first. `finish` must be
// called.
template <class T>
class Rows {
 public:
  Rows(Call& call, std::uint32_t k) : call_(call), k_(k) {
    const cuboid_view& out = *call.raw()->out[k];
    if (!same(out.dtype, dtype_of<T>()) || out.rank < 1 || out.rank > 2)
      throw Failure(CUBOID_E_DTYPE, "rows: the output has another type, or neither one nor two axes");
    look();
  }
  std::int64_t count() const { return count_; }
  void add(std::initializer_list<T> row) { append(row.begin(), std::int64_t(row.size())); }
  void add(T value) { append(&value, 1); }
  void append(const T* row, std::int64_t columns) {
    if (columns != columns_) throw Failure(CUBOID_E_INTERNAL, "rows: a row of another length than the output's");
    if (count_ == capacity_ && growing_) enlarge();
    if (count_ < capacity_) {
      char* at = data_ + count_ * stride_;
      for (std::int64_t c = 0; c < columns; ++c, at += column_stride_) *reinterpret_cast<T*>(at) = row[c];
    }
    ++count_;
  }
  void finish() { call_.trim(k_, count_); }
  // Lets the output grow (only with delivery grow).
  Rows&& growing() && {
    growing_ = true;
    return std::move(*this);
  }

 private:
  void look() {
    const cuboid_view& out = *call_.raw()->out[k_];
    data_ = static_cast<char*>(out.data);
    capacity_ = out.shape[0], stride_ = out.stride_bytes[0];
    columns_ = out.rank == 2 ? out.shape[1] : 1;
    column_stride_ = out.rank == 2 ? out.stride_bytes[1] : 0;
  }
  void enlarge() {
    call_.grow(k_, capacity_ + capacity_ / 2 + 16);
    look();
  }

  Call& call_;
  std::uint32_t k_;
  char* data_ = nullptr;
  std::int64_t count_ = 0, capacity_ = 0, stride_ = 0, columns_ = 1, column_stride_ = 0;
  bool growing_ = false;
};

// The arrays of a partial result (docs/plugin-manifest.md, Combine).
class Partial {
 public:
  explicit Partial(const cuboid_view* const* views) : views_(views) {}
  template <class T, int R>
  View<T, R> at(std::uint32_t k) const {
    return View<T, R>(*views_[k]);
  }

 private:
  const cuboid_view* const* views_;
};

// ---- Part 3: the border
// ----------------------------------------------------------------------------------------------
namespace detail {

// A state: made by F::State(Call&), where F has one.
template <class F, class = void>
struct StateOf {
  static constexpr bool exists = false;
};
template <class F>
struct StateOf<F, std::void_t<typename F::State>> {
  static constexpr bool exists = true;
  struct Box {
    Accounted memory;
    typename F::State state;
    Box(cuboid_call* call, const decl& meta) : memory(call), state(make(call, meta, memory)) {}
    static typename F::State make(cuboid_call* call, const decl& meta, Accounted& memory) {
      Call c(call, meta, nullptr, &memory);
      return typename F::State(c);
    }
  };
};

template <class Body>
cuboid_status guarded(cuboid_call* call, Body&& body) noexcept {
  const auto fail = [call](cuboid_status status, std::uint64_t needed, const char* text) {
    return call->host->fail(call, status, needed, text);
  };
  try {
    body();
    return CUBOID_OK;
  } catch (const Failure& e) {
    return fail(e.status(), e.needed(), e.what());
  } catch (const Refused& e) {
    return fail(CUBOID_E_BUDGET, 0, e.what());
  } catch (const std::bad_alloc&) {
    return fail(CUBOID_E_BUDGET, 0, "memory from outside the host was refused (std::bad_alloc)");
  } catch (const std::exception& e) {
    return fail(CUBOID_E_THROWN, 0, e.what());
  } catch (...) {
    return fail(CUBOID_E_THROWN, 0, "an exception that is no std::exception");
  }
}

template <int I>
struct ElementOf;
#define CUBOID_SDK_ELEMENT(I, T) \
  template <>                    \
  struct ElementOf<I> {          \
    using type = T;              \
  }
CUBOID_SDK_ELEMENT(0, bool);
CUBOID_SDK_ELEMENT(1, std::int8_t);
CUBOID_SDK_ELEMENT(2, std::int16_t);
CUBOID_SDK_ELEMENT(3, std::int32_t);
CUBOID_SDK_ELEMENT(4, std::int64_t);
CUBOID_SDK_ELEMENT(5, std::uint8_t);
CUBOID_SDK_ELEMENT(6, std::uint16_t);
CUBOID_SDK_ELEMENT(7, std::uint32_t);
CUBOID_SDK_ELEMENT(8, std::uint64_t);
CUBOID_SDK_ELEMENT(9, float);
CUBOID_SDK_ELEMENT(10, double);
CUBOID_SDK_ELEMENT(11, std::complex<float>);
CUBOID_SDK_ELEMENT(12, std::complex<double>);
#undef CUBOID_SDK_ELEMENT

// The function's first type variable: its types, and the first input that has it.
template <class F>
struct FirstVariable {
  static constexpr TypeVariables variables = parse_types(F::meta.types_);
  static constexpr std::uint32_t mask = variables.count ? variables.list[0].mask : 0;
  static constexpr std::uint32_t input() {
    const Signature signature = parse_signature(F::meta.signature_);
    for (std::uint32_t k = 0; k < signature.n_in; ++k)
      if (variables.count && signature.arrays[k].type == variables.list[0].name) return k;
    return 0;
  }
};

template <class F, class = void>
struct RunsUntyped : std::false_type {};
template <class F>
struct RunsUntyped<F, std::void_t<decltype(F::run(std::declval<Call&>()))>> : std::true_type {};

template <class F, int I, class Body>
bool call_if(cuboid_dtype dtype, Body& body) {
  if constexpr ((FirstVariable<F>::mask >> I & 1) != 0) {
    if (!same(dtype, kTypes[I].dtype)) return false;
    body(typename ElementOf<I>::type());
    return true;
  } else {
    return false;
  }
}
template <class F, class Body, int... I>
bool call_any(cuboid_dtype dtype, Body& body, std::integer_sequence<int, I...>) {
  return (call_if<F, I>(dtype, body) || ...);
}

}  // namespace detail

// body(T()) for the element type T that the first type variable of function F has in this call.
template <class F, class Body>
void for_type(Call& call, Body&& body) {
  const cuboid_dtype dtype = call.raw()->in[detail::FirstVariable<F>::input()]->dtype;
  if (!detail::call_any<F>(dtype, body, std::make_integer_sequence<int, 13>()))
    throw Failure(CUBOID_E_DTYPE, "an element type that is not in `types`");
}

namespace detail {

// F::run(Call&), or F::run<T>(Call&) for the type of the first variable.
template <class F>
void run_function(Call& call) {
  if constexpr (RunsUntyped<F>::value)
    F::run(call);
  else
    for_type<F>(call, [&](auto typed) { F::template run<decltype(typed)>(call); });
}

template <class F>
void* user_state(void* state) {
  if constexpr (StateOf<F>::exists)
    return &static_cast<typename StateOf<F>::Box*>(state)->state;
  else
    return nullptr;
}

template <class F>
struct Border {
  static cuboid_status open(cuboid_call* call, void** state) noexcept {
    *state = nullptr;
    if constexpr (StateOf<F>::exists) {
      using Box = typename StateOf<F>::Box;
      void* memory = nullptr;
      if (const auto refused =
              call->host->acquire(call, sizeof(Box), alignof(Box) < 64 ? 64 : alignof(Box), "state", &memory))
        return refused;
      const cuboid_status status = guarded(call, [&] { new (memory) Box(call, F::meta); });
      if (status != CUBOID_OK) {
        call->host->release(call, memory);
        return status;
      }
      static_cast<Box*>(memory)->memory.bind(nullptr);
      *state = memory;
    }
    (void)call;
    return CUBOID_OK;
  }
  static void close(cuboid_call* call, void* state) noexcept {
    if constexpr (StateOf<F>::exists) {
      auto* box = static_cast<typename StateOf<F>::Box*>(state);
      box->memory.bind(call);
      box->~Box();
      call->host->release(call, state);
    }
    (void)call, (void)state;
  }
  template <class Body>
  static cuboid_status with(void* state, cuboid_call* raw, Body&& body) noexcept {
    return guarded(raw, [&] {
      Call call(raw, F::meta, user_state<F>(state), nullptr);
      body(call);
    });
  }
  static cuboid_status run(void* state, cuboid_call* raw) noexcept {
    return with(state, raw, [](Call& c) { run_function<F>(c); });
  }
  static cuboid_status init(void* state, cuboid_call* raw, const cuboid_view* const* partial) noexcept {
    return with(state, raw, [&](Call& c) { F::init(c, Partial(partial)); });
  }
  static cuboid_status accumulate(void* state, cuboid_call* raw, const cuboid_view* const* partial) noexcept {
    return with(state, raw, [&](Call& c) { F::accumulate(c, Partial(partial)); });
  }
  static cuboid_status merge(void* state, cuboid_call* raw, const cuboid_view* const* into,
                             const cuboid_view* const* from) noexcept {
    return with(state, raw, [&](Call& c) { F::merge(c, Partial(into), Partial(from)); });
  }
  static cuboid_status finalize(void* state, cuboid_call* raw, const cuboid_view* const* partial) noexcept {
    return with(state, raw, [&](Call& c) { F::finalize(c, Partial(partial)); });
  }
};

template <class F, class = void>
struct InferOf {
  static constexpr auto value = static_cast<decltype(cuboid_fn::infer)>(nullptr);
};
template <class F>
struct InferOf<F, std::void_t<decltype(&F::infer)>> {
  static constexpr decltype(cuboid_fn::infer) value = &F::infer;
};
template <class F, class = void>
struct RegionsOf {
  static constexpr auto value = static_cast<decltype(cuboid_fn::regions)>(nullptr);
};
template <class F>
struct RegionsOf<F, std::void_t<decltype(&F::regions)>> {
  static constexpr decltype(cuboid_fn::regions) value = &F::regions;
};

template <class F>
constexpr cuboid_fn make_function() {
  static_assert(check(F::meta), "the declaration of a function is malformed");
  constexpr Signature signature = parse_signature(F::meta.signature_);
  constexpr bool reduces = !Text(F::meta.partial_).empty();
  cuboid_fn fn{};
  fn.size = sizeof fn, fn.flags = F::meta.flags_, fn.id = F::meta.id_;
  fn.n_in = signature.n_in, fn.n_out = signature.n_out, fn.n_param = std::uint32_t(F::meta.n_params_);
  fn.infer = InferOf<F>::value;
  fn.regions = RegionsOf<F>::value;
  if constexpr (StateOf<F>::exists) fn.open = &Border<F>::open, fn.close = &Border<F>::close;
  if constexpr (reduces)
    fn.init = &Border<F>::init, fn.accumulate = &Border<F>::accumulate, fn.merge = &Border<F>::merge,
    fn.finalize = &Border<F>::finalize;
  else
    fn.run = &Border<F>::run;
  return fn;
}

// The table of functions; recipes have no code.
template <class F>
struct Entry {
  static constexpr cuboid_fn function = make_function<F>();
  static constexpr const cuboid_fn* pointer = &function;
};
struct NoEntry {
  static constexpr const cuboid_fn* pointer = nullptr;
};
template <class... Functions>
constexpr auto make_table() {
  std::array<const cuboid_fn*, sizeof...(Functions)> table{};
  std::size_t n = 0;
  for (const cuboid_fn* fn : {std::conditional_t<IsRecipe<Functions>::value, NoEntry, Entry<Functions>>::pointer...})
    if (fn) table[n++] = fn;
  return table;
}

template <class Identity, class... Functions>
struct Library {
  static constexpr auto table = make_table<Functions...>();
  static constexpr cuboid_plugin plugin = {sizeof(cuboid_plugin),
                                           CUBOID_NEEDS_MINOR,
                                           Identity::name,
                                           Identity::version,
                                           std::uint32_t((!IsRecipe<Functions>::value + ...)),
                                           0,
                                           table.data(),
                                           nullptr};

  static const cuboid_plugin* hello(const cuboid_hello* hello, const char** why) noexcept {
    if (hello->major == CUBOID_MAJOR && hello->max_minor + 1 > CUBOID_NEEDS_MINOR) return &plugin;
    *why = "the host is older than this plugin needs, or of another major version";
    return nullptr;
  }
};

}  // namespace detail
}  // namespace cuboid::sdk

namespace cuboid {
using sdk::decl;
}

// Once per library, at namespace scope: the manifest section and the one exported symbol.
#define CUBOID_PLUGIN(NAME, VERSION, ...)                                                                       \
  namespace {                                                                                                   \
  struct cuboid_identity {                                                                                      \
    static constexpr const char* name = NAME;                                                                   \
    static constexpr const char* version = VERSION;                                                             \
  };                                                                                                            \
  CUBOID_SECTION constexpr auto cuboid_manifest_blob =                                                          \
      ::cuboid::sdk::detail::make_blob<cuboid_identity, __VA_ARGS__>();                                         \
  }                                                                                                             \
  extern "C" CUBOID_EXPORT const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) { \
    return ::cuboid::sdk::detail::Library<cuboid_identity, __VA_ARGS__>::hello(hello, why);                     \
  }

#endif  // CUBOID_PLUGIN_HPP
