#include "engine/check/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/error.h"

namespace cuboid::check {
namespace {

constexpr std::int64_t kGap = 3;  // elements

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

ArrayMemory::ArrayMemory(DType dtype, const Shape& shape, Layout layout, Fence fence, std::byte filler)
    : filler_(filler) {
  Shape strides(shape.size());
  auto span = static_cast<std::int64_t>(dtype.size);
  for (std::size_t a = shape.size(); a-- > 0;) {
    strides[a] = span;
    span *= std::max<std::int64_t>(shape[a], 1);
    if (layout == Layout::padded && a + 1 == shape.size()) span += kGap * static_cast<std::int64_t>(dtype.size);
  }
  // The gap behind the last row is no part of the array.
  const std::int64_t gap =
      layout == Layout::padded && !shape.empty() ? kGap * static_cast<std::int64_t>(dtype.size) : 0;
  const auto bytes = static_cast<std::size_t>(element_count(shape) == 0 ? 0 : span - gap);
  const std::size_t page = page_bytes();
  room_bytes_ = (bytes + page - 1) / page * page + (fence == Fence::none ? 2 * page : page);
  region_bytes_ = room_bytes_ + 2 * page;
  void* region = ::mmap(nullptr, region_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw Error(ErrorKind::io, std::string("cannot map memory: ") + std::strerror(errno));
  region_ = static_cast<std::byte*>(region);
  room_ = region_ + page;
  if (::mprotect(room_, room_bytes_, PROT_READ | PROT_WRITE) != 0)
    throw Error(ErrorKind::io, std::string("cannot protect memory: ") + std::strerror(errno));
  std::memset(room_, std::to_integer<int>(filler_), room_bytes_);
  std::byte* data = room_;
  if (fence == Fence::behind) data = room_ + room_bytes_ - bytes;
  if (fence == Fence::none) data = room_ + page + (layout == Layout::padded ? dtype.size : 0);
  if (layout == Layout::reversed && bytes > 0)
    for (std::size_t a = 0; a < shape.size(); ++a) data += strides[a] * (shape[a] - 1), strides[a] = -strides[a];
  view_ = View{dtype, data, shape, std::move(strides)};
}

ArrayMemory::ArrayMemory(ArrayMemory&& other) noexcept
    : region_(std::exchange(other.region_, nullptr)),
      region_bytes_(other.region_bytes_),
      room_(other.room_),
      room_bytes_(other.room_bytes_),
      filler_(other.filler_),
      view_(std::move(other.view_)) {}

ArrayMemory::~ArrayMemory() {
  if (region_) ::munmap(region_, region_bytes_);
}

void ArrayMemory::protect() { ::mprotect(room_, room_bytes_, PROT_READ); }

bool ArrayMemory::intact() const {
  std::vector<bool> element(room_bytes_, false);
  if (element_count(view_.shape) > 0) {
    Shape index(view_.shape.size(), 0);
    for (std::int64_t n = element_count(view_.shape); n > 0; --n) {
      std::ptrdiff_t at = view_.data - room_;
      for (std::size_t a = 0; a < index.size(); ++a) at += index[a] * view_.strides[a];
      for (std::size_t b = 0; b < view_.dtype.size; ++b) element[static_cast<std::size_t>(at) + b] = true;
      for (std::size_t a = index.size(); a-- > 0;) {
        if (++index[a] < view_.shape[a]) break;
        index[a] = 0;
      }
    }
  }
  for (std::size_t b = 0; b < room_bytes_; ++b)
    if (!element[b] && room_[b] != filler_) return false;
  return true;
}

}  // namespace cuboid::check
