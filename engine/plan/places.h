// Where outputs may be written.
#pragma once
#include <string>

namespace cuboid {

// The same place in one spelling, absolute, whatever way it is written and whether or not it is there yet; URLs as they
// are.
std::string place(const std::string& location);
// Whether `inner` is `outer` or lies below it; both as place() spells them.
bool inside(const std::string& inner, const std::string& outer);

// Throws Error{invalid} where an output would lie in or around the input at `input`, which messages call `input_name`.
void check_apart(const std::string& output, const std::string& input_name, const std::string& input);
// Throws Error{invalid} where an array or a group is there already. Asks the store.
void check_nothing_there(const std::string& output);

}  // namespace cuboid
