// Computes a kernel as the executor does, block by block, on arrays that lie in plain memory.
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

// An array that owns its elements, in C order.
struct TestArray {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;

  TestArray() = default;
  TestArray(DType type, Shape extents);
  View view() { return make_view(bytes.data(), dtype, shape); }
  ConstView view() const { return make_view(bytes.data(), dtype, shape); }
  friend bool operator==(const TestArray&, const TestArray&) = default;
};

template <class T>
TestArray test_array(DType dtype, Shape shape, const std::vector<T>& values) {
  TestArray array(dtype, std::move(shape));
  std::memcpy(array.bytes.data(), values.data(), values.size() * sizeof(T));
  return array;
}

// How a reduction's blocks are put together.
enum class Merging { one_by_one, two_halves };

// The result of an output, computed in blocks of at most `block` of the kernel's domain. Checks what a kernel promises
// of boxes and extents on the way (throws std::logic_error). Of a ragged output the pieces of all blocks, put together;
// where they are runs, merged in turns of few rows.
TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs, const Shape& block,
                   Merging merging = Merging::one_by_one, std::size_t output = 0);
// The same in one block.
TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs, std::size_t output = 0);
// The same in blocks of 1/divisor of every axis of the domain; of a kernel that is expanded, every call in such blocks.
TestArray evaluate_in_parts(const Kernel& kernel, const std::vector<ConstView>& inputs, std::int64_t divisor,
                            Merging merging = Merging::one_by_one, std::size_t output = 0);
// Whether the kernel, or a call that it is expanded to, is a reduction.
bool reduces(const Kernel& kernel);

}  // namespace cuboid
