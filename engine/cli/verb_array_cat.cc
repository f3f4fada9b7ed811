#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/element_text.h"
#include "engine/cli/open_array.h"
#include "engine/cli/selection.h"
#include "engine/cli/settings.h"

namespace cuboid {
namespace {

constexpr std::size_t kDefaultSlab = 64u << 20;  // bytes of elements read at once
constexpr std::size_t kFlush = 1u << 20;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail_io(const std::string& what) { throw Error(ErrorKind::io, what + ": " + std::strerror(errno)); }

void write_all(std::FILE* file, std::string_view bytes, const std::string& what) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) fail_io(what);
}

// Text on its way to standard output. A whole object or nothing: what is held back beyond 16 MiB waits in a temporary
// file, so that an error in the last chunk still leaves standard output empty.
class HeldOutput {
 public:
  void append(std::string_view text) {
    text_ += text;
    if (text_.size() >= 16u << 20) spill();
  }
  void finish() {
    if (file_) {
      spill();
      std::rewind(file_.get());
      std::vector<char> piece(kFlush);
      for (std::size_t got; (got = std::fread(piece.data(), 1, piece.size(), file_.get())) > 0;)
        write_all(stdout, {piece.data(), got}, "standard output");
    } else {
      write_all(stdout, text_, "standard output");
    }
    if (std::fflush(stdout) != 0) fail_io("standard output");
  }

 private:
  void spill() {
    if (!file_) file_.reset(std::tmpfile());
    if (!file_) fail_io("a temporary file");
    write_all(file_.get(), text_, "a temporary file");
    text_.clear();
  }
  std::string text_;
  File file_;
};

struct Reading {
  const std::variant<ZarrArray, StringArray>& array;
  Selection selection;
  std::size_t slab;

  std::string type() const {
    const auto* strings = std::get_if<StringArray>(&array);
    return strings ? strings->type() : type_name(std::get<ZarrArray>(array).dtype());
  }
  void each(const std::function<void(const ConstView&)>& take) const {
    MemoryAccount account;
    read_selection(std::get<ZarrArray>(array), selection, slab, account, take);
  }
  void each_as_text(ElementForm form, const std::function<void(std::string_view)>& take) const {
    std::string text;
    if (const auto* strings = std::get_if<StringArray>(&array)) {
      std::vector<Shape> indices;
      for (const Selection::Axis& axis : selection.axes) {
        Shape& along = indices.emplace_back();
        for (std::int64_t k = 0; k < axis.count; ++k) along.push_back(axis.start + axis.step * k);
      }
      MemoryAccount account(2 * slab);
      strings->read(indices, account, [&](std::string_view element) {
        text.clear();
        append_string(text, element, strings->is_text(), form);
        take(text);
      });
      return;
    }
    each([&](const ConstView& view) {
      for_each_element(view, [&](const std::byte* element) {
        text.clear();
        append_element(text, view.dtype, element, form);
        take(text);
      });
    });
  }
};

void cat_json(const Reading& reading) {
  HeldOutput output;
  const nlohmann::json shape = reading.selection.shape();
  output.append("{\"shape\": " + shape.dump() + ", \"dtype\": \"" + reading.type() + "\", \"data\": [");
  bool first = true;
  std::string text;
  reading.each_as_text(ElementForm::json, [&](std::string_view element) {
    if (!first) text += ", ";
    first = false;
    text += element;
    if (text.size() >= kFlush) {
      output.append(text);
      text.clear();
    }
  });
  output.append(text + "]}\n");
  output.finish();
}

// A line a row of the last axis, an empty line between planes.
void cat_text(const Reading& reading) {
  const Shape shape = reading.selection.shape();
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  const std::int64_t plane = shape.size() < 3 ? 0 : row * shape[shape.size() - 2];
  std::int64_t at = 0;
  std::string text;
  reading.each_as_text(ElementForm::plain, [&](std::string_view element) {
    if (at > 0 && at % row != 0) text += ' ';
    if (plane > 0 && at > 0 && at % plane == 0) text += '\n';
    text += element;
    if (++at % row == 0) text += '\n';
    if (text.size() >= kFlush) {
      write_all(stdout, text, "standard output");
      text.clear();
    }
  });
  write_all(stdout, text, "standard output");
  if (std::fflush(stdout) != 0) fail_io("standard output");
}

void write_elements(const Reading& reading, std::FILE* file, const std::string& name) {
  write_all(file, npy_header(std::get<ZarrArray>(reading.array).dtype(), reading.selection.shape()), name);
  MemoryAccount account;
  reading.each([&](const ConstView& view) {
    Buffer dense = account.acquire(byte_count(view.shape, view.dtype));
    copy_elements(view, make_view(dense.data(), view.dtype, view.shape));
    write_all(file, {reinterpret_cast<const char*>(dense.data()), dense.size()}, name);
  });
  if (std::fflush(file) != 0) fail_io(name);
}

// The file appears whole or not at all.
void cat_npy(const Reading& reading, const std::string& path) {
  if (path == "-") return write_elements(reading, stdout, "standard output");
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  File file(std::fopen(temporary.c_str(), "wbx"));
  if (!file) throw Error(ErrorKind::invalid, "--npy: " + path + ": " + std::strerror(errno));
  try {
    write_elements(reading, file.get(), path);
    file.reset();
    if (std::rename(temporary.c_str(), path.c_str()) != 0) fail_io(path);
  } catch (...) {
    std::remove(temporary.c_str());
    throw;
  }
}

}  // namespace

int array_cat_command(const ArrayCommand& command) {
  const auto array = open_any_array_at(command.path);
  const Shape& shape = std::visit([](const auto& a) -> const Shape& { return a.shape(); }, array);
  // Half of a stated budget for elements: the rest is for a chunk on its way and for text.
  const std::size_t slab = command.common.memory.empty() ? kDefaultSlab : memory_budget(command.common) / 2;
  const Reading reading{array, parse_selection(command.box, shape), slab};
  if (!command.npy.empty() && std::holds_alternative<StringArray>(array))
    throw Error(ErrorKind::unsupported, "--npy: NumPy's files hold no strings of any length: take --json");
  if (!command.npy.empty()) {
    cat_npy(reading, command.npy);
    if (command.common.json)
      print_json({{"shape", reading.selection.shape()}, {"dtype", reading.type()}, {"npy", command.npy}});
  } else if (command.common.json) {
    cat_json(reading);
  } else {
    cat_text(reading);
  }
  return kExitDone;
}

}  // namespace cuboid
