// Elements as text: what `array cat` prints and what metadata shows.
#pragma once
#include <functional>
#include <string>

#include "storage/types.h"

namespace cuboid {

enum class ElementForm : std::uint8_t { json, plain };

// Appends one element. JSON: floats that JSON lacks as "NaN", "Infinity", "-Infinity"; complex as [re, im]; integers
// exact; floats by the fewest digits that read back the same. Plain: nan, inf, 1+2j, true.
void append_element(std::string& text, DType dtype, const std::byte* element, ElementForm form);

// Calls `each` on every element of a view in C order.
void for_each_element(const ConstView& view, const std::function<void(const std::byte*)>& each);

// The dtype as NumPy's files spell it: "<f8", "|b1". Throws Error{unsupported} for one that they lack.
std::string npy_descriptor(DType dtype);
// The bytes before the elements of a .npy file, in C order.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace cuboid
