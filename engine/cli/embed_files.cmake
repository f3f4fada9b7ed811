# cmake -DFOLDER=DIR "-DFILES=a;b" -DOUTPUT=x.cc -P embed_files.cmake: files of DIR as bytes, for embedded_files.h.
set(arrays "")
set(table "")
set(number 0)
foreach(file IN LISTS FILES)
  file(READ ${FOLDER}/${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char file_${number}[] = {\n${bytes}};\n")
  string(APPEND table "    {\"${file}\", {reinterpret_cast<const char*>(file_${number}), sizeof file_${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT}
"#include \"engine/cli/embedded_files.h\"

namespace cuboid {
namespace {
${arrays}}  // namespace

const std::vector<EmbeddedFile>& sdk_files() {
  static const std::vector<EmbeddedFile> files{
${table}  };
  return files;
}

}  // namespace cuboid
")
