#include "engine/run/protocol.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace cuboid::protocol {
namespace {

Error nonsense(const std::string& what) {
  return Error(ErrorKind::corrupt, "a worker process and its coordinator do not understand each other (" + what +
                                       "): are cuboid and cuboid-worker of one version?");
}

bool is_known(Type type) {
  return (type >= Type::setup && type <= Type::ask) || (type >= Type::hello && type <= Type::told);
}

class Encoder {
 public:
  explicit Encoder(Type type) {
    put(std::uint32_t{0});
    put(type);
  }
  template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) Encoder& put(T value) {
    frame_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Encoder& put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    frame_.append(text);
    return *this;
  }
  Encoder& put(const Shape& shape) {
    put(static_cast<std::uint64_t>(shape.size()));
    for (std::int64_t extent : shape) put(extent);
    return *this;
  }
  std::string frame() {
    const auto bytes = static_cast<std::uint32_t>(frame_.size() - sizeof(std::uint32_t));
    if (frame_.size() - sizeof bytes > kMaxFrame) throw nonsense("a message is too long");
    std::memcpy(frame_.data(), &bytes, sizeof bytes);
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const char> payload) : rest_(payload) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <class E>
  E get_enum(E last) {
    const auto value = get<std::underlying_type_t<E>>();
    if (value > static_cast<std::underlying_type_t<E>>(last)) throw nonsense("an unknown number");
    return static_cast<E>(value);
  }
  bool get_bool() { return get<std::uint8_t>() != 0; }
  // A count of things of at least `least` bytes each: never more than what is there.
  std::size_t count(std::size_t least) {
    const auto value = get<std::uint64_t>();
    if (value > rest_.size() / least) throw nonsense("a message ends early");
    return static_cast<std::size_t>(value);
  }
  std::string text() {
    const auto bytes = take(count(1));
    return {bytes.data(), bytes.size()};
  }
  Shape shape() {
    Shape shape(count(sizeof(std::int64_t)));
    for (std::int64_t& extent : shape) extent = get<std::int64_t>();
    return shape;
  }
  void end() const {
    if (!rest_.empty()) throw nonsense("a message is longer than it should be");
  }

 private:
  std::span<const char> take(std::size_t bytes) {
    if (bytes > rest_.size()) throw nonsense("a message ends early");
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  std::span<const char> rest_;
};

void put_error(Encoder& to, const std::optional<Error>& error) {
  to.put(static_cast<std::uint8_t>(error.has_value()));
  if (!error) return;
  to.put(error->kind()).put(error->message()).put(static_cast<std::uint64_t>(error->context().size()));
  for (const auto& [key, value] : error->context()) to.put(key).put(value);
}

std::optional<Error> get_error(Decoder& from) {
  if (!from.get_bool()) return std::nullopt;
  const auto kind = static_cast<ErrorKind>(from.get<std::underlying_type_t<ErrorKind>>());
  if (to_string(kind) == "unknown") throw nonsense("an unknown kind of error");
  Error error(kind, from.text());
  for (std::size_t left = from.count(2 * sizeof(std::uint64_t)); left > 0; --left) {
    std::string key = from.text();
    error.add(std::move(key), from.text());
  }
  return error;
}

void put_order(Encoder& to, const TaskOrder& order) {
  to.put(order.stage).put(order.block).put(order.attempt).put(order.limit).put(order.allowance).put(order.splits);
}

TaskOrder get_order(Decoder& from) {
  TaskOrder order;
  order.stage = from.get<int>();
  order.block = from.get<std::int64_t>();
  order.attempt = from.get<int>();
  order.limit = from.get<std::uint64_t>();
  order.allowance = from.get<std::uint64_t>();
  order.splits = from.get<std::int64_t>();
  return order;
}

void put_result(Encoder& to, const TaskResult& result) {
  to.put(result.account_peak).put(result.call_peak).put(static_cast<std::uint64_t>(result.written.size()));
  for (const WrittenChunk& chunk : result.written) {
    to.put(chunk.array).put(chunk.chunk).put(chunk.written.bytes).put(chunk.written.crc32c);
    to.put(chunk.piece).put(chunk.extents);
  }
  to.put(static_cast<std::uint64_t>(result.read.size()));
  for (const ReadChunk& chunk : result.read)
    to.put(chunk.array).put(chunk.chunk).put(chunk.stored.bytes).put(chunk.stored.crc32c);
}

TaskResult get_result(Decoder& from) {
  TaskResult result;
  result.account_peak = from.get<std::uint64_t>();
  result.call_peak = from.get<std::uint64_t>();
  result.written.resize(from.count(40));
  for (WrittenChunk& chunk : result.written) {
    chunk.array = from.get<int>();
    chunk.chunk = from.get<std::int64_t>();
    chunk.written.bytes = from.get<std::uint64_t>();
    chunk.written.crc32c = from.get<std::uint32_t>();
    chunk.piece = from.text();
    chunk.extents = from.shape();
  }
  result.read.resize(from.count(24));
  for (ReadChunk& chunk : result.read) {
    chunk.array = from.get<int>();
    chunk.chunk = from.get<std::int64_t>();
    chunk.stored.bytes = from.get<std::uint64_t>();
    chunk.stored.crc32c = from.get<std::uint32_t>();
  }
  return result;
}

void put_pieces(Encoder& to, const PieceList& list) {
  to.put(static_cast<std::uint64_t>(list.pieces.size()));
  for (const PieceList::Piece& piece : list.pieces) {
    to.put(piece.key).put(piece.extents).put(piece.block);
  }
  to.put(list.offsets);
}

PieceList get_pieces(Decoder& from) {
  PieceList list;
  list.pieces.resize(from.count(24));
  for (PieceList::Piece& piece : list.pieces) {
    piece.key = from.text();
    piece.extents = from.shape();
    piece.block = from.get<std::int64_t>();
  }
  list.offsets = from.shape();
  return list;
}

}  // namespace

std::string encode(const Setup& setup) {
  Encoder to(Type::setup);
  to.put(setup.run_dir).put(static_cast<std::uint64_t>(setup.plugins.size()));
  for (const std::string& plugin : setup.plugins) to.put(plugin);
  return to.frame();
}

Setup decode_setup(std::span<const char> payload) {
  Decoder from(payload);
  Setup setup{from.text(), {}};
  for (std::size_t left = from.count(sizeof(std::uint64_t)); left > 0; --left) setup.plugins.push_back(from.text());
  from.end();
  return setup;
}

std::string encode(const Task& task) {
  Encoder to(Type::task);
  put_order(to, task.order);
  to.put(task.generation).put(static_cast<std::uint64_t>(task.pieces.size()));
  for (const auto& [array, list] : task.pieces) {
    to.put(array);
    put_pieces(to, *list);
  }
  return to.frame();
}

Task decode_task(std::span<const char> payload) {
  Decoder from(payload);
  Task task;
  task.order = get_order(from);
  task.generation = from.get<int>();
  for (std::size_t left = from.count(20); left > 0; --left) {
    const int array = from.get<int>();
    task.pieces[array] = std::make_shared<const PieceList>(get_pieces(from));
  }
  from.end();
  return task;
}

std::string encode(const Answer& answer) {
  return Encoder(Type::answer)
      .put(static_cast<std::uint8_t>(answer.granted))
      .put(answer.limit)
      .put(answer.allowance)
      .frame();
}

Answer decode_answer(std::span<const char> payload) {
  Decoder from(payload);
  Answer answer;
  answer.granted = from.get_bool();
  answer.limit = from.get<std::uint64_t>();
  answer.allowance = from.get<std::uint64_t>();
  from.end();
  return answer;
}

std::string encode(const Hello& hello) {
  Encoder to(Type::hello);
  to.put(hello.baseline);
  put_error(to, hello.error);
  return to.frame();
}

Hello decode_hello(std::span<const char> payload) {
  Decoder from(payload);
  Hello hello;
  hello.baseline = from.get<std::uint64_t>();
  hello.error = get_error(from);
  from.end();
  return hello;
}

std::string encode(const Finished& finished) {
  Encoder to(Type::finished);
  const TaskEvent& event = finished.event;
  to.put(event.what).put(event.evidence).put(event.needed).put(event.peak).put(event.seconds);
  for (const auto& bound : {event.bound_needed, event.bound_output})
    to.put(static_cast<std::uint8_t>(bound.has_value())).put(bound.value_or(0));
  put_error(to, event.error);
  put_result(to, event.result);
  to.put(finished.baseline).put(finished.kept);
  return to.frame();
}

Finished decode_finished(std::span<const char> payload) {
  Decoder from(payload);
  Finished finished;
  TaskEvent& event = finished.event;
  event.what = from.get_enum(TaskEvent::What::exceeded);
  event.evidence = from.get_enum(Evidence::unknown);
  event.needed = from.get<std::uint64_t>();
  event.peak = from.get<std::uint64_t>();
  event.seconds = from.get<double>();
  for (auto* bound : {&event.bound_needed, &event.bound_output}) {
    const bool is_there = from.get_bool();
    const auto value = from.get<std::int64_t>();
    if (is_there) *bound = value;
  }
  event.error = get_error(from);
  event.result = get_result(from);
  finished.baseline = from.get<std::uint64_t>();
  finished.kept = from.get<std::uint64_t>();
  from.end();
  if (event.what != TaskEvent::What::done && !event.error) throw nonsense("a failure without an error");
  return finished;
}

std::string encode(Type growth_or_refused, const Growth& growth) {
  return Encoder(growth_or_refused).put(growth.wanted).put(growth.peak).put(growth.evidence).frame();
}

Growth decode_growth(std::span<const char> payload) {
  Decoder from(payload);
  Growth growth;
  growth.wanted = from.get<std::uint64_t>();
  growth.peak = from.get<std::uint64_t>();
  growth.evidence = from.get_enum(Evidence::unknown);
  from.end();
  return growth;
}

std::string encode_text(Type type, const std::string& text) {
  // A plugin's log line must not fill the coordinator.
  const std::size_t kLongest = type == Type::log ? 64u << 10 : text.size();
  Encoder to(type);
  to.put(text.substr(0, kLongest));
  return to.frame();
}

std::string decode_text(std::span<const char> payload) {
  Decoder from(payload);
  std::string text = from.text();
  from.end();
  return text;
}

std::string encode(Type bare) { return Encoder(bare).frame(); }

std::optional<FrameReader::Frame> FrameReader::next() {
  std::uint32_t bytes = 0;
  if (buffer_.size() < sizeof bytes) return std::nullopt;
  std::memcpy(&bytes, buffer_.data(), sizeof bytes);
  if (bytes == 0 || bytes > kMaxFrame) throw nonsense("a message of impossible length");
  if (buffer_.size() == sizeof bytes) return std::nullopt;
  if (!is_known(static_cast<Type>(buffer_[sizeof bytes]))) throw nonsense("a message of an unknown type");
  if (buffer_.size() - sizeof bytes < bytes) return std::nullopt;
  Frame frame{static_cast<Type>(buffer_[sizeof bytes]), buffer_.substr(sizeof bytes + 1, bytes - 1)};
  buffer_.erase(0, sizeof bytes + bytes);
  return frame;
}

}  // namespace cuboid::protocol
