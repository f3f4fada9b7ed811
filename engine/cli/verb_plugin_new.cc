#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/embedded_files.h"
#include "engine/plugin/signature.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplate = "template/";

std::string with_name(std::string text, const std::string& name) {
  constexpr std::string_view kPlace = "@NAME@";
  for (std::size_t at = 0; (at = text.find(kPlace, at)) != std::string::npos; at += name.size())
    text.replace(at, kPlace.size(), name);
  return text;
}

void write(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error(ErrorKind::io, path.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace

int plugin_new_command(const PluginCommand& command) {
  const fs::path folder = fs::absolute(command.directory).lexically_normal();
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  if (!is_identifier(name))
    throw Error(ErrorKind::invalid, in_quotes(name) +
                                        " cannot be a plugin's name: expected a lower-case letter, then lower-case "
                                        "letters, digits and _; choose another DIR");
  std::error_code failed;
  if (fs::exists(folder, failed) && !fs::is_empty(folder, failed))
    throw Error(ErrorKind::invalid, folder.string() + " exists and is not empty: choose another DIR");
  std::vector<std::string> written;
  try {
    for (const EmbeddedFile& file : sdk_files()) {
      const bool own = file.path.substr(0, kTemplate.size()) == kTemplate;
      const std::string path = own ? std::string(file.path.substr(kTemplate.size())) : "sdk/" + std::string(file.path);
      write(folder / path, own ? with_name(std::string(file.bytes), name) : std::string(file.bytes));
      if (own) written.push_back(path);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::io, std::string("cannot be written: ") + error.what());
  }
  if (command.common.json) {
    print_json({{"name", name}, {"path", folder.string()}, {"files", written}});
    return kExitDone;
  }
  std::cout << "wrote " << folder.string() << ": plugin " << name << ", function " << name << ".above\n\n"
            << "  cmake -S " << command.directory << " -B " << command.directory << "/build\n"
            << "  cmake --build " << command.directory << "/build && ctest --test-dir " << command.directory
            << "/build\n"
            << "  cuboid plugin check " << command.directory << "/build/lib" << name << ".so\n";
  return kExitDone;
}

}  // namespace cuboid
